"use strict";
// The address map: cells of equal size, coloured by what they hold; metadata shows through everything else.

const LEVELS = [1, 0.1, 0.01, 0]; // least share of metadata for each shade, strongest first

function hilbert(side, d) {
  let x = 0, y = 0;
  for (let s = 1; s < side; s *= 2) {
    const rx = 1 & (d / 2), ry = 1 & (d ^ rx);
    if (ry === 0) { if (rx === 1) { x = s - 1 - x; y = s - 1 - y; } [x, y] = [y, x]; }
    x += s * rx; y += s * ry;
    d = Math.floor(d / 4);
  }
  return [x, y];
}

function cellPlaces(order) {
  const [columns, rows] = order === "hilbert" ? [128, 128] : [256, 64];
  const column = new Uint16Array(columns * rows), row = new Uint16Array(columns * rows);
  const cell = new Int32Array(columns * rows);
  for (let i = 0; i < columns * rows; i++) {
    let x = i % columns, y = Math.floor(i / columns);
    if (order === "snake" && y % 2) x = columns - 1 - x;
    if (order === "hilbert") [x, y] = hilbert(128, i);
    column[i] = x; row[i] = y; cell[y * columns + x] = i;
  }
  return { columns, rows, column, row, cell };
}

function mix(a, b, share) {
  const part = (hex, i) => parseInt(hex.slice(1 + 2 * i, 3 + 2 * i), 16);
  return `rgb(${[0, 1, 2].map((i) => Math.round(part(a, i) * share + part(b, i) * (1 - share))).join(",")})`;
}

class AddressMap {
  constructor(disk, holder, scale) {
    // The same spans for every disk: one scale. The first view is the part in use, where there is something to see.
    this.disk = disk; this.holder = holder; this.full = scale.span; this.used = scale.used;
    this.from = disk.start; this.to = disk.start + scale.used;
    this.hidden = new Set(); this.order = "linear"; this.tileCache = new Map(); this.marks = []; this.head = null;
    this.maxXid = Infinity;
  }

  async build() {
    this.overview = await segmentsOf(this.disk.overview);
    this.nodes = await nodesOf(this.disk.nodes);
    this.names = this.disk.names ? JSON.parse(new TextDecoder().decode(await inflate(this.disk.names))) : {};
    this.plot = element("div", { class: "plot map" });
    this.strip = element("canvas", { class: "strip", title: "the whole disk; click to go there", width: 1024, height: 32 });
    this.info = element("div", { class: "hover", role: "status" }, "Point at a cell to see what it holds; click to zoom in.");
    this.caption = element("span", { class: "muted caption" });
    this.holder.append(this._controls(), this._legend(), this.strip, this.plot, this.info);
    this.strip.addEventListener("click", (e) => {
      const middle = this.disk.start + (e.offsetX / this.strip.clientWidth) * this.full;
      this.show(middle - (this.to - this.from) / 2, this.to - this.from);
    });
    await this.draw();
    this.plot.on("plotly_hover", (e) => this.describe(this.cellOf(e)));
    this.plot.on("plotly_click", (e) => this.zoom(1 / 16, this.cellOf(e)));
  }

  _controls() {
    const button = (text, title, action) => element("button", { type: "button", title, onclick: action }, text);
    const orders = element("select", { title: "how addresses run through the picture", onchange: (e) => { this.order = e.target.value; this.draw(); } },
      ...["linear", "snake", "hilbert"].map((name) => element("option", { value: name }, name)));
    return element("div", { class: "bar" }, button("+", "zoom in on the middle", () => this.zoom(1 / 4)),
      button("−", "zoom out", () => this.zoom(4)), button("whole disk", "zoom out fully", () => this.show(this.disk.start, this.full)),
      button("part in use", "what is in use, nearly all of it", () => this.show(this.disk.start, this.used)),
      button("metadata", "zoom to the span of the metadata", () => this.showMetadata()), orders, this.caption);
  }

