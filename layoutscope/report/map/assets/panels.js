"use strict";
// The panels beside the address map: walk, distances, costs, history, facts.

const HUES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A6BBE", "#7A5C3E"];
const CAUSES = { seek: "#0072B2", rotation: "#D55E00", transfer: "#009E73", overhead: "#E69F00", host: "#8C8C8C" };

// Draws a walk; returns what plays it: its length, and where its head is at a time.
async function walkPanel(disk, holder, map, scale) {
  if (!disk.walks.length) { holder.append(element("p", { class: "muted" }, "No walk was predicted.")); return null; }
  const plot = element("div", { class: "plot" });
  plot.style.height = "460px";
  const choose = element("select", { title: "drive" }, ...disk.walks.map((w, i) => element("option", { value: i }, w.label)));
  const note = element("span", { class: "muted" });
  holder.append(element("div", { class: "bar" }, choose, note), plot);
  let data;
  const draw = async () => {
    const w = disk.walks[+choose.value];
    data = await unpackAll(w, ["time", "offset", "length", "tree"]);
    data.walk = w;
    note.textContent = `${w.reads.toLocaleString()} reads in ${secondsText(w.total_s)}` + (w.step > 1 ? `, of which one in ${w.step} is drawn` : "") + "; select a span of time to see its places in the map above";
    map.mark([], null);
    await Plotly.react(plot, walkTraces(disk, w, data), walkLayout(disk, w, scale), PLOT);
  };
  await draw();
  choose.addEventListener("change", draw);
  plot.on("plotly_relayout", (e) => {
    const [from, to] = e["xaxis.range"] || [e["xaxis.range[0]"], e["xaxis.range[1]"]];
    if (from !== undefined && (+from > 0 || +to < data.walk.total_s)) map.mark(placesBetween(data, +from, +to), null);
    else if (from !== undefined || e["xaxis.autorange"]) map.mark([], null);
  });
  return walkPlayer(map, () => data);
}

const TRAIL = 30; // reads that are shown behind the head

function walkPlayer(map, current) {
  return {
    total: () => current().walk.total_s,
    rest: () => map.mark([], null),
    at: (now) => {
      const { time, offset } = current();
      let low = 0, high = time.length - 1;
      while (low < high) { const m = (low + high + 1) >> 1; time[m] <= now ? (low = m) : (high = m - 1); }
      return map.mark(Array.from(offset.slice(Math.max(0, low - TRAIL), low)), offset[low]);
    },
  };
}

function placesBetween(data, from, to) {
  const inside = [];
  for (let i = 0; i < data.time.length; i++) if (data.time[i] >= from && data.time[i] <= to) inside.push(data.offset[i]);
  const step = Math.max(1, Math.ceil(inside.length / 3000));
  return inside.filter((_, i) => i % step === 0);
}

function walkTraces(disk, w, data) {
  const traces = w.trees.map((name, t) => {
    const x = [], y = [];
    for (let i = 0; i < data.time.length; i++) if (data.tree[i] === t) { x.push(data.time[i]); y.push((data.offset[i] - disk.start) / 2 ** 20); }
    const known = disk.classes.find((c) => c.key === name);
    const colour = known ? (isDark() ? known.dark : known.light) : HUES[t % HUES.length];
    return { type: "scattergl", mode: "markers", name: plain(name), x, y, marker: { size: 3, color: colour }, hovertemplate: "%{x:.3f} s<br>%{y:,.1f} MiB<extra>" + plain(name) + "</extra>" };
  }).filter((t) => t.x.length);
  const r = w.rates;
  traces.push({ type: "scatter", mode: "lines", name: "seeks per second", x: r.time, y: r.seeks, yaxis: "y2", line: { color: HUES[1], width: 1 }, showlegend: false });
  traces.push({ type: "scatter", mode: "lines", name: "MB per second", x: r.time, y: r.bytes.map((b) => b / 1e6), yaxis: "y3", line: { color: HUES[2], width: 1 }, showlegend: false });
  return traces;
}

