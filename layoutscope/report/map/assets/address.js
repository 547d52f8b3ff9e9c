"use strict";
// The address map: cells of equal size, coloured by what they hold; metadata shows through everything else.

// Least share of metadata in a cell for each shade, strongest first, and how much of its colour the shade has.
const SHADES = [[0.5, 1], [0.2, 0.85], [0.05, 0.68], [0.02, 0.52], [0.005, 0.38], [0, 0.25]];
const HIDDEN = { light: "#E6E0F0", dark: "#332E40" }; // what the legend or the slider hides is neither free nor unknown
const SIDE = 16384; // cells of the picture
const NAMED_TILES = 12; // so many tiles of owners are unpacked for one view

const hueOf = (c) => (isDark() ? c.dark : c.light);
const shareText = (share) => (share >= 0.9995 ? "100 %" : share < 1e-4 ? "under 0.01 %" : `${(100 * share).toPrecision(3)} %`);

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

const shade = (hue, strength) => mix(hue, isDark() ? "#2b3038" : "#d4d7db", strength);

function swatch(colour) {
  const box = element("span", { class: "swatch" });
  box.style.background = colour;
  return box;
}

class AddressMap {
  constructor(disk, holder, scale) {
    // The same spans for every disk: one scale. The first view is the part in use, where there is something to see.
    this.disk = disk; this.holder = holder; this.full = scale.span; this.used = scale.used;
    this.view = { from: disk.start, size: scale.used }; this.earlier = [];
    this.hidden = new Set(); this.order = "linear"; this.tileCache = new Map(); this.marks = []; this.head = null;
    this.maxXid = Infinity;
  }

  async build() {
    this.pyramid = await Pyramid.of(this.disk);
    this.nodes = await nodesOf(this.disk.nodes);
    this.names = this.disk.names ? JSON.parse(new TextDecoder().decode(await inflate(this.disk.names))) : {};
    this.plot = element("div", { class: "plot map", tabindex: "0", role: "img", "aria-label": `map of ${this.disk.title}: plus and minus zoom, arrows move, 0 shows the whole disk, Backspace goes back` });
    this.strip = element("canvas", { class: "strip", title: "the whole disk; click to go there", width: 1024, height: 32 });
    this.info = element("div", { class: "hover", role: "status" }, "Point at a cell to see what it holds; click or turn the wheel to zoom, drag to move, Backspace goes back.");
    this.caption = element("span", { class: "muted caption" });
    this.holder.append(this._controls(), this._legend(), ...[ageSlider(this.disk, this)].filter(Boolean), this.strip, this.plot, this.info);
    this.strip.addEventListener("click", (e) => {
      const middle = this.disk.start + (e.offsetX / this.strip.clientWidth) * this.full;
      this.show(middle - this.view.size / 2, this.view.size);
    });
    await this.draw();
    this.plot.on("plotly_hover", (e) => this.describe(this.cellOf(e)));
    this.plot.on("plotly_click", (e) => { if (!this.dragged) this.zoom(1 / 16, this.cellOf(e)); });
    this._moves();
  }

  _moves() {
    this.plot.addEventListener("wheel", (e) => {
      e.preventDefault();
      this.zoom(e.deltaY > 0 ? 2 : 1 / 2, this.cellAt(e), true);
    }, { passive: false, capture: true });
    const keys = {
      "+": () => this.zoom(1 / 4), "=": () => this.zoom(1 / 4), "-": () => this.zoom(4), 0: () => this.show(this.disk.start, this.full),
      Backspace: () => this.back(), ArrowRight: () => this.move(1 / 4), ArrowLeft: () => this.move(-1 / 4), ArrowDown: () => this.move(1), ArrowUp: () => this.move(-1),
    };
    this.plot.addEventListener("keydown", (e) => { if (keys[e.key]) { e.preventDefault(); keys[e.key](); } });
    this.plot.addEventListener("pointerdown", (e) => { this.grip = { at: this.cellAt(e), from: this.from, x: e.clientX, y: e.clientY }; this.dragged = false; }, true);
    // Plotly covers the window while a button is held, so that the plot itself hears nothing.
    addEventListener("pointermove", (e) => {
      if (!this.grip || !e.buttons) return;
      if (Math.hypot(e.clientX - this.grip.x, e.clientY - this.grip.y) < 6) return;
      if (!this.dragged) this.earlier.push({ ...this.view });
      this.dragged = true;
      this.show(this.grip.from - (this.cellAt(e) - this.grip.at) * this.cellSize, this.view.size, true);
    }, true);
    addEventListener("pointerup", () => { this.grip = null; });
  }