  _legend() {
    const bar = element("div", { class: "bar legend" });
    this.disk.classes.forEach((c, i) => {
      const box = element("input", { type: "checkbox", checked: "" });
      box.addEventListener("change", () => { box.checked ? this.hidden.delete(i) : this.hidden.add(i); this.draw(); });
      const swatch = element("span", { class: "swatch" });
      swatch.style.background = isDark() ? c.dark : c.light;
      bar.append(element("label", {}, box, swatch, c.label));
    });
    return bar;
  }

  showMetadata() {
    let low = Infinity, high = -Infinity;
    const s = this.overview;
    for (let i = 0; i < s.start.length; i++)
      if (s.owner[i] > 0) { low = Math.min(low, s.start[i]); high = Math.max(high, s.start[i] + s.length[i]); }
    if (low < high) this.show(low, high - low);
  }

  zoom(factor, cell) {
    const size = (this.to - this.from) * factor;
    const middle = cell === undefined ? (this.from + this.to) / 2 : this.from + (cell + 0.5) * this.cellSize;
    return this.show(middle - size / 2, size);
  }

  show(from, size) {
    const block = this.disk.block, cells = 16384;
    size = Math.min(this.full, Math.max(size, cells * block));
    from = Math.min(Math.max(from, this.disk.start), this.disk.start + this.full - size);
    this.from = this.disk.start + Math.floor((from - this.disk.start) / block) * block;
    this.to = this.from + size;
    return this.draw();
  }

  async segments() {
    // Exact tiles where the view is narrow, the overview else.
    if (!this.disk.tiles.length) return [this.overview];
    const wanted = this.disk.tiles.filter((t) => t.to > this.from && t.from < this.to);
    if (wanted.length === 0 || wanted.length > 6) return [this.overview];
    for (const tile of wanted)
      if (!this.tileCache.has(tile.from)) this.tileCache.set(tile.from, await segmentsOf(tile));
    if (this.tileCache.size > 24) this.tileCache.delete(this.tileCache.keys().next().value);
    return wanted.map((t) => this.tileCache.get(t.from)).filter(Boolean);
  }

  async draw() {
    const ticket = (this.ticket = (this.ticket || 0) + 1);
    const parts = await this.segments();
    if (ticket !== this.ticket) return; // a newer view is being drawn
    this.parts = parts;
    const places = (this.places = cellPlaces(this.order));
    const cells = places.columns * places.rows;
    this.cellSize = Math.max(this.disk.block, Math.ceil((this.to - this.from) / cells / this.disk.block) * this.disk.block);
    this.to = this.from + this.cellSize * cells; // whole cells, so that the last ones are not cut off
    const shares = this.shares(cells);
    const { z, scale } = this.colours(shares, cells);
    this.caption.textContent = `bytes ${this.from.toLocaleString()} to ${this.to.toLocaleString()} · a cell is ${bytesText(this.cellSize)}`;
    const rows = [];
    for (let y = 0; y < places.rows; y++) rows.push(z.subarray(y * places.columns, (y + 1) * places.columns));
    const heat = { type: "heatmap", z: rows, zmin: 0, zmax: scale.length - 1, showscale: false, hoverinfo: "none", colorscale: this.steps(scale) };
    const layout = plotLayout({
      xaxis: { visible: false, fixedrange: true, range: [-0.5, places.columns - 0.5] },
      yaxis: { visible: false, fixedrange: true, range: [places.rows - 0.5, -0.5], ...(this.order === "hilbert" ? { scaleanchor: "x" } : {}) },
      margin: { l: 4, r: 4, t: 4, b: 4 }, showlegend: false,
    });
    await Plotly.react(this.plot, [heat, this.overlay()], layout, { ...PLOT, displayModeBar: false });
    this.drawStrip();
  }