function walkLayout(disk, w, scale) {
  return plotLayout({
    xaxis: { title: { text: "seconds since the start of the walk" }, range: [0, scale.seconds || w.total_s], anchor: "y3" },
    yaxis: { title: { text: "place on disk, MiB" }, domain: [0.42, 1], range: [-0.02 * scale.used / 2 ** 20, (1.02 * scale.used) / 2 ** 20] },
    yaxis2: { title: { text: "seeks/s" }, domain: [0.22, 0.38], rangemode: "tozero", fixedrange: true },
    yaxis3: { title: { text: "MB/s" }, domain: [0, 0.16], rangemode: "tozero", fixedrange: true },
    legend: { orientation: "h", y: 1.08 }, margin: { l: 70, r: 12, t: 26, b: 42 }, dragmode: "zoom",
  });
}

function histogramTrace(h, colour) {
  const x = ["0"], y = [h.touching];
  h.counts.forEach((n, i) => { x.push(bytesText(2 ** (h.first_power + i))); y.push(n); });
  return { type: "bar", x, y, marker: { color: colour }, hovertemplate: "from %{x}: %{y:,}<extra></extra>" };
}

function addPlot(holder, title, height, traces, layout) {
  const plot = element("div", { class: "plot" });
  plot.style.height = `${height}px`;
  holder.append(element("h3", {}, title), plot);
  return Plotly.newPlot(plot, traces, plotLayout(layout), PLOT);
}

async function orderPanel(disk, holder, scale) {
  const orders = disk.distances.key_order;
  if (!orders.length) holder.append(element("p", { class: "muted" }, "There are no leaves to compare."));
  for (const k of orders)
    await addPlot(holder, `${k.tree}: ${k.total.toLocaleString()} leaves`, 260, [await pictureTrace(k.picture, "leaf %{x:,.0f} in key order<br>%{y:,.1f} MiB")], {
      xaxis: { title: { text: "place in key order" } }, yaxis: { title: { text: "place on disk, MiB" }, range: [0, (1.02 * scale.used) / 2 ** 20] },
    });
}

async function distancePanel(disk, holder) {
  const d = disk.distances;
  const bars = (h, title) => h && h.total && addPlot(holder, title, 250, [histogramTrace(h, HUES[0])], {
    xaxis: { title: { text: "distance: this up to twice as much", standoff: 8 }, type: "category", nticks: 9, tickangle: 0, automargin: true }, yaxis: { title: { text: "count" } },
  });
  await bars(d.seek, "From the end of one read to the start of the next");
  await bars(d.to_data, "From a file's inode to its first data");
}

function costPanel(disks, holder) {
  const rows = disks.flatMap((d, i) => d.costs.map((c) => ({ ...c, title: disks.length > 1 ? `${i + 1}. ${d.title.split(":")[0]}: ${c.drive}` : c.drive })));
  if (!rows.length) return;
  const y = rows.map((r) => plain(r.title));
  const causes = [...new Set(rows.flatMap((r) => Object.keys(r.causes)))];
  const traces = causes.map((cause) => ({ type: "bar", orientation: "h", name: cause, y, x: rows.map((r) => r.causes[cause] || 0), marker: { color: CAUSES[cause] || HUES[5] }, hovertemplate: `${cause}: %{x:.3f} s<extra></extra>` }));
  if (rows.some((r) => r.bound_s !== null)) traces.push({ type: "scatter", mode: "markers", name: "packed in key order", y, x: rows.map((r) => r.bound_s), marker: { symbol: "line-ns-open", size: 18, line: { width: 3, color: isDark() ? "#fff" : "#000" } }, hovertemplate: "packed in key order: %{x:.3f} s<extra></extra>" });
  const plot = element("div", { class: "plot" });
  plot.style.height = `${110 + 34 * rows.length}px`;
  holder.append(plot);
  Plotly.newPlot(plot, traces, plotLayout({ barmode: "stack", xaxis: { title: { text: "seconds of the predicted walk, by cause" } }, yaxis: { automargin: true, autorange: "reversed" }, legend: { orientation: "h", y: 1.15 } }), PLOT);
}

// The directories with what each has in itself; those that the page does not carry are one more, below the first root.
function withOthers(d, unit) {
  const left = d.whole[unit] - d[unit].reduce((a, b) => a + b, 0), root = d.id[d.parent.findIndex((p) => !p)];
  if (d.shown === d.total || !(left > 0)) return { id: d.id, parent: d.parent, name: d.name, own: d[unit] };
  const name = `${(d.total - d.shown).toLocaleString()} others`;
  return { id: [...d.id, "others"], parent: [...d.parent, root], name: [...d.name, name], own: [...d[unit], left] };
}