  // The cell under a pointer; the picture fills the plot but for its margins.
  cellAt(event) {
    const { _offset: left, _length: wide } = this.plot._fullLayout.xaxis, { _offset: top, _length: high } = this.plot._fullLayout.yaxis;
    const box = this.plot.getBoundingClientRect(), clamp = (n, most) => Math.min(most - 1, Math.max(0, Math.floor(n * most)));
    const column = clamp((event.clientX - box.left - left) / wide, this.places.columns), row = clamp((event.clientY - box.top - top) / high, this.places.rows);
    return this.places.cell[row * this.places.columns + column];
  }

  _controls() {
    const button = (text, title, action) => element("button", { type: "button", title, onclick: action }, text);
    const orders = element("select", { title: "how addresses run through the picture", onchange: (e) => { this.order = e.target.value; this.draw(); } },
      ...["linear", "snake", "hilbert"].map((name) => element("option", { value: name }, name)));
    orders.value = this.order;
    return element("div", { class: "bar" }, button("+", "zoom in on the middle", () => this.zoom(1 / 4)),
      button("−", "zoom out", () => this.zoom(4)), button("whole disk", "zoom out fully", () => this.show(this.disk.start, this.full)),
      button("part in use", "what is in use, nearly all of it", () => this.show(this.disk.start, this.used)),
      button("metadata", "zoom to the span of the metadata", () => this.showMetadata()), button("back", "to the view before", () => this.back()), orders, this.caption);
  }

  _legend() {
    const bar = element("div", { class: "bar legend" });
    this.disk.classes.forEach((c, i) => {
      if (!c.bytes) return;
      const box = element("input", { type: "checkbox" });
      box.checked = !this.hidden.has(i);
      box.addEventListener("change", () => { box.checked ? this.hidden.delete(i) : this.hidden.add(i); this.draw(); });
      const size = `${bytesText(c.bytes)} in ${c.pieces.toLocaleString()} ${c.pieces === 1 ? "piece" : "pieces"}`;
      bar.append(element("label", { title: `${shareText(c.bytes / this.disk.size)} of the disk` }, box, swatch(hueOf(c)), `${c.label} `, element("span", { class: "muted" }, size)));
    });
    const shades = element("div", { class: "bar legend muted" }, "metadata in a cell: ");
    const hue = hueOf(this.disk.classes.find((c) => c.group === "metadata"));
    SHADES.forEach(([least, strength], i) => shades.append(swatch(shade(hue, strength)), i < SHADES.length - 1 ? `over ${100 * least} % ` : "less"));
    this.hiddenKey = element("span", { hidden: "" }, " ", swatch(hueOf(HIDDEN)), " hidden by the legend or the slider");
    shades.append(this.hiddenKey);
    return element("div", {}, bar, shades);
  }

  showMetadata() {
    let low = Infinity, high = -Infinity;
    this.pyramid.level(0).forEach((runs, k) => {
      const last = runs.first.length - 1;
      if (this.disk.classes[k].group !== "metadata" || last < 0) return;
      low = Math.min(low, runs.first[0]); high = Math.max(high, runs.first[last] + runs.count[last]);
    });
    if (low < high) this.show(this.disk.start + low * this.pyramid.cell, (high - low) * this.pyramid.cell);
  }

  // Around a cell, which stays under the pointer where that is asked for, or else around the middle.
  zoom(factor, cell, keep) {
    const size = this.view.size * factor, at = cell === undefined ? (this.from + this.to) / 2 : this.from + (cell + 0.5) * this.cellSize;
    return this.show(keep ? at - (at - this.from) * factor : at - size / 2, size);
  }

  move(share) {
    return this.show(this.view.from + share * this.view.size, this.view.size);
  }

  back() {
    const view = this.earlier.pop();
    return view ? this.show(view.from, view.size, true) : undefined;
  }