  overlay() {
    const x = [], y = [], size = [], colour = [];
    const put = (offset, width, hue) => {
      const cell = Math.floor((offset - this.from) / this.cellSize);
      if (cell < 0 || cell >= this.places.cell.length) return;
      x.push(this.places.column[cell]); y.push(this.places.row[cell]); size.push(width); colour.push(hue);
    };
    const cells = new Set(this.marks.map((offset) => Math.floor((offset - this.from) / this.cellSize)));
    for (const cell of [...cells].slice(0, 1500)) put(this.from + cell * this.cellSize, 5, isDark() ? "#ffffff" : "#000000");
    if (this.head !== null) put(this.head, 14, "#E4002B");
    return { type: "scatter", mode: "markers", x, y, hoverinfo: "skip", marker: { size, color: colour, symbol: "circle-open", line: { width: 1.5 } } };
  }

  mark(offsets, head) {
    this.marks = offsets; this.head = head;
    const o = this.overlay();
    return Plotly.restyle(this.plot, { x: [o.x], y: [o.y], "marker.size": [o.marker.size], "marker.color": [o.marker.color] }, [1]);
  }

  shares(cells) {
    const shares = this.disk.classes.map(() => null);
    for (const s of this.parts) this.addShares(s, shares, cells);
    return (this.current = shares);
  }

  addShares(s, shares, cells) {
    const { from, to, cellSize } = this;
    for (let i = 0; i < s.start.length; i++) {
      const start = s.start[i], end = start + s.length[i];
      if (end <= from || start >= to || this.hidden.has(s.class[i])) continue;
      if (this.maxXid !== Infinity && s.owner[i] > 0 && this.nodes.xid[s.owner[i] - 1] > this.maxXid) continue;
      const density = s.filled[i] / s.length[i] / cellSize;
      const of = (shares[s.class[i]] = shares[s.class[i]] || new Float32Array(cells));
      const first = Math.max(0, Math.floor((start - from) / cellSize));
      const last = Math.min(cells - 1, Math.floor((end - 1 - from) / cellSize));
      for (let c = first; c <= last; c++) {
        const low = from + c * cellSize;
        of[c] += (Math.min(end, low + cellSize) - Math.max(start, low)) * density;
      }
    }
  }

  colours(shares, cells) {
    const classes = this.disk.classes, dark = isDark();
    const hue = (i) => (dark ? classes[i].dark : classes[i].light);
    const background = dark ? "#14171b" : "#ffffff";
    const unclaimed = classes.findIndex((c) => c.key === "unclaimed");
    const scale = [background];
    classes.forEach((c, i) => { for (let l = 0; l < LEVELS.length; l++) scale.push(mix(hue(i), dark ? "#2b3038" : "#d4d7db", [1, 0.8, 0.6, 0.45][l])); });
    const z = new Float32Array(cells);
    const end = (this.disk.start + this.disk.size - this.from) / this.cellSize;
    for (let c = 0; c < cells; c++) {
      if (c >= end) continue; // past the end of this disk
      let best = -1, most = 0, meta = -1, metaMost = 0, metaSum = 0, sum = 0;
      for (let k = 0; k < classes.length; k++) {
        const share = shares[k] ? shares[k][c] : 0;
        if (!share) continue;
        sum += share;
        if (classes[k].group === "metadata") { metaSum += share; if (share > metaMost) { metaMost = share; meta = k; } }
        else if (share > most) { most = share; best = k; }
      }
      let level = 0;
      if (meta >= 0) { best = meta; level = LEVELS.findIndex((least) => metaSum >= least * 0.5); }
      else if (!this.hidden.size && sum < 0.5 && unclaimed >= 0) best = unclaimed; // never drawn as empty
      const at = this.places.row[c] * this.places.columns + this.places.column[c];
      z[at] = best < 0 ? 0 : 1 + best * LEVELS.length + level;
    }
    return { z, scale };
  }