function subtreeTotals(tree) {
  const place = new Map(tree.id.map((id, i) => [id, i])), totals = tree.own.slice();
  tree.own.forEach((own, i) => {
    for (let at = place.get(tree.parent[i]), steps = 0; at !== undefined && steps < tree.id.length; at = place.get(tree.parent[at]), steps++) totals[at] += own;
  });
  return totals;
}

function treemapPanel(disk, holder) {
  const d = disk.directories;
  if (!d) return;
  const plot = element("div", { class: "plot" });
  plot.style.height = "420px";
  const choose = element("select", {}, ...["seconds", "entries", "bytes"].map((k) => element("option", { value: k }, `by ${k}`)));
  const note = d.shown < d.total ? `the ${d.shown.toLocaleString()} costliest of ${d.total.toLocaleString()} directories, the others in one box` : `${d.total.toLocaleString()} directories`;
  holder.append(element("div", { class: "bar" }, choose, element("span", { class: "muted" }, note)), plot);
  const draw = () => {
    const unit = { seconds: secondsText, entries: (n) => n.toLocaleString(), bytes: bytesText }[choose.value];
    const tree = withOthers(d, choose.value), totals = subtreeTotals(tree);
    Plotly.react(plot, [{ type: "treemap", ids: tree.id, labels: tree.name.map(plain), parents: tree.parent.map((p) => p || ""), values: totals, branchvalues: "total", text: totals.map(unit), customdata: tree.own.map(unit), textinfo: "label+text", hovertemplate: "%{label}<br>%{text} in all, %{customdata} in itself<extra></extra>", maxdepth: 5, tiling: { pad: 2 }, root: { color: "rgba(0,0,0,0)" },
      marker: { colors: totals, colorscale: isDark() ? [[0, "#24384a"], [1, "#3f86bd"]] : [[0, "#eaf3fa"], [1, "#7fb8de"]], line: { width: 1, color: isDark() ? "#14171b" : "#ffffff" } }, textfont: { color: isDark() ? "#e6e9ed" : "#1b1f24" } }],
      plotLayout({ margin: { l: 4, r: 4, t: 4, b: 4 } }), { ...PLOT, displayModeBar: false });
  };
  choose.addEventListener("change", draw);
  draw();
}

// Hides nodes that are younger than a transaction; null where transactions are not numbered.
function ageSlider(disk, map) {
  const h = disk.history;
  if (!h) return null;
  const label = element("span", { class: "muted" });
  const slider = element("input", { type: "range", min: h.low, max: h.high, value: h.high, title: "show nodes written up to this transaction" });
  const tell = () => (label.textContent = +slider.value >= h.high ? `nodes of all transactions, ${h.low.toLocaleString()} to ${h.high.toLocaleString()}` : `nodes written up to transaction ${(+slider.value).toLocaleString()}`);
  const go = () => { map.maxXid = +slider.value >= h.high ? Infinity : +slider.value; tell(); return map.draw(); };
  slider.addEventListener("input", go);
  if (map.maxXid !== Infinity) slider.value = map.maxXid;
  tell();
  if (map.nodes.total > map.nodes.offset.length) {
    slider.disabled = true;
    label.textContent = "the disk has more nodes than the page carries, so that none are hidden by their age";
    return element("div", { class: "bar" }, label);
  }
  const bar = element("div", { class: "bar" }, slider, label);
  const choose = element("select", { title: "a checkpoint or snapshot" }, element("option", { value: h.high }, "live"), ...h.states.map((s) => element("option", { value: Math.min(s.xid, h.high) }, s.label)));
  choose.addEventListener("change", () => { slider.value = choose.value; go(); });
  if (h.states.length) bar.prepend(choose);
  return bar;
}

async function historyPanel(disk, holder) {
  const h = disk.history;
  if (!h) { holder.append(element("p", { class: "muted" }, "This file system does not number its transactions.")); return; }
  await addPlot(holder, "Transaction that wrote each node, over the address space", 280, [await pictureTrace(h.picture, "%{x:,.1f} MiB<br>transaction %{y:,.0f}")], {
    xaxis: { title: { text: "place on disk, MiB" } }, yaxis: { title: { text: "transaction" } },
  });
}