  show(from, size, silent) {
    const before = this.view;
    size = Math.min(this.full, Math.max(size, SIDE * this.pyramid.cell));
    from = Math.min(Math.max(from, this.disk.start), this.disk.start + this.full - size);
    this.view = { from, size };
    if (!silent && (before.from !== from || before.size !== size)) this.earlier.push(before);
    return this.draw();
  }

  // Owners of what lies in the view, where it is narrow enough to name them; null where it is not.
  async owners() {
    const wanted = this.disk.owners.filter((t) => t.to > this.from && t.from < this.to);
    if (wanted.length > NAMED_TILES) return null;
    for (const tile of wanted)
      if (!this.tileCache.has(tile.from)) this.tileCache.set(tile.from, await unpackAll(tile, ["start", "length", "owner"]));
    const parts = wanted.map((t) => this.tileCache.get(t.from));
    if (this.tileCache.size > 4 * NAMED_TILES) this.tileCache.clear();
    return parts;
  }

  async draw() {
    const ticket = (this.ticket = (this.ticket || 0) + 1);
    const places = (this.places = cellPlaces(this.order)), cells = places.columns * places.rows;
    const width = this.pyramid.widthFor(this.view.size / cells), start = this.disk.start;
    this.cellSize = width.bytes;
    this.from = start + Math.floor((this.view.from - start) / width.step) * width.step;
    this.to = this.from + this.cellSize * cells;
    this.parts = null;
    const { z, scale } = this.colours(this.shares(width, cells), cells);
    this.hiddenKey.hidden = !(this.hidden.size || this.maxXid !== Infinity);
    this.caption.textContent = `${bytesText(this.from)} to ${bytesText(Math.min(this.to, start + this.full))} · a cell is ${bytesText(this.cellSize)}`;
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
    const parts = await this.owners();
    if (ticket === this.ticket) this.parts = parts; // else a newer view is being drawn
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

  // Bytes of each class in each cell that are shown, and of all that the legend or the slider hides.
  shares(width, cells) {
    const held = this.pyramid.held(this.from - this.disk.start, width, cells);
    this.hiddenBytes = new Float64Array(cells);
    if (this.maxXid !== Infinity) this.hideYounger(held, cells);
    for (const k of this.hidden) {
      for (let c = 0; c < cells; c++) this.hiddenBytes[c] += held[k][c];
      held[k] = new Float64Array(cells);
    }
    return (this.current = held);
  }

  hideYounger(held, cells) {
    const { offset, size, xid, tree, classes } = this.nodes;
    for (let i = 0; i < offset.length; i++) {
      const of = held[classes[tree[i]]];
      if (xid[i] <= this.maxXid || offset[i] >= this.to || offset[i] + size[i] <= this.from || !of) continue;
      const first = Math.max(0, Math.floor((offset[i] - this.from) / this.cellSize));
      const last = Math.min(cells - 1, Math.floor((offset[i] + size[i] - 1 - this.from) / this.cellSize));
      for (let c = first; c <= last; c++) {
        const low = this.from + c * this.cellSize;
        const bytes = Math.min(of[c], Math.min(offset[i] + size[i], low + this.cellSize) - Math.max(offset[i], low));
        of[c] -= bytes; this.hiddenBytes[c] += bytes;
      }
    }
  }

  // Metadata shows through whatever shares its cell; else the cell is of what fills most of it, hidden things included.
  colours(held, cells) {
    const classes = this.disk.classes, steps = SHADES.length;
    const scale = [isDark() ? "#14171b" : "#ffffff", ...classes.flatMap((c) => SHADES.map(([, strength]) => shade(hueOf(c), strength))), hueOf(HIDDEN)];
    const metadata = new Float64Array(cells), other = Float64Array.from(this.hiddenBytes), most = new Float64Array(cells);
    const colour = new Float32Array(cells), z = new Float32Array(cells);
    for (let c = 0; c < cells; c++) if (other[c] > 0) colour[c] = scale.length - 1;
    held.forEach((of, k) => {
      const is = classes[k].group === "metadata", at = 1 + k * steps;
      for (let c = 0; c < cells; c++) {
        if (of[c] <= 0) continue;
        if (is) { metadata[c] += of[c]; if (of[c] > most[c]) { most[c] = of[c]; colour[c] = at; } }
        else if (of[c] > other[c]) { other[c] = of[c]; if (!most[c]) colour[c] = at; }
      }
    });
    for (let c = 0; c < cells; c++) {
      let step = 0;
      if (most[c]) while (metadata[c] < SHADES[step][0] * this.cellSize) step++;
      z[this.places.row[c] * this.places.columns + this.places.column[c]] = colour[c] + step;
    }
    return { z, scale };
  }

  steps(scale) {
    const n = scale.length;
    return scale.flatMap((colour, i) => [[i / n, colour], [(i + 1) / n, colour]]).map(([at, colour]) => [Math.min(1, at), colour]);
  }

  drawStrip() {
    const canvas = this.strip, pen = canvas.getContext("2d"), wide = canvas.width, classes = this.disk.classes;
    const width = this.pyramid.widthFor(this.full / wide), unit = width.bytes, cells = Math.ceil(this.full / unit);
    const held = this.pyramid.held(0, width, cells), pixel = wide / (this.full / unit);
    pen.fillStyle = isDark() ? "#1e2126" : "#f4f4f2"; pen.fillRect(0, 0, wide, 32);
    for (const metadata of [false, true])
      held.forEach((of, k) => {
        const c = classes[k];
        if ((c.group === "metadata") !== metadata || c.group === "free" || this.hidden.has(k)) return;
        pen.fillStyle = hueOf(c);
        for (let i = 0; i < cells; i++) {
          if (of[i] <= 0) continue;
          pen.globalAlpha = metadata ? SHADES.find(([least]) => of[i] >= least * unit)[1] : Math.max(0.15, of[i] / unit);
          pen.fillRect(i * pixel, metadata ? 0 : 8, Math.max(1, pixel), 24);
        }
      });
    pen.globalAlpha = 1;
    pen.strokeStyle = "#E4002B"; pen.lineWidth = 2;
    const scale = wide / this.full;
    pen.strokeRect((this.from - this.disk.start) * scale, 1, Math.max(3, (this.to - this.from) * scale), 30);
  }

  cellOf(event) {
    const point = event.points[0];
    const [row, column] = point.pointNumber.length ? point.pointNumber : [point.y, point.x];
    return this.places.cell[row * this.places.columns + column];
  }

  describe(cell) {
    const low = this.from + cell * this.cellSize, high = Math.min(low + this.cellSize, this.disk.start + this.disk.size);
    if (low >= high) { this.info.textContent = "past the end of this disk"; return; }
    const lines = [`bytes ${low.toLocaleString()} to ${high.toLocaleString()}`];
    const held = this.disk.classes.map((c, k) => [c.label, this.current[k][cell]]);
    held.push(["hidden by the legend or the slider", this.hiddenBytes[cell]]);
    lines.push(held.filter(([, bytes]) => bytes > 0).sort((a, b) => b[1] - a[1]).map(([label, bytes]) => `${label} ${shareText(bytes / (high - low))}`).join(" · "));
    lines.push(...this.ownerLines(low, high));
    this.info.textContent = lines.join("\n");
  }

  ownerLines(low, high) {
    if (!this.parts) return ["zoom in to see whose nodes and files these are"];
    const { nodes, files } = this.ownersIn(low, high), lines = nodes.slice(0, 3).map((i) => this.nodeText(i));
    const more = (n, word) => `and ${n.toLocaleString()} more ${word}${n === 1 ? "" : "s"}`;
    if (nodes.length > 3) lines.push(more(nodes.length - 3, "node"));
    if (files.length) lines.push(`data of ${files.slice(0, 4).map((id) => this.fileText(id)).join(", ")}` + (files.length > 4 ? ` ${more(files.length - 4, "file")}` : ""));
    if (!this.disk.tells_files) lines.push("files are not named here: the disk has more extents than a page carries");
    return lines;
  }

  ownersIn(low, high) {
    const nodes = new Set(), files = new Set();
    for (const s of this.parts)
      for (let i = 0; i < s.start.length; i++)
        if (s.start[i] < high && s.start[i] + s.length[i] > low)
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