  steps(scale) {
    const n = scale.length;
    return scale.flatMap((colour, i) => [[i / n, colour], [(i + 1) / n, colour]]).map(([at, colour]) => [Math.min(1, at), colour]);
  }

  drawStrip() {
    const canvas = this.strip, pen = canvas.getContext("2d"), wide = canvas.width, unit = this.full / wide, dark = isDark();
    pen.fillStyle = dark ? "#1e2126" : "#f4f4f2"; pen.fillRect(0, 0, wide, 32);
    const s = this.overview;
    for (const metadata of [false, true])
      for (let i = 0; i < s.start.length; i++) {
        const c = this.disk.classes[s.class[i]];
        if ((c.group === "metadata") !== metadata || c.group === "free" || this.hidden.has(s.class[i])) continue;
        pen.fillStyle = dark ? c.dark : c.light;
        pen.fillRect((s.start[i] - this.disk.start) / unit, metadata ? 0 : 8, Math.max(metadata ? 1 : 0.2, s.length[i] / unit), metadata ? 24 : 24);
      }
    pen.strokeStyle = "#E4002B"; pen.lineWidth = 2;
    pen.strokeRect((this.from - this.disk.start) / unit, 1, Math.max(3, (this.to - this.from) / unit), 30);
  }

  cellOf(event) {
    const point = event.points[0];
    const [row, column] = point.pointNumber.length ? point.pointNumber : [point.y, point.x];
    return this.places.cell[row * this.places.columns + column];
  }

  describe(cell) {
    const low = this.from + cell * this.cellSize, high = low + this.cellSize;
    const lines = [`bytes ${low.toLocaleString()} to ${high.toLocaleString()}`];
    let known = 0;
    const held = this.disk.classes.map((c, k) => [c.label, this.current[k] ? this.current[k][cell] : 0]).filter((h) => h[1] > 0);
    for (const [, share] of held) known += share;
    held.sort((a, b) => b[1] - a[1]);
    lines.push(held.map(([label, share]) => `${label} ${(100 * Math.min(1, share)).toPrecision(3)} %`).join(" · ") + (known < 0.995 && !this.hidden.size ? ` · owner unknown or unread ${(100 * (1 - known)).toPrecision(3)} %` : ""));
    const { nodes, files } = this.ownersIn(low, high);
    for (const i of nodes.slice(0, 3)) lines.push(this.nodeText(i));
    if (nodes.length > 3) lines.push(`and ${(nodes.length - 3).toLocaleString()} more nodes`);
    if (files.length) lines.push(`data of ${files.slice(0, 4).map((id) => this.fileText(id)).join(", ")}` + (files.length > 4 ? ` and ${(files.length - 4).toLocaleString()} more files` : ""));
    this.info.textContent = lines.join("\n");
  }

  ownersIn(low, high) {
    const nodes = new Set(), files = new Set();
    for (const s of this.parts)
      for (let i = 0; i < s.start.length; i++)
        if (s.owner[i] && s.start[i] < high && s.start[i] + s.length[i] > low && s.filled[i] === s.length[i])
          s.owner[i] > 0 ? nodes.add(s.owner[i] - 1) : files.add(-s.owner[i]);
    return { nodes: [...nodes], files: [...files] };
  }

  fileText(id) {
    const name = this.names[id];
    return name === undefined ? `file ${id}` : `file ${id} “${name}”`;
  }

  nodeText(i) {
    const n = this.nodes;
    if (i >= n.tree.length) return "a node past the page's budget of details";
    const level = n.level[i] === 255 ? "" : ` · level ${n.level[i]}`;
    const xid = n.xid[i] ? ` · xid ${n.xid[i]}` : "";
    return `${n.trees[n.tree[i]]} ${n.kinds[n.kind[i]]} node ${n.id(i)}${level}${xid} · ${n.records[i]} records · keys of ${n.first(i)} to ${n.last(i)} · ${bytesText(n.size[i])} at byte ${n.offset[i].toLocaleString()}`;
  }
}
