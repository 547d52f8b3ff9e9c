"use strict";
(() => {
  // src/dom.ts
  function element(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [key2, value] of Object.entries(attributes)) {
      if (typeof value === "function") node.addEventListener(key2.slice(2), value);
      else node.setAttribute(key2, String(value));
    }
    if (/^(input|select)$/.test(tag) && "title" in attributes) node.setAttribute("aria-label", String(attributes.title));
    node.append(...children.map((child) => child instanceof Node ? child : String(child)));
    return node;
  }
  function isDark() {
    const forced = document.documentElement.dataset.theme;
    return forced ? forced === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }
  function hueOf(c) {
    return isDark() ? c.dark : c.light;
  }
  function mix(a, b, share) {
    const part = (hex, i) => Number.parseInt(hex.slice(1 + 2 * i, 3 + 2 * i), 16);
    const mixed = [0, 1, 2].map((i) => Math.round(part(a, i) * share + part(b, i) * (1 - share)));
    return `rgb(${mixed.join(",")})`;
  }
  function shade(hue, strength) {
    return mix(hue, isDark() ? "#2b3038" : "#d4d7db", strength);
  }
  function hatchedSwatch(hue) {
    const box = swatch(hueOf(hue));
    const line = isDark() ? "#000000" : "#ffffff";
    box.style.backgroundImage = `repeating-linear-gradient(135deg, ${line} 0 1px, transparent 1px 4px)`;
    return box;
  }
  function swatch(colour) {
    const box = element("span", { class: "swatch" });
    box.style.background = colour;
    return box;
  }

  // src/cells.ts
  var CELLS = 16384;
  var ORDERS = ["linear", "snake", "hilbert"];
  function hilbert(side, distance) {
    let [x, y, d] = [0, 0, distance];
    for (let s = 1; s < side; s *= 2) {
      const rx = 1 & d / 2;
      const ry = 1 & (d ^ rx);
      if (ry === 0) {
        if (rx === 1) [x, y] = [s - 1 - x, s - 1 - y];
        [x, y] = [y, x];
      }
      x += s * rx;
      y += s * ry;
      d = Math.floor(d / 4);
    }
    return [x, y];
  }
  function cellPlaces(order) {
    const [columns, rows] = order === "hilbert" ? [128, 128] : [256, 64];
    const places = {
      columns,
      rows,
      column: new Uint16Array(CELLS),
      row: new Uint16Array(CELLS),
      cell: new Int32Array(CELLS)
    };
    for (let i = 0; i < CELLS; i++) {
      let [x, y] = order === "hilbert" ? hilbert(columns, i) : [i % columns, Math.floor(i / columns)];
      if (order === "snake" && y % 2) x = columns - 1 - x;
      places.column[i] = x;
      places.row[i] = y;
      places.cell[y * columns + x] = i;
    }
    return places;
  }
  var SHADES = [
    [0.5, 1],
    [0.2, 0.85],
    [0.05, 0.68],
    [0.02, 0.52],
    [5e-3, 0.38],
    [0, 0.25]
  ];
  var HIDDEN = { light: "#E6E0F0", dark: "#332E40" };
  var CHOSEN = { light: "#e000c8", dark: "#ff7bf0" };
  var shadeOf = (share) => SHADES.findIndex(([least]) => share >= least);
  var NO_NUMBER = { light: "#d4d7db", dark: "#3a4049" };
  var HATCHED = /* @__PURE__ */ new Set(["damaged", "unclaimed", "unread", "not-told"]);
  var hatchOn = (c) => ({ hue: hueOf(c), hatch: isDark() ? "#000000" : "#ffffff" });
  function palette(classes) {
    const shades = classes.flatMap(
      (c) => SHADES.map(([, strength]) => ({
        ...HATCHED.has(c.key) ? hatchOn(c) : {},
        hue: shade(hueOf(c), strength)
      }))
    );
    return [{ hue: isDark() ? "#14171b" : "#ffffff" }, ...shades, { hue: hueOf(HIDDEN) }];
  }
  function withoutMetadata(picked, classes, instead) {
    const isMetadata = classes.map(({ group }) => group === "metadata");
    for (let c = 0; c < picked.length; c++)
      if (isMetadata[Math.floor((picked[c] - 1) / SHADES.length)]) picked[c] = instead;
  }
  function colours(classes, held, hidden, cellSize) {
    const cells = hidden.length;
    const other = Float64Array.from(hidden);
    const most = new Float64Array(cells);
    const metadata = new Float64Array(cells);
    const out = Uint16Array.from(hidden, (bytes) => bytes > 0 ? 1 + classes.length * SHADES.length : 0);
    held.forEach((of, k) => {
      const colour = 1 + k * SHADES.length;
      if (classes[k].group !== "metadata") mark(of, other, out, colour, most);
      else {
        mark(of, most, out, colour);
        for (let c = 0; c < cells; c++) metadata[c] += of[c];
      }
    });
    for (let c = 0; c < cells; c++) if (most[c]) out[c] += shadeOf(metadata[c] / cellSize);
    return out;
  }
  function mark(of, most, out, colour, over) {
    for (let c = 0; c < of.length; c++) {
      if (!(of[c] > most[c])) continue;
      most[c] = of[c];
      if (!over?.[c]) out[c] = colour;
    }
  }

  // src/unpack.ts
  var KINDS = {
    u1: Uint8Array,
    u2: Uint16Array,
    u4: Uint32Array,
    i4: Int32Array,
    f4: Float32Array,
    f8: Float64Array
  };
  var DIGITS = "!#$%()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_abcdefghijklmnopqrstuvwxyz{|";
  var BASE = DIGITS.length;
  var VALUES = new Uint8Array(128);
  for (let i = 0; i < BASE; i++) VALUES[DIGITS.charCodeAt(i)] = i;
  function bytesOf(text) {
    const words = (text.length - 1) / 5;
    const view = new DataView(new ArrayBuffer(4 * words));
    for (let i = 0, at = 1; i < words; i++) {
      let word = 0;
      for (let k = 0; k < 5; k++) word = word * BASE + VALUES[text.charCodeAt(at++)];
      view.setUint32(4 * i, word);
    }
    return new Uint8Array(view.buffer, 0, 4 * words - VALUES[text.charCodeAt(0)]);
  }
  async function inflate(text) {
    const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }
  async function inflateText(text) {
    return new TextDecoder().decode(await inflate(text));
  }
  async function unpack(packed2) {
    const planes = await inflate(packed2.data);
    const kind = KINDS[packed2.type];
    const width = kind.BYTES_PER_ELEMENT;
    const n = packed2.n;
    const bytes = new Uint8Array(n * width);
    for (let p = 0; p < width; p++) for (let i = 0, at = p * n; i < n; i++) bytes[i * width + p] = planes[at + i];
    const values = new kind(bytes.buffer);
    return packed2.delta ? sums(values) : values;
  }
  function sums(differences) {
    const out = new Float64Array(differences.length);
    let sum = 0;
    for (let i = 0; i < out.length; i++) {
      sum += differences[i];
      out[i] = sum;
    }
    return out;
  }
  async function unpackAll(object, keys) {
    const arrays = await Promise.all(keys.map(async (key2) => [key2, await unpack(object[key2])]));
    return Object.fromEntries(arrays);
  }
  async function identifiers(packed2) {
    const { low, high } = await unpackAll(packed2, ["low", "high"]);
    return (i) => (BigInt(high[i]) << 32n | BigInt(low[i])).toString();
  }
  var COLUMNS = ["tree", "kind", "level", "offset", "size", "records", "xid", "rank", "fill", "cost"];
  async function nodesOf(packed2) {
    const columns = await unpackAll(packed2, COLUMNS);
    const { trees, classes, kinds, total } = packed2;
    const [id, first, last] = await Promise.all([packed2.id, packed2.first, packed2.last].map(identifiers));
    const { change, other } = packed2;
    const moves = change && other ? await unpackAll({ change, other }, ["change", "other"]) : null;
    return { ...columns, moves, trees, classes, kinds, total, id, first, last };
  }
  async function unfold({ disks }) {
    for (const disk of disks)
      if (typeof disk.directories === "string") disk.directories = JSON.parse(await inflateText(disk.directories));
  }

  // src/plots.ts
  var plotly = () => Plotly;
  var CONFIG = {
    displaylogo: false,
    responsive: true,
    showSendToCloud: false,
    showEditInChartStudio: false,
    plotlyServerURL: "",
    showTips: false,
    modeBarButtonsToRemove: ["lasso2d", "select2d", "sendDataToCloud", "editInChartStudio"]
  };
  var HUES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A6BBE", "#7A5C3E"];
  function plain(text) {
    return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }
  function plotLayout(extra) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const [fg, line] = [colour("--fg"), colour("--line")];
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: fg, size: 12 },
      margin: { l: 60, r: 12, t: 26, b: 42 },
      hovermode: "closest",
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--muted"), activecolor: fg },
      ...extra
    };
    const axis = { gridcolor: line, zerolinecolor: line, linecolor: line };
    for (const key2 of Object.keys(layout))
      if (/^[xy]axis/.test(key2)) layout[key2] = { ...axis, ...layout[key2] };
    return layout;
  }
  function plotIn(holder, height, label) {
    const plot = element("div", { class: "plot", role: "figure", "aria-label": label });
    plot.style.height = `${height}px`;
    holder.append(plot);
    return plot;
  }
  async function addPlot(holder, title, height, traces, layout) {
    holder.append(element("h3", {}, title));
    const plot = plotIn(holder, height, title);
    await plotly().newPlot(plot, traces, plotLayout(layout), CONFIG);
    return plot;
  }
  async function pictureTrace(picture, unit) {
    const counts = await unpack(picture.counts);
    const middles = ([low, high], n) => Array.from({ length: n }, (_, i) => low + (i + 0.5) * (high - low) / n);
    const row2 = (r) => Array.from(counts.subarray(r * picture.columns, (r + 1) * picture.columns), (n) => n ? Math.log10(n) : null);
    const scale = isDark() ? ["#2f6b99", "#cfe8ff"] : ["#8fbfe0", "#003a5c"];
    return {
      type: "heatmap",
      x: middles(picture.x, picture.columns),
      y: middles(picture.y, picture.rows),
      z: Array.from({ length: picture.rows }, (_, r) => row2(r)),
      zmin: 0,
      showscale: false,
      colorscale: scale.map((colour, i) => [i, colour]),
      hoverongaps: false,
      hovertemplate: `${unit}<extra></extra>`
    };
  }

  // src/export.ts
  var SVG = "http://www.w3.org/2000/svg";
  var WIDTH = 1200;
  var EDGE = 24;
  var SCALE = 2;
  var LINE = 22;
  var SWATCH = 12;
  var shape = (tag, attributes, ...children) => {
    const node = document.createElementNS(SVG, tag);
    for (const [key2, value] of Object.entries(attributes)) node.setAttribute(key2, String(value));
    node.append(...children);
    return node;
  };
  var css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  var Sheet = class {
    pieces = [];
    height = EDGE;
    words(text, size, weight = "normal") {
      if (!text) return;
      const y = this.height + size;
      this.pieces.push(shape("text", { x: EDGE, y, fill: css("--fg"), "font-size": size, "font-weight": weight }, text));
      this.height = y + 0.6 * size;
    }
    /** A piece as wide as the sheet. */
    piece(svg, height) {
      const place = { x: EDGE, y: this.height, width: WIDTH - 2 * EDGE, height };
      for (const [key2, value] of Object.entries(place)) svg.setAttribute(key2, String(value));
      this.pieces.push(svg);
      this.height += height + 8;
    }
    /** Colours and what they mean, in as many lines as it takes. */
    legend(entries) {
      let x = EDGE;
      for (const { hue, text } of entries) {
        const width = SWATCH + 24 + 7 * text.length;
        if (x > EDGE && x + width > WIDTH - EDGE) {
          x = EDGE;
          this.height += LINE;
        }
        const box = { x, y: this.height, width: SWATCH, height: SWATCH, fill: hue, stroke: css("--line") };
        const place = { x: x + SWATCH + 6, y: this.height + SWATCH - 1, fill: css("--fg"), "font-size": 13 };
        this.pieces.push(shape("rect", box), shape("text", place, text));
        x += width;
      }
      if (entries.length) this.height += LINE + 6;
    }
    text() {
      const height = this.height + EDGE;
      const size = { width: WIDTH, height, viewBox: `0 0 ${WIDTH} ${height}`, "font-family": "system-ui, sans-serif" };
      const ground = shape("rect", { width: WIDTH, height, fill: css("--bg") });
      return new XMLSerializer().serializeToString(shape("svg", size, ground, ...this.pieces));
    }
  };
  async function chart(plot, sheet) {
    const height = plot.clientHeight;
    const layout = { ...plot.layout, paper_bgcolor: css("--bg"), autosize: false };
    const options = { format: "svg", width: WIDTH - 2 * EDGE, height, imageDataOnly: true };
    const figure = { data: plot.data, layout, config: { displayModeBar: false } };
    const svg = await plotly().toImage(figure, options);
    const parsed = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
    sheet.piece(document.importNode(parsed, true), height);
  }
  function map(card, sheet) {
    const cells = card.querySelector("canvas.cells");
    const plot = card.querySelector(".map");
    const { clientWidth: width, clientHeight: height } = plot;
    const { left, top, width: wide, height: high } = cells.style;
    const place = { x: left, y: top, width: wide, height: high, preserveAspectRatio: "none" };
    const image = shape("image", { ...place, href: cells.toDataURL(), style: "image-rendering: pixelated" });
    const marks = [...plot.querySelectorAll(".main-svg .scatterlayer")].map((layer) => copied(layer));
    const { xaxis, yaxis } = plot._fullLayout;
    const over = shape("g", { transform: `translate(${xaxis._offset},${yaxis._offset})` }, ...marks);
    sheet.words(card.querySelector(".caption")?.textContent ?? "", 13);
    sheet.piece(shape("svg", { viewBox: `0 0 ${width} ${height}` }, image, over), (WIDTH - 2 * EDGE) * height / width);
    const shown = [...card.querySelectorAll(".legend label")].filter(
      (label) => label.querySelector("input")?.checked
    );
    sheet.legend(
      shown.map((label) => ({
        hue: getComputedStyle(label.querySelector(".swatch")).backgroundColor,
        text: label.textContent.trim()
      }))
    );
  }
  var DRAWN = ["fill", "fill-opacity", "stroke", "stroke-width", "opacity"];
  function copied(svg) {
    const copy = svg.cloneNode(true);
    const [from, to] = [svg, copy].map((root) => [root, ...root.querySelectorAll("*")]);
    from.forEach((node, i) => {
      const looks = getComputedStyle(node);
      for (const name of DRAWN) to[i].style.setProperty(name, looks.getPropertyValue(name));
    });
    return copy;
  }
  function bands(section, sheet) {
    sheet.words(section.querySelector(".headline")?.textContent ?? "", 18, "bold");
    for (const disk of section.querySelectorAll(".disk")) {
      sheet.words([...disk.querySelectorAll(".bar:first-child > *")].map((part) => part.textContent).join(" · "), 14);
      const heads = disk.querySelector(".band canvas");
      const band = copied(disk.querySelector(".band svg"));
      const { width, height } = disk.querySelector(".band svg").viewBox.baseVal;
      if (heads.width && heads.height)
        band.append(shape("image", { href: heads.toDataURL(), width, height, preserveAspectRatio: "none" }));
      sheet.piece(band, 52);
      sheet.words([...disk.querySelectorAll(".under > span")].map((part) => part.textContent).join(" · "), 12);
    }
    const entries = [...section.querySelectorAll(".parts > span")];
    sheet.legend(
      entries.map((entry2) => ({
        hue: getComputedStyle(entry2.querySelector("rect")).fill,
        text: entry2.textContent.trim()
      }))
    );
  }
  async function panelPicture(section) {
    const sheet = new Sheet();
    if (section.id === "what") {
      bands(section, sheet);
      return sheet.text();
    }
    sheet.words(section.querySelector("h2").textContent, 18, "bold");
    const titles = [...document.querySelectorAll("#what .disk h2")].map((title) => title.textContent);
    const cards = [...section.querySelectorAll(".card")];
    for (const [i, card] of cards.entries()) {
      if (cards.length === titles.length) sheet.words(titles[i], 14, "bold");
      for (const plot of card.querySelectorAll(".plot"))
        if (plot.classList.contains("map")) map(card, sheet);
        else {
          const title = plot.previousElementSibling;
          if (title?.tagName === "H3") sheet.words(title.textContent, 13);
          await chart(plot, sheet);
        }
    }
    return sheet.text();
  }
  async function pixels(svg) {
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
    await image.decode();
    const size = { width: SCALE * image.naturalWidth, height: SCALE * image.naturalHeight };
    const canvas = Object.assign(element("canvas"), size);
    canvas.getContext("2d").drawImage(image, 0, 0, size.width, size.height);
    return new Promise((done) => canvas.toBlob((blob) => done(blob), "image/png"));
  }
  function save(blob, name) {
    const href = URL.createObjectURL(blob);
    element("a", { href, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(href), 1e3);
  }
  function pictureButtons(section) {
    const { id } = section;
    const button2 = (form, make) => {
      const press = async () => save(await make(await panelPicture(section)), `layoutscope-${id}.${form.toLowerCase()}`);
      const title = `save what this part shows as ${form}`;
      return element("button", { type: "button", title, "aria-label": title, onclick: press }, form);
    };
    const svg = button2("SVG", (text) => new Blob([text], { type: "image/svg+xml" }));
    return element("div", { class: "bar pictures" }, svg, button2("PNG", pixels));
  }

  // src/words.ts
  var UNITS = [
    [2 ** 40, "TiB"],
    [2 ** 30, "GiB"],
    [2 ** 20, "MiB"],
    [2 ** 10, "KiB"]
  ];
  function bytesText(n) {
    for (const [factor, unit] of UNITS) {
      const value = n / factor;
      if (Math.abs(value) >= 1) return `${value < 1e3 ? value.toPrecision(3) : counted(Math.round(value))} ${unit}`;
    }
    return `${n} B`;
  }
  function secondsText(s) {
    if (!s) return "0 s";
    if (s < 1e-3) return `${+(s * 1e6).toPrecision(3)} us`;
    if (s < 1) return `${+(s * 1e3).toPrecision(3)} ms`;
    if (s < 120) return `${s.toPrecision(3)} s`;
    const whole = Math.round(s);
    if (whole < 7200) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
    const minutes = Math.round(s / 60);
    return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
  }
  function shareText(share) {
    if (share >= 1) return "100 %";
    if (share >= 0.9995) return "over 99.9 %";
    return share < 1e-4 ? "under 0.01 %" : `${(100 * share).toPrecision(3)} %`;
  }
  function counted(n) {
    return n.toLocaleString("en");
  }
  function plural(n, word) {
    return `${counted(n)} ${word}${n === 1 ? "" : "s"}`;
  }

  // src/selection.ts
  var Selection = class {
    constructor(all) {
      this.all = all;
    }
    all;
    /** Places in the disk's nodes. */
    nodes = [];
    /** How it was chosen, as the table's title goes on. */
    about = "";
    listeners = [];
    choose(nodes, about) {
      this.nodes = nodes;
      this.about = nodes.length ? about : "";
      for (const listener of this.listeners) listener();
    }
    /** Choose the nodes for which something holds. */
    where(holds, about) {
      const nodes = [];
      for (let i = 0; i < this.all.offset.length; i++) if (holds(i)) nodes.push(i);
      this.choose(nodes, about);
    }
    /** Choose the nodes that overlap a stretch of disk. */
    between(low, high) {
      const { offset, size } = this.all;
      const about = `between bytes ${counted(low)} and ${counted(high)}`;
      this.where((i) => offset[i] < high && offset[i] + size[i] > low, about);
    }
    /** Choose the nodes at some places of the disk. */
    at(places, about) {
      const wanted = new Set(places);
      const { offset, size } = this.all;
      const block = 512;
      this.where((i) => {
        for (let place = offset[i]; place < offset[i] + size[i]; place += block) if (wanted.has(place)) return true;
        return false;
      }, about);
    }
    whenChosen(listener) {
      this.listeners.push(listener);
    }
    told() {
      const bytes = this.nodes.reduce((sum, i) => sum + this.all.size[i], 0);
      return this.nodes.length ? `${plural(this.nodes.length, "node")} ${this.about}, ${bytesText(bytes)}` : "";
    }
  };
  var COLUMNS2 = [
    "tree",
    "kind",
    "node",
    "byte",
    "size",
    "level",
    "records",
    "xid",
    "fill %",
    "ms to read",
    "first key",
    "last key"
  ];
  function row(nodes, i) {
    return [
      nodes.trees[nodes.tree[i]],
      nodes.kinds[nodes.kind[i]],
      nodes.id(i),
      String(nodes.offset[i]),
      String(nodes.size[i]),
      nodes.level[i] === 255 ? "" : String(nodes.level[i]),
      String(nodes.records[i]),
      nodes.xid[i] ? String(nodes.xid[i]) : "",
      nodes.fill[i] === 255 ? "" : String(nodes.fill[i]),
      nodes.cost[i] ? String(nodes.cost[i] / 1e3) : "",
      nodes.first(i),
      nodes.last(i)
    ];
  }
  function csv({ all, nodes }) {
    return [COLUMNS2, ...nodes.map((i) => row(all, i))].map((cells) => `${cells.join(",")}\r
`).join("");
  }

  // src/chosen.ts
  var SHOWN = 12;
  function chosenTable(selection) {
    const box = element("div", { class: "chosen", role: "status" });
    selection.whenChosen(() => box.replaceChildren(...selection.nodes.length ? content(selection) : []));
    return box;
  }
  function content(selection) {
    const button2 = (text, action) => element("button", { type: "button", onclick: action }, text);
    const bar = element(
      "div",
      { class: "bar" },
      element("b", {}, selection.told()),
      button2("copy", () => navigator.clipboard.writeText(csv(selection))),
      button2("save as CSV", () => save(new Blob([csv(selection)], { type: "text/csv" }), "nodes.csv")),
      button2("choose none", () => selection.choose([], ""))
    );
    const head = element("tr", {}, ...COLUMNS2.map((name) => element("th", { scope: "col" }, name)));
    const rows = selection.nodes.slice(0, SHOWN).map((i) => element("tr", {}, ...row(selection.all, i).map((cell) => element("td", {}, cell))));
    const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
    const left = selection.nodes.length - rows.length;
    return [bar, table, ...left > 0 ? [element("p", { class: "muted" }, `and ${counted(left)} more`)] : []];
  }

  // src/colouring.ts
  var COLOURINGS = ["tree", "level", "age", "cost", "fill"];
  var STEPS = ["#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725"];
  var NONE = 255;
  var seconds = (micro) => secondsText(micro / 1e6);
  function measureOf(nodes, by, walk) {
    const numbered = { told: counted, has: (xid) => xid > 0 };
    const measures = {
      level: {
        of: nodes.level,
        has: (level) => level !== NONE,
        told: counted,
        words: "level, 0 at the leaves",
        none: "no level"
      },
      age: { of: nodes.xid, ...numbered, words: "transaction that wrote it", none: "no transaction known" },
      cost: {
        of: nodes.cost,
        has: (micro) => micro > 0,
        told: seconds,
        words: walk ? `time to read the node on a walk, ${walk}` : "time to read the node on a walk",
        none: "not read by it",
        byRatio: true
      },
      fill: {
        of: nodes.fill,
        has: (share) => share !== NONE,
        told: (share) => `${share} %`,
        words: "how full it is",
        none: "not known",
        span: [0, 100]
      }
    };
    return measures[by];
  }
  var Scale = class {
    constructor(nodes, by, walk) {
      this.nodes = nodes;
      this.by = by;
      this.measure = measureOf(nodes, by, walk);
      const { of, has, span } = this.measure;
      for (let i = 0; i < of.length; i++) {
        if (!has(of[i])) continue;
        this.low = Math.min(this.low, of[i]);
        this.high = Math.max(this.high, of[i]);
      }
      if (span && this.low <= this.high) [this.low, this.high] = span;
      this.steps = Int8Array.from(of, (value) => has(value) ? this.step(value) : -1);
    }
    nodes;
    by;
    /** Which of the hues each node has; -1 where it has no such number. */
    steps;
    low = Infinity;
    high = -Infinity;
    measure;
    /** The hues, low to high, behind that of what has no such number. */
    get inks() {
      return [hatchOn(NO_NUMBER), ...STEPS.map((hue) => ({ hue }))];
    }
    step(value) {
      const [low, high, at] = this.measure.byRatio ? [this.low, this.high, value].map(Math.log) : [this.low, this.high, value];
      const share = high > low ? (at - low) / (high - low) : 0;
      return Math.min(STEPS.length - 1, Math.floor(share * STEPS.length));
    }
    /** What the hues mean, as lines of a legend. */
    key() {
      const { words, none, told: told2, byRatio } = this.measure;
      const key2 = element("div", { class: "bar legend muted scale" });
      const hatched = [hatchedSwatch(NO_NUMBER), `metadata of which this is not told: ${none}`];
      if (this.low > this.high) {
        key2.append(`no node has a ${this.by} here; `, ...hatched);
        return key2;
      }
      const ratio = (this.high / this.low) ** (1 / STEPS.length);
      const each = byRatio && ratio > 1.005 ? `each step ${ratio.toPrecision(2)} times the one before; ` : "";
      const past = this.nodes.total - this.nodes.offset.length;
      const left = past > 0 ? `, and ${counted(past)} nodes past those that the page carries` : "";
      const span = element(
        "span",
        { class: "span" },
        `${words}: ${told2(this.low)} `,
        ...STEPS.map(swatch),
        ` ${told2(this.high)}`
      );
      key2.append(span, `${each}of several nodes in a cell, the highest; `, hatched[0], `${hatched[1]}${left}`);
      return key2;
    }
  };
  function overpaint(picked, { offset, size }, which, hue, cut) {
    for (const i of which) {
      const [first, last] = cellsOf(offset[i], size[i], cut);
      if (first <= last) picked.fill(hue, first, last + 1);
    }
  }
  function paintSteps(picked, { offset, size }, which, steps2, base, cut) {
    const { from, cellSize } = cut;
    for (let n = 0; n < which.length; n++) {
      const i = which[n];
      if (steps2[i] < 0) continue;
      const hue = base + steps2[i];
      const last = Math.min(CELLS - 1, Math.floor((offset[i] + size[i] - 1 - from) / cellSize));
      for (let c = Math.max(0, Math.floor((offset[i] - from) / cellSize)); c <= last; c++)
        if (picked[c] < hue) picked[c] = hue;
    }
  }
  function cellsOf(offset, size, { from, cellSize }) {
    const first = Math.floor((offset - from) / cellSize);
    const last = Math.floor((offset + size - 1 - from) / cellSize);
    return last < 0 || first >= CELLS ? [0, -1] : [Math.max(0, first), Math.min(CELLS - 1, last)];
  }

  // src/brush.ts
  var chosenTrace = () => ({
    ...{ type: "scattergl", mode: "markers", x: [], y: [], hoverinfo: "skip", showlegend: false },
    marker: { size: 4, color: hueOf(CHOSEN) }
  });
  function showChosen(plot, trace, selection, place) {
    selection.whenChosen(() => {
      const points = selection.nodes.map(place).filter((point) => point !== null);
      plotly().restyle(plot, { x: [points.map(([x]) => x)], y: [points.map(([, y]) => y)] }, [trace]);
    });
  }
  async function brushed(plot, picture, layout, selection, place, about) {
    const config = { ...CONFIG, modeBarButtonsToRemove: ["lasso2d", "sendDataToCloud", "editInChartStudio"] };
    const traces = [picture, chosenTrace()];
    await plotly().newPlot(plot, traces, plotLayout({ ...layout, dragmode: "select" }), config);
    showChosen(plot, 1, selection, place);
    plot.on("plotly_selected", (event) => {
      if (!event?.range) return;
      const [[left, right], [low, high]] = [sorted(event.range.x), sorted(event.range.y)];
      selection.where((i) => {
        const point = place(i);
        return point !== null && point[0] >= left && point[0] <= right && point[1] >= low && point[1] <= high;
      }, about);
    });
  }
  var sorted = ([a, b]) => a < b ? [a, b] : [b, a];

  // src/history.ts
  function ageSlider(disk, map2) {
    const h = disk.history;
    if (!h) return null;
    const label = element("span", { class: "muted" });
    const { nodes } = map2.owners;
    if (nodes.total > nodes.offset.length) {
      label.textContent = "the disk has more nodes than the page carries, so that none are hidden by their age";
      return element("div", { class: "bar" }, label);
    }
    const title = "show nodes written up to this transaction";
    const slider = element("input", { type: "range", min: h.low, max: h.high, value: h.high, title });
    if (map2.maxXid !== Infinity) slider.value = String(map2.maxXid);
    const tell = () => {
      const all = map2.maxXid === Infinity;
      label.textContent = all ? `nodes of all transactions, ${counted(h.low)} to ${counted(h.high)}` : `nodes written up to transaction ${counted(map2.maxXid)}`;
    };
    const go = () => {
      map2.maxXid = +slider.value >= h.high ? Infinity : +slider.value;
      tell();
      return map2.draw();
    };
    slider.addEventListener("input", go);
    tell();
    const bar = element("div", { class: "bar" }, slider, label);
    if (h.states.length) bar.prepend(stateChooser(h, slider, go));
    return bar;
  }
  function stateChooser(h, slider, go) {
    const states = h.states.map((state) => element("option", { value: Math.min(state.xid, h.high) }, state.label));
    const live = element("option", { value: h.high }, "live");
    const choose = element("select", { title: "a checkpoint or snapshot" }, live, ...states);
    choose.addEventListener("change", () => {
      slider.value = choose.value;
      go();
    });
    return choose;
  }
  async function historyPanel(disk, holder, selection) {
    const h = disk.history;
    if (!h) {
      holder.append(element("p", { class: "muted" }, "This file system does not number its transactions."));
      return;
    }
    const trace = await pictureTrace(h.picture, "%{x:,.1f} MiB<br>transaction %{y:,.0f}");
    const title = "Transaction that wrote each node, over the address space";
    holder.append(element("h3", {}, title));
    const layout = { xaxis: { title: { text: "place on disk, MiB" } }, yaxis: { title: { text: "transaction" } } };
    const { xid, offset } = selection.all;
    const place = (i) => xid[i] ? [(offset[i] - disk.start) / 2 ** 20, xid[i]] : null;
    await brushed(plotIn(holder, 280, title), trace, layout, selection, place, "chosen by age and place");
  }

  // src/legend.ts
  var FIRST = 2;
  var ALWAYS = ["damaged", "locked"];
  function legend(map2, hiddenKey) {
    const { classes } = map2.disk;
    const isChange = classes.some(({ key: key2 }) => key2 === "stayed");
    const what = isChange ? "changes" : "metadata";
    const held = classes.map((_, k) => k).filter((k) => classes[k].bytes > 0);
    const metadata = held.filter((k) => classes[k].group === "metadata").sort((a, b) => classes[b].bytes - classes[a].bytes);
    const first = /* @__PURE__ */ new Set([
      ...held.filter((k) => ALWAYS.includes(classes[k].key)),
      ...metadata.slice(0, isChange ? metadata.length : FIRST),
      ...held.filter((k) => classes[k].group !== "metadata")
    ]);
    const more = held.filter((k) => !first.has(k));
    const bar = element("div", { class: "bar legend" }, ...[...first].map((k) => entry(map2, k)));
    if (more.length) bar.append(folded(map2, more));
    return element("div", {}, bar, shadeKey(what, hueOf(classes[metadata[0] ?? 0]), hiddenKey));
  }
  function folded(map2, more) {
    const bytes = more.reduce((sum, k) => sum + map2.disk.classes[k].bytes, 0);
    const summary = element("summary", {}, `${plural(more.length, "more kind")} of metadata, ${bytesText(bytes)}`);
    const box = element("details", {}, summary, element("div", { class: "bar" }, ...more.map((k) => entry(map2, k))));
    box.open = more.some((k) => map2.hidden.has(k));
    return box;
  }
  function entry(map2, k) {
    const c = map2.disk.classes[k];
    const box = element("input", { type: "checkbox" });
    box.checked = !map2.hidden.has(k);
    box.addEventListener("change", () => {
      if (box.checked) map2.hidden.delete(k);
      else map2.hidden.add(k);
      map2.draw();
    });
    const size = `${bytesText(c.bytes)} in ${plural(c.pieces, "piece")}`;
    const title = `${shareText(c.bytes / map2.disk.size)} of the disk`;
    return element("label", { title }, box, swatch(hueOf(c)), `${c.label} `, element("span", { class: "muted" }, size));
  }
  function shadeKey(what, hue, hiddenKey) {
    const key2 = element("div", { class: "bar legend muted" }, `${what} in a cell: `);
    SHADES.forEach(([least, strength], i) => {
      key2.append(swatch(shade(hue, strength)), i < SHADES.length - 1 ? `over ${100 * least} % ` : "less");
    });
    hiddenKey.replaceChildren(" ", swatch(hueOf(HIDDEN)), " hidden by the legend or the slider");
    key2.append(hiddenKey);
    return key2;
  }

  // src/files.ts
  var key = (volume, id) => `${volume}:${id}`;
  var Files = class _Files {
    constructor(entries, owners) {
      this.entries = entries;
      this.owners = owners;
      entries.forEach(({ volume, id }, i) => {
        if (!this.place.has(key(volume, id))) this.place.set(key(volume, id), i);
      });
    }
    entries;
    owners;
    place = /* @__PURE__ */ new Map();
    static async of(disk) {
      const { volume } = await unpackAll(disk.files, ["volume"]);
      const owners = { volume, id: await identifiers(disk.files) };
      if (!disk.entries) return new _Files([], owners);
      const { id, parent, names, ...columns } = disk.entries;
      const [ids, parents] = await Promise.all([identifiers(id), identifiers(parent)]);
      const { volume: volumes, node } = await unpackAll(columns, ["volume", "node"]);
      const entries = JSON.parse(await inflateText(names)).map((name, i) => {
        return { volume: volumes[i], id: ids(i), parent: parents(i), name, node: node[i] };
      });
      return new _Files(entries, owners);
    }
    get areNamed() {
      return this.entries.length > 0;
    }
    /** The file that an owner of data is. */
    owner(i) {
      return { volume: this.owners.volume[i], id: this.owners.id(i) };
    }
    /** Whether an owner of data is a file. */
    owns(i, file) {
      return this.owners.volume[i] === file.volume && this.owners.id(i) === file.id;
    }
    /** Where a file is in its volume; undefined where the page has no name of it. */
    path(volume, id) {
      const at = this.place.get(key(volume, id));
      return at === void 0 ? void 0 : this.pathOf(at);
    }
    pathOf(entry2) {
      const parts = [];
      const passed = /* @__PURE__ */ new Set();
      for (let at = entry2; at !== void 0 && !passed.has(at); ) {
        const { volume, parent, name } = this.entries[at];
        const above = this.place.get(key(volume, parent));
        if (above !== void 0 || !parts.length) parts.unshift(name);
        passed.add(at);
        at = above;
      }
      return `/${parts.join("/")}`;
    }
    /** Places of the nodes that hold the inodes of what lies in a directory, told by volume and number, and its own. */
    nodesOf(folder) {
      const own = this.entries.filter(
        ({ volume, id, parent, node }) => node >= 0 && (key(volume, parent) === folder || key(volume, id) === folder)
      );
      return [...new Set(own.map(({ node }) => node))];
    }
    /** Files whose path holds a text, in upper or lower case, or whose number it is: the first of them. */
    find(text, most) {
      const wanted = text.toLowerCase();
      const last = wanted.slice(wanted.lastIndexOf("/") + 1);
      const found = [];
      for (let i = 0; i < this.entries.length && found.length < most; i++) {
        const { volume, id, name, node } = this.entries[i];
        if (id !== text && !name.toLowerCase().includes(last)) continue;
        const path = this.pathOf(i);
        if (id === text || path.toLowerCase().includes(wanted)) found.push({ volume, id, path, node });
      }
      return found;
    }
  };

  // src/owners.ts
  var NAMED_TILES = 12;
  var TOLD_NODES = 3;
  var TOLD_FILES = 4;
  var Owners = class _Owners {
    constructor(disk, nodes, files) {
      this.disk = disk;
      this.nodes = nodes;
      this.files = files;
      this.ordered = Uint32Array.from(nodes.offset.keys()).sort((a, b) => nodes.offset[a] - nodes.offset[b]);
      this.widest = Array.from(nodes.size).reduce((a, b) => Math.max(a, b), 1);
    }
    disk;
    nodes;
    files;
    unpacked = /* @__PURE__ */ new Map();
    parts = null;
    asked = 0;
    ordered;
    widest;
    static async of(disk) {
      return new _Owners(disk, await nodesOf(disk.nodes), await Files.of(disk));
    }
    /** Make ready to tell of a view, where it is narrow enough to name what lies there. */
    async look(from, to) {
      this.parts = null;
      const turn = ++this.asked;
      const wanted = this.disk.owners.filter((tile) => tile.to > from && tile.from < to);
      if (wanted.length > NAMED_TILES) return;
      const parts = await Promise.all(wanted.map((tile) => this.part(tile)));
      if (turn === this.asked) this.parts = parts;
      if (this.unpacked.size > 4 * NAMED_TILES) this.unpacked.clear();
    }
    async part(tile) {
      const known = this.unpacked.get(tile);
      if (known) return known;
      const part = await unpackAll(tile, ["start", "length", "owner"]);
      this.unpacked.set(tile, part);
      return part;
    }
    /** Places of the nodes that overlap a stretch of disk, in the order of their addresses. */
    nodesBetween(low, high) {
      const { offset } = this.nodes;
      const first = (byte) => {
        let [least, most] = [0, this.ordered.length];
        while (least < most) {
          const middle = least + most >> 1;
          if (offset[this.ordered[middle]] < byte) least = middle + 1;
          else most = middle;
        }
        return least;
      };
      return this.ordered.subarray(first(low - this.widest + 1), first(high));
    }
    /** Say in lines what lies between two bytes. */
    lines(low, high) {
      if (!this.parts) return ["zoom in to see whose nodes and files these are"];
      const { nodes, files } = this.between(low, high, this.parts);
      const lines = nodes.slice(0, TOLD_NODES).map((i) => this.nodeText(i));
      if (nodes.length > TOLD_NODES) lines.push(`and ${plural(nodes.length - TOLD_NODES, "more node")}`);
      if (files.length) {
        const more = files.length > TOLD_FILES ? ` and ${plural(files.length - TOLD_FILES, "more file")}` : "";
        const told2 = files.slice(0, TOLD_FILES).map((i) => this.fileText(i));
        lines.push(`data of ${told2.join(", ")}${more}`);
      }
      if (this.nodes.total > this.nodes.offset.length)
        lines.push(
          `of the disk's ${counted(this.nodes.total)} nodes ${counted(this.nodes.offset.length)} are named here`
        );
      if (!this.disk.tells_files) lines.push("files are not named here: the disk has more extents than a page carries");
      return lines;
    }
    between(low, high, parts) {
      const nodes = /* @__PURE__ */ new Set();
      const files = /* @__PURE__ */ new Set();
      for (const { start, length, owner } of parts)
        for (let i = 0; i < start.length; i++)
          if (start[i] < high && start[i] + length[i] > low) {
            if (owner[i] > 0) nodes.add(owner[i] - 1);
            else files.add(-1 - owner[i]);
          }
      return { nodes: [...nodes], files: [...files] };
    }
    /** Where all data of a file lies, in ascending order: first byte and length of each piece. */
    async extentsOf(file) {
      const found = [];
      for (const tile of this.disk.owners) {
        const { start, length, owner } = await this.part(tile);
        for (let i = 0; i < start.length; i++)
          if (owner[i] < 0 && this.files.owns(-1 - owner[i], file)) found.push([start[i], length[i]]);
      }
      return found;
    }
    fileText(i) {
      const { volume, id } = this.files.owner(i);
      const path = this.files.path(volume, id);
      const when = volume < this.disk.earlier ? "" : " as it was";
      return (path === void 0 ? `file ${id}` : `file ${id} “${path}”`) + when;
    }
    /** What happened to a node between two states. */
    movesOf(i) {
      const { moves } = this.nodes;
      if (!moves) return [];
      const other = `byte ${counted(moves.other[i])}`;
      return [["stayed", `moved here from ${other}`, "came", `moved away to ${other}`, "went"][moves.change[i]]];
    }
    nodeText(i) {
      const n = this.nodes;
      if (i >= n.tree.length) return "a node past the page's budget of details";
      return [
        `${n.trees[n.tree[i]]} ${n.kinds[n.kind[i]]} node ${n.id(i)}`,
        ...n.level[i] === 255 ? [] : [`level ${n.level[i]}`],
        ...n.xid[i] ? [`xid ${n.xid[i]}`] : [],
        ...this.movesOf(i),
        `${n.records[i]} records`,
        ...n.fill[i] === 255 ? [] : [`${n.fill[i]} % full`],
        ...n.cost[i] ? [`${secondsText(n.cost[i] / 1e6)} to read`] : [],
        `keys of ${n.first(i)} to ${n.last(i)}`,
        n.offset[i] < 0 ? "not on this disk" : `${bytesText(n.size[i])} at byte ${counted(n.offset[i])}`
      ].join(" · ");
    }
  };

  // src/picture.ts
  var FINE = 4;
  var RGB = /\d+/g;
  function bytesOf2(colour) {
    const [r, g, b] = colour.startsWith("#") ? [1, 3, 5].map((i) => Number.parseInt(colour.slice(i, i + 2), 16)) : colour.match(RGB).map(Number);
    return 255 << 24 | b << 16 | g << 8 | r;
  }
  var Picture = class {
    canvas = element("canvas", { class: "cells", "aria-hidden": "true" });
    /** Paint each cell where the order has it; colours are places in the palette. */
    paint(chosen2, palette2, { columns, rows, cell }) {
      const { canvas } = this;
      const [width, height] = [columns * FINE, rows * FINE];
      if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
      const pen = canvas.getContext("2d");
      const image = pen.createImageData(width, height);
      const pixels2 = new Int32Array(image.data.buffer);
      const hues = Int32Array.from(palette2, ({ hue }) => bytesOf2(hue));
      const lines = Int32Array.from(palette2, ({ hue, hatch }) => bytesOf2(hatch ?? hue));
      for (let row2 = 0; row2 < rows; row2++) {
        const top = row2 * FINE * width;
        const end = top + width;
        let isHatched = false;
        for (let column = 0, at = top; column < columns; column++, at += FINE) {
          const ink = chosen2[cell[row2 * columns + column]];
          pixels2.fill(hues[ink], at, at + FINE);
          isHatched ||= hues[ink] !== lines[ink];
        }
        for (let y = 1; y < FINE; y++) pixels2.copyWithin(top + y * width, top, end);
        if (!isHatched) continue;
        for (let column = 0; column < columns; column++) {
          const line = lines[chosen2[cell[row2 * columns + column]]];
          for (let y = 0; y < FINE; y++) pixels2[top + y * width + column * FINE + (FINE - y) % FINE] = line;
        }
      }
      pen.putImageData(image, 0, 0);
    }
    /** Lie exactly under the axes. */
    lieUnder(plot) {
      const { xaxis, yaxis } = plot._fullLayout;
      const px = (n) => `${n}px`;
      Object.assign(this.canvas.style, {
        left: px(xaxis._offset),
        top: px(yaxis._offset),
        width: px(xaxis._length),
        height: px(yaxis._length)
      });
    }
  };

  // src/pointer.ts
  var STILL = 6;
  function followPointer(area, map2, signal) {
    const fingers = /* @__PURE__ */ new Map();
    let held = null;
    let tapped = null;
    let apart = 0;
    const pinch = () => {
      const [one, other] = [...fingers.values()];
      const now = Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
      if (apart && Math.abs(Math.log2(now / apart)) < 0.5) return;
      if (apart) map2.zoom(apart / now, map2.cellAt(one), true);
      apart = now;
    };
    const pressed = (e) => {
      if (e.button) return;
      fingers.set(e.pointerId, e);
      apart = 0;
      held = fingers.size === 1 ? { x: e.clientX, y: e.clientY, cell: map2.cellAt(e), chooses: e.shiftKey, move: null } : null;
    };
    const moved = (e) => {
      if (fingers.has(e.pointerId)) fingers.set(e.pointerId, e);
      if (fingers.size > 1) pinch();
      else if (held && e.buttons) {
        if (!held.move && Math.hypot(e.clientX - held.x, e.clientY - held.y) < STILL) return;
        const { cell, chooses } = held;
        held.move ??= chooses ? (to) => map2.choose(Math.min(cell, to), Math.max(cell, to)) : map2.grip(cell);
        held.move(map2.cellAt(e));
      } else if (!held && e.pointerType === "mouse" && e.target instanceof Node && area.contains(e.target))
        map2.describe(map2.cellAt(e));
    };
    const released = (e) => {
      fingers.delete(e.pointerId);
      const still = held && !held.move && e.type === "pointerup";
      const cell = held?.cell ?? 0;
      held = null;
      if (!still) return;
      if (e.pointerType !== "touch" || tapped === cell) {
        tapped = null;
        map2.zoom(1 / 16, cell);
      } else {
        tapped = cell;
        map2.describe(cell);
      }
    };
    const always = { capture: true, signal };
    area.addEventListener("pointerdown", pressed, always);
    addEventListener("pointermove", moved, always);
    addEventListener("pointerup", released, always);
    addEventListener("pointercancel", released, always);
    const turned = (e) => {
      e.preventDefault();
      map2.zoom(e.deltaY > 0 ? 2 : 1 / 2, map2.cellAt(e), true);
    };
    area.addEventListener("wheel", turned, { passive: false, capture: true });
  }
  function followStrip(strip, map2) {
    let grip = null;
    const shareAt = (e) => e.offsetX / strip.clientWidth;
    strip.addEventListener("pointerdown", (e) => {
      if (e.button) return;
      strip.setPointerCapture(e.pointerId);
      map2.remember();
      const { from, width } = map2.window();
      const at = shareAt(e);
      const isInside = at >= from && at <= from + width;
      grip = isInside ? at - from : width / 2;
      if (!isInside) map2.lead(at - grip);
    });
    strip.addEventListener("pointermove", (e) => {
      if (grip !== null) map2.lead(shareAt(e) - grip);
    });
    const released = () => {
      grip = null;
    };
    strip.addEventListener("pointerup", released);
    strip.addEventListener("pointercancel", released);
  }

  // src/pyramid.ts
  var SOME = 8;
  async function runsOf(packed2) {
    const { gap, count, held } = await unpackAll(packed2, ["gap", "count", "held"]);
    const first = new Float64Array(gap.length);
    for (let i = 0, at = 0; i < gap.length; i++) {
      at += gap[i];
      first[i] = at;
      at += count[i] + 1;
    }
    return { first, count: Float64Array.from(count, (n) => n + 1), held: Float64Array.from(held) };
  }
  var RunWriter = class {
    runs;
    n = 0;
    constructor(most) {
      this.runs = { first: new Float64Array(most), count: new Float64Array(most), held: new Float64Array(most) };
    }
    put(first, count, held) {
      const { runs, n } = this;
      if (n && first === runs.first[n - 1] + runs.count[n - 1] - 1) runs.held[n - 1] += held;
      else {
        runs.first[n] = first;
        runs.count[n] = count;
        runs.held[n] = held;
        this.n++;
      }
    }
    done() {
      const { runs, n } = this;
      return { first: runs.first.slice(0, n), count: runs.count.slice(0, n), held: runs.held.slice(0, n) };
    }
  };
  function halved(runs) {
    const out = new RunWriter(3 * runs.first.length);
    for (let i = 0; i < runs.first.length; i++) {
      let first = runs.first[i];
      const end = first + runs.count[i];
      const held = runs.held[i];
      if (first % 2) out.put((first++ - 1) / 2, 1, held);
      const pairs = Math.floor((end - first) / 2);
      if (pairs > 0) out.put(first / 2, pairs, 2 * held);
      if (first < end && (end - first) % 2) out.put((end - 1) / 2, 1, held);
    }
    return out.done();
  }
  function firstRun(runs, cell) {
    let low = 0;
    let high = runs.first.length;
    while (low < high) {
      const middle = low + high >> 1;
      if (runs.first[middle] + runs.count[middle] <= cell) low = middle + 1;
      else high = middle;
    }
    return low;
  }
  var Pyramid = class _Pyramid {
    cell;
    free;
    levels;
    unit;
    size;
    constructor(disk, finest) {
      this.unit = disk.pyramid.unit;
      this.cell = disk.pyramid.cell;
      this.size = disk.size;
      this.free = disk.classes.findIndex((c) => c.group === "free");
      this.levels = [finest];
    }
    static async of(disk) {
      return new _Pyramid(disk, await Promise.all(disk.pyramid.cells.map(runsOf)));
    }
    level(number) {
      while (this.levels.length <= number) this.levels.push(this.levels[this.levels.length - 1].map(halved));
      return this.levels[number];
    }
    /** The narrowest cells, at least as wide as asked for, that are sums of whole cells of some level. */
    widthFor(bytes) {
      let number = 0;
      while (this.cell * 2 ** (number + 1) * SOME <= bytes) number++;
      const step = this.cell * 2 ** number;
      return { step, number, bytes: Math.max(step, Math.ceil(bytes / step) * step) };
    }
    /** Bytes of each class in each of some cells; `from` counts from the disk's start, in whole steps of the width. */
    held(from, width, cells) {
      const low = Math.round(from / width.step);
      const many = Math.round(width.bytes / width.step);
      const shares = this.level(width.number).map((runs) => this.heldBy(runs, low, many, cells));
      if (this.free >= 0) shares[this.free] = this.rest(shares, from, width, cells);
      return shares;
    }
    heldBy(runs, low, many, cells) {
      const out = new Float64Array(cells);
      const high = low + many * cells;
      for (let i = firstRun(runs, low); i < runs.first.length && runs.first[i] < high; i++) {
        let at = Math.max(runs.first[i], low);
        const end = Math.min(runs.first[i] + runs.count[i], high);
        const held = runs.held[i] * this.unit;
        while (at < end) {
          const cell = Math.floor((at - low) / many);
          const stop = Math.min(end, low + (cell + 1) * many);
          out[cell] += (stop - at) * held;
          at = stop;
        }
      }
      return out;
    }
    /** Free space has no runs: it is what the others leave of a cell. */
    rest(shares, from, width, cells) {
      const out = new Float64Array(cells);
      for (let c = 0; c < cells; c++) out[c] = Math.max(0, Math.min(width.bytes, this.size - from - c * width.bytes));
      shares.forEach((of, k) => {
        if (k !== this.free) for (let c = 0; c < cells; c++) out[c] -= of[c];
      });
      return out;
    }
  };

  // src/search.ts
  var MOST = 12;
  var TOLD = 3;
  function searchField(map2) {
    const hint = map2.owners.files.areNamed ? "path, file number or byte" : "byte";
    const field = element("input", { type: "search", placeholder: `${hint} ( / )`, "aria-label": `find a ${hint}` });
    const found = element("div", { class: "bar found", role: "status" });
    field.addEventListener("keydown", (e) => e.stopPropagation());
    field.addEventListener("input", () => found.replaceChildren(...results(map2, field.value.trim())));
    const called = (e) => {
      if (e.key !== "/" || e.target instanceof HTMLInputElement) return;
      e.preventDefault();
      field.focus();
    };
    document.addEventListener("keydown", called, { signal: map2.gone.signal });
    return element("div", { class: "search" }, field, found);
  }
  function results(map2, text) {
    if (!text) {
      map2.mark([], null);
      return [];
    }
    const files = map2.owners.files.find(text, MOST);
    const buttons = files.map(
      (file) => button(
        `${file.path} (file ${file.id})${file.volume < map2.disk.earlier ? "" : ", as it was"}`,
        () => showFile(map2, file)
      )
    );
    const byte = Number(text.replaceAll(",", ""));
    const { start, size } = map2.disk;
    if (Number.isInteger(byte) && byte >= start && byte < start + size)
      buttons.push(button(`byte ${counted(byte)}`, () => showByte(map2, byte)));
    if (!buttons.length) return [element("span", { class: "muted" }, "nothing of that name or number on this page")];
    if (files.length === MOST) buttons.push(element("span", { class: "muted" }, `the first ${MOST}`));
    return buttons;
  }
  function button(text, action) {
    return element("button", { type: "button", onclick: action }, text);
  }
  async function showByte(map2, byte) {
    const size = map2.view.size / 16;
    await map2.show(byte - size / 2, size);
    await map2.mark([byte], byte);
    map2.describe(Math.floor((byte - map2.from) / map2.cellSize));
  }
  async function showFile(map2, file) {
    const extents = await map2.owners.extentsOf(file);
    const bytes = extents.reduce((sum, [, length]) => sum + length, 0);
    const node = file.node < 0 ? void 0 : map2.owners.nodes.offset[file.node];
    const places = extents.flatMap(([start, length]) => steps(start, length, map2.cellSize));
    if (node !== void 0) places.push(node);
    if (!places.some((place) => place >= map2.from && place < map2.to)) await map2.show(map2.disk.start, map2.used);
    await map2.mark(places, node ?? null);
    const data = map2.disk.tells_files ? `${bytesText(bytes)} of data in ${plural(extents.length, "piece")}` : "where its data lies is not on this page: the disk has more extents than it carries";
    const first = extents.slice(0, TOLD).map(([start, length]) => `${bytesText(length)} at byte ${counted(start)}`);
    if (extents.length > TOLD) first.push(`and ${counted(extents.length - TOLD)} more`);
    map2.info.textContent = [
      `${file.path}, file ${file.id}: ${data}`,
      ...first.length ? [first.join(" · ")] : [],
      ...node === void 0 ? [] : [`its inode, where the larger ring is: ${map2.owners.nodeText(file.node)}`]
    ].join("\n");
  }
  function steps(start, length, cell) {
    return Array.from({ length: Math.min(256, Math.ceil(length / cell)) }, (_, i) => start + i * cell);
  }

  // src/address.ts
  var INVITATION = "Point at a cell to see what it holds; click or turn the wheel to zoom, drag to move, drag with shift to choose nodes.";
  var MOST_MARKS = 1500;
  var AddressMap = class {
    constructor(disk, holder, scale) {
      this.disk = disk;
      this.holder = holder;
      this.full = scale.span;
      this.used = scale.used;
      this.view = { from: disk.start, size: scale.used };
      const label = `map of ${disk.title}: plus and minus zoom, arrows move, 0 shows the whole disk, Backspace goes back`;
      this.plot = element("div", { class: "plot map", tabindex: 0, role: "img", "aria-label": label });
    }
    disk;
    holder;
    view;
    earlier = [];
    hidden = /* @__PURE__ */ new Set();
    order = "linear";
    maxXid = Infinity;
    by = "tree";
    full;
    used;
    from = 0;
    to = 0;
    cellSize = 0;
    marks = [];
    head = null;
    current = [];
    hiddenBytes = new Float64Array(0);
    pyramid;
    owners;
    selection;
    info = element("div", { class: "hover", role: "status" }, INVITATION);
    /** Told of each view that somebody chooses. */
    onView = () => {
    };
    /** Told that the picture changed. */
    onDrawn = () => {
    };
    /** Ends what the map hears of the window. */
    gone = new AbortController();
    plot;
    picture = new Picture();
    drawn = "";
    isSeen = true;
    isStale = false;
    shades = null;
    inks = null;
    stretch = null;
    striped = null;
    strip = element("canvas", {
      class: "strip",
      title: "the whole disk; drag the frame, or click to go there",
      width: 1024,
      height: 32
    });
    caption = element("span", { class: "muted caption" });
    scaleKey = element("div", {});
    hiddenKey = element("span", {});
    places = cellPlaces("linear");
    async build() {
      this.pyramid = await Pyramid.of(this.disk);
      this.owners = await Owners.of(this.disk);
      this.selection = new Selection(this.owners.nodes);
      this.selection.whenChosen(() => this.paint());
      const slider = ageSlider(this.disk, this);
      this.holder.append(
        element("h3", {}, this.disk.title),
        element("div", { class: "bar" }, searchField(this), this.controls()),
        this.strip,
        element("div", { class: "cellbox" }, this.picture.canvas, this.plot),
        this.info,
        ...slider ? [slider] : [],
        legend(this, this.hiddenKey),
        this.scaleKey,
        chosenTable(this.selection)
      );
      await this.draw();
      this.listen();
    }
    listen() {
      followPointer(this.plot, this, this.gone.signal);
      const { start } = this.disk;
      followStrip(this.strip, {
        window: () => ({ from: (this.view.from - start) / this.full, width: this.view.size / this.full }),
        remember: () => this.earlier.push({ ...this.view }),
        lead: (from) => this.show(start + from * this.full, this.view.size, true)
      });
      const sight = new IntersectionObserver(([last]) => {
        this.isSeen = last.isIntersecting;
        if (this.isSeen && this.isStale) this.restyle();
      });
      sight.observe(this.plot);
      this.gone.signal.addEventListener("abort", () => sight.disconnect());
      this.plot.addEventListener("keydown", (e) => this.press(e));
      this.plot.on("plotly_relayout", () => this.picture.lieUnder(this.plot));
    }
    grip(cell) {
      const { from } = this;
      this.earlier.push({ ...this.view });
      return (at) => this.show(from - (at - cell) * this.cellSize, this.view.size, true);
    }
    press(e) {
      const keys = {
        "+": () => this.zoom(1 / 4),
        "=": () => this.zoom(1 / 4),
        "-": () => this.zoom(4),
        "0": () => this.show(this.disk.start, this.full),
        Backspace: () => this.back(),
        ArrowRight: () => this.move(1 / 4),
        ArrowLeft: () => this.move(-1 / 4),
        ArrowDown: () => this.move(1),
        ArrowUp: () => this.move(-1)
      };
      const act = keys[e.key];
      if (!act) return;
      e.preventDefault();
      act();
    }
    /** The cell under a pointer; the picture fills the plot but for its margins. */
    cellAt(event) {
      const { xaxis, yaxis } = this.plot._fullLayout;
      const box = this.plot.getBoundingClientRect();
      const clamp = (n, most) => Math.min(most - 1, Math.max(0, Math.floor(n * most)));
      const column = clamp((event.clientX - box.left - xaxis._offset) / xaxis._length, this.places.columns);
      const row2 = clamp((event.clientY - box.top - yaxis._offset) / yaxis._length, this.places.rows);
      return this.places.cell[row2 * this.places.columns + column];
    }
    controls() {
      const isChange = this.disk.classes.some(({ key: key2 }) => key2 === "stayed");
      const button2 = (text, title, action) => element("button", { type: "button", title, onclick: action }, text);
      const chooser = (title, names, now, choose) => {
        const box = element("select", { title }, ...names.map((name) => element("option", { value: name }, name)));
        box.value = now;
        box.addEventListener("change", () => {
          choose(box.value);
          this.draw();
        });
        return box;
      };
      const orders = chooser("how addresses run through the picture", ORDERS, this.order, (name) => {
        this.order = name;
      });
      const colourings = chooser("what colours nodes", COLOURINGS, this.by, (name) => {
        this.by = name;
      });
      return element(
        "div",
        { class: "bar" },
        button2("+", "zoom in on the middle", () => this.zoom(1 / 4)),
        button2("−", "zoom out", () => this.zoom(4)),
        button2("whole disk", "zoom out fully", () => this.show(this.disk.start, this.full)),
        button2("part in use", "what is in use, nearly all of it", () => this.show(this.disk.start, this.used)),
        button2(
          isChange ? "changes" : "metadata",
          `zoom to the span of the ${isChange ? "changes" : "metadata"}`,
          () => this.showMetadata()
        ),
        button2("back", "to the view before", () => this.back()),
        orders,
        element("label", { class: "muted" }, "nodes by ", colourings),
        this.caption
      );
    }
    showMetadata() {
      let [low, high] = [Infinity, -Infinity];
      this.pyramid.level(0).forEach((runs, k) => {
        const last = runs.first.length - 1;
        if (this.disk.classes[k].group !== "metadata" || last < 0) return;
        low = Math.min(low, runs.first[0]);
        high = Math.max(high, runs.first[last] + runs.count[last]);
      });
      if (low < high) this.show(this.disk.start + low * this.pyramid.cell, (high - low) * this.pyramid.cell);
    }
    /** Zoom on a cell, or on the middle; with `keep` the cell stays where it is, as under a pointer. */
    zoom(factor, cell, keep = false) {
      const size = this.view.size * factor;
      const at = cell === void 0 ? (this.from + this.to) / 2 : this.from + (cell + 0.5) * this.cellSize;
      return this.show(keep ? at - (at - this.from) * factor : at - size / 2, size);
    }
    move(share) {
      return this.show(this.view.from + share * this.view.size, this.view.size);
    }
    back() {
      const view = this.earlier.pop();
      return view && this.show(view.from, view.size, true);
    }
    show(from, size, silent = false) {
      const before = this.view;
      const { start } = this.disk;
      const wide = Math.min(this.full, Math.max(size, CELLS * this.pyramid.cell));
      this.view = { from: Math.min(Math.max(from, start), Math.max(start, start + this.full - wide)), size: wide };
      const changed = before.from !== this.view.from || before.size !== wide;
      if (!silent && changed) this.earlier.push(before);
      if (changed) this.onView(this);
      return this.draw();
    }
    async draw() {
      const { start } = this.disk;
      if (this.drawn !== this.order) this.places = cellPlaces(this.order);
      const width = this.pyramid.widthFor(this.view.size / CELLS);
      this.cellSize = width.bytes;
      this.from = start + Math.floor((this.view.from - start) / width.step) * width.step;
      this.to = this.from + this.cellSize * CELLS;
      this.share(width);
      this.hiddenKey.hidden = !(this.hidden.size || this.maxXid !== Infinity);
      const end = Math.min(this.to, start + this.full);
      this.caption.textContent = `${bytesText(this.from)} to ${bytesText(end)} · a cell is ${bytesText(this.cellSize)}`;
      this.paint();
      this.drawStrip();
      this.onDrawn();
      await this.drawAxes();
      await this.owners.look(this.from, this.to);
    }
    /** Paint the cells; nodes by their level or age where that is asked for, and chosen nodes in a colour of their own. */
    paint() {
      const { classes } = this.disk;
      this.inks ??= [...palette(classes), { hue: hueOf(CHOSEN) }];
      const inks = [...this.inks];
      const chosen2 = inks.length - 1;
      const picked = colours(classes, this.current, this.hiddenBytes, this.cellSize);
      const { nodes } = this.owners;
      const scale = this.scale();
      if (scale) {
        const none = inks.length;
        inks.push(...scale.inks);
        withoutMetadata(picked, classes, none);
        const all = this.hidden.size === 0 && this.maxXid === Infinity;
        const there = this.owners.nodesBetween(this.from, this.to);
        paintSteps(picked, nodes, all ? there : there.filter((i) => this.shows(i)), scale.steps, none + 1, this);
      }
      overpaint(picked, nodes, this.selection.nodes, chosen2, this);
      this.picture.paint(picked, inks, this.places);
    }
    /** The scale that nodes are coloured by, with its legend; null where they have the colours of their trees. */
    scale() {
      const { by, shades } = this;
      if (by === "tree" || shades?.by === by) {
        if (by === "tree") this.scaleKey.replaceChildren();
        else if (!this.scaleKey.firstChild) this.scaleKey.append(shades.key());
        return by === "tree" ? null : shades;
      }
      this.shades = new Scale(this.owners.nodes, by, this.disk.walks[0]?.label ?? "");
      this.scaleKey.replaceChildren(this.shades.key());
      return this.shades;
    }
    /** Whether neither legend nor slider hides a node. */
    shows(i) {
      const { classes, tree, xid } = this.owners.nodes;
      return !this.hidden.has(classes[tree[i]]) && xid[i] <= this.maxXid;
    }
    /** Choose the nodes of a stretch of cells; of a drag's many stretches in one frame the last one alone. */
    choose(first, last) {
      const stretch = [this.from + first * this.cellSize, this.from + (last + 1) * this.cellSize];
      if (!this.stretch)
        requestAnimationFrame(() => {
          const [low, high] = this.stretch;
          this.stretch = null;
          this.selection.between(low, high);
        });
      this.stretch = stretch;
    }
    /** Draw the axes anew where they changed, and else the marks, where there are any. */
    async drawAxes() {
      if (this.drawn === this.order)
        return this.marks.length || this.head !== null ? this.mark(this.marks, this.head) : 0;
      this.drawn = this.order;
      await plotly().react(this.plot, [this.overlay()], this.layout(), { ...CONFIG, displayModeBar: false });
      this.picture.lieUnder(this.plot);
    }
    layout() {
      const { columns, rows } = this.places;
      const square = this.order === "hilbert" ? { scaleanchor: "x" } : {};
      return plotLayout({
        xaxis: { visible: false, fixedrange: true, range: [-0.5, columns - 0.5] },
        yaxis: { visible: false, fixedrange: true, range: [rows - 0.5, -0.5], ...square },
        margin: { l: 4, r: 4, t: 4, b: 4 },
        showlegend: false,
        dragmode: false,
        hovermode: false
      });
    }
    overlay() {
      const marked = new Set(this.marks.map((offset) => Math.floor((offset - this.from) / this.cellSize)));
      const spots = [...marked].slice(0, MOST_MARKS).map((cell) => ({ cell, size: 5, hue: isDark() ? "#ffffff" : "#000000" }));
      if (this.head !== null)
        spots.push({ cell: Math.floor((this.head - this.from) / this.cellSize), size: 14, hue: "#E4002B" });
      const seen = spots.filter(({ cell }) => cell >= 0 && cell < CELLS);
      return {
        type: "scatter",
        mode: "markers",
        x: seen.map(({ cell }) => this.places.column[cell]),
        y: seen.map(({ cell }) => this.places.row[cell]),
        hoverinfo: "skip",
        marker: {
          size: seen.map(({ size }) => size),
          color: seen.map(({ hue }) => hue),
          ...{ symbol: "circle-open", line: { width: 1.5 } }
        }
      };
    }
    /** Show marks and head; where the map is out of sight, when it is seen again. */
    mark(offsets, head) {
      this.marks = offsets;
      this.head = head;
      this.isStale = !this.isSeen;
      return this.isSeen ? this.restyle() : void 0;
    }
    restyle() {
      this.isStale = false;
      const { x, y, marker } = this.overlay();
      const changes = { x: [x], y: [y], "marker.size": [marker.size], "marker.color": [marker.color] };
      return plotly().restyle(this.plot, changes, [0]);
    }
    /** Work out the bytes of each class in each cell that are shown, and of all that the legend or the slider hides. */
    share(width) {
      this.current = this.pyramid.held(this.from - this.disk.start, width, CELLS);
      this.hiddenBytes = new Float64Array(CELLS);
      if (this.maxXid !== Infinity) this.hideYounger();
      for (const k of this.hidden) {
        const of = this.current[k];
        for (let c = 0; c < CELLS; c++) this.hiddenBytes[c] += of[c];
        this.current[k] = new Float64Array(CELLS);
      }
    }
    hideYounger() {
      const { offset, size, xid, tree, classes } = this.owners.nodes;
      for (let i = 0; i < offset.length; i++) {
        const of = this.current[classes[tree[i]]];
        const end = offset[i] + size[i];
        if (!of || xid[i] <= this.maxXid || offset[i] >= this.to || end <= this.from) continue;
        const first = Math.max(0, Math.floor((offset[i] - this.from) / this.cellSize));
        const last = Math.min(CELLS - 1, Math.floor((end - 1 - this.from) / this.cellSize));
        for (let c = first; c <= last; c++) {
          const low = this.from + c * this.cellSize;
          const bytes = Math.min(of[c], Math.min(end, low + this.cellSize) - Math.max(offset[i], low));
          of[c] -= bytes;
          this.hiddenBytes[c] += bytes;
        }
      }
    }
    /** Draw the strip's frame over its picture, which is worked out anew where other classes are shown. */
    drawStrip() {
      const { strip, disk } = this;
      const pen = strip.getContext("2d");
      const shown = [...this.hidden].join();
      if (this.striped?.of !== shown) {
        this.paintStrip(pen);
        this.striped = { of: shown, picture: pen.getImageData(0, 0, strip.width, strip.height) };
      } else pen.putImageData(this.striped.picture, 0, 0);
      pen.strokeStyle = "#E4002B";
      pen.lineWidth = 2;
      const scale = strip.width / this.full;
      pen.strokeRect((this.from - disk.start) * scale, 1, Math.max(3, (this.to - this.from) * scale), 30);
    }
    paintStrip(pen) {
      const { strip, disk } = this;
      const width = this.pyramid.widthFor(this.full / strip.width);
      const cells = Math.ceil(this.full / width.bytes);
      const pixel = strip.width * width.bytes / this.full;
      pen.fillStyle = isDark() ? "#1e2126" : "#f4f4f2";
      pen.fillRect(0, 0, strip.width, strip.height);
      const held = this.pyramid.held(0, width, cells);
      for (const metadata of [false, true])
        disk.classes.forEach((c, k) => {
          if (c.group === "metadata" !== metadata || c.group === "free" || this.hidden.has(k)) return;
          pen.fillStyle = hueOf(c);
          held[k].forEach((bytes, i) => {
            if (bytes <= 0) return;
            const share = bytes / width.bytes;
            pen.globalAlpha = metadata ? SHADES[shadeOf(share)][1] : Math.max(0.15, share);
            pen.fillRect(i * pixel, metadata ? 0 : 8, Math.max(1, pixel), 24);
          });
        });
      pen.globalAlpha = 1;
    }
    describe(cell) {
      const low = this.from + cell * this.cellSize;
      const high = Math.min(low + this.cellSize, this.disk.start + this.disk.size);
      if (low >= high) {
        this.info.textContent = "past the end of this disk";
        return;
      }
      const held = this.disk.classes.map((c, k) => ({ label: c.label, bytes: this.current[k][cell] }));
      held.push({ label: "hidden by the legend or the slider", bytes: this.hiddenBytes[cell] });
      const told2 = held.filter(({ bytes }) => bytes > 0).sort((a, b) => b.bytes - a.bytes).map(({ label, bytes }) => `${label} ${shareText(bytes / (high - low))}`);
      const lines = [`bytes ${counted(low)} to ${counted(high)}`, told2.join(" · "), ...this.owners.lines(low, high)];
      this.info.textContent = lines.join("\n");
    }
  };

  // src/band.ts
  var TRAIL = 30;
  var HEAD = { light: "#b3001e", dark: "#ff5c74" };
  var Band = class {
    constructor(disk, holder) {
      this.disk = disk;
      this.canvas = holder.querySelector("canvas");
      this.clock = holder.parentElement.querySelector(".clock");
      this.span = +holder.dataset.span;
    }
    disk;
    canvas;
    clock;
    span;
    /** Take the head away; the clock shows the whole walk again. */
    rest(total) {
      this.pen();
      if (this.clock) this.clock.textContent = secondsText(total);
    }
    /** Show the head at the last of some places, and behind it how it came there, as arcs. */
    show(places, now, total) {
      const { pen, width, height } = this.pen();
      const x = places.map((place) => (place - this.disk.start) / this.span * width);
      const hue = isDark() ? HEAD.dark : HEAD.light;
      pen.strokeStyle = hue;
      for (let i = 1; i < x.length; i++) {
        pen.globalAlpha = i / x.length;
        pen.beginPath();
        pen.moveTo(x[i - 1], height);
        pen.quadraticCurveTo((x[i - 1] + x[i]) / 2, -height / 2, x[i], height);
        pen.stroke();
      }
      pen.globalAlpha = 1;
      pen.fillStyle = hue;
      pen.fillRect(x[x.length - 1] - 1.5, 0, 3, height);
      const done = now >= total ? ", done" : "";
      if (this.clock) this.clock.textContent = `${secondsText(Math.min(now, total))} of ${secondsText(total)}${done}`;
    }
    /** An empty canvas as fine as the screen, with a pen in CSS pixels. */
    pen() {
      const { clientWidth: width, clientHeight: height } = this.canvas;
      this.canvas.width = width * devicePixelRatio;
      this.canvas.height = height * devicePixelRatio;
      const pen = this.canvas.getContext("2d");
      pen.scale(devicePixelRatio, devicePixelRatio);
      return { pen, width, height };
    }
  };

  // src/costs.ts
  var CAUSES = {
    seek: "#5B3A8E",
    rotation: "#B0699F",
    transfer: "#2A8C82",
    overhead: "#C7B27B",
    host: "#8C8C8C"
  };
  function costPanel(disks, holder) {
    const named = (disk, i, drive) => disks.length > 1 ? `${i + 1}. ${disk.title.split(":")[0]}: ${drive}` : drive;
    const rows = disks.flatMap((disk, i) => disk.costs.map((c) => ({ ...c, title: named(disk, i, c.drive) })));
    if (!rows.length) return;
    const y = rows.map((row2) => plain(row2.title));
    const causes = [...new Set(rows.flatMap((row2) => Object.keys(row2.causes)))];
    const traces = causes.map((cause) => ({
      type: "bar",
      orientation: "h",
      name: cause,
      y,
      x: rows.map((row2) => row2.causes[cause] || 0),
      marker: { color: CAUSES[cause] || HUES[5] },
      hovertemplate: `${cause}: %{x:.3f} s<extra></extra>`
    }));
    if (rows.some((row2) => row2.bound_s !== null))
      traces.push(
        packed(
          y,
          rows.map((row2) => row2.bound_s)
        )
      );
    const layout = plotLayout({
      barmode: "stack",
      xaxis: { title: { text: "seconds of the predicted walk, by cause" } },
      yaxis: { automargin: true, autorange: "reversed" },
      legend: { orientation: "h", y: 1.15 }
    });
    plotly().newPlot(plotIn(holder, 110 + 34 * rows.length, "seconds of each walk by cause"), traces, layout, CONFIG);
  }
  function packed(y, x) {
    return {
      type: "scatter",
      mode: "markers",
      name: "packed in key order",
      y,
      x,
      marker: { symbol: "line-ns-open", size: 18, color: isDark() ? "#fff" : "#000", line: { width: 3 } },
      hovertemplate: "packed in key order: %{x:.3f} s<extra></extra>"
    };
  }
  var ALL = "all";
  function withOthers(d, unit) {
    const left = d.whole[unit] - d[unit].reduce((a, b) => a + b, 0);
    const tree = {
      id: [ALL, ...d.id],
      parent: [null, ...d.parent.map((parent) => parent ?? ALL)],
      name: ["all", ...d.name],
      own: [0, ...d[unit]]
    };
    if (d.shown === d.total || !(left > 0)) return tree;
    tree.id.push("others");
    tree.parent.push(ALL);
    tree.name.push(`${counted(d.total - d.shown)} other directories`);
    tree.own.push(left);
    return tree;
  }
  function subtreeTotals(tree) {
    const place = new Map(tree.id.map((id, i) => [id, i]));
    const totals = tree.own.slice();
    tree.own.forEach((own, i) => {
      const passed = /* @__PURE__ */ new Set([i]);
      for (let at = place.get(tree.parent[i]); at !== void 0 && !passed.has(at); at = place.get(tree.parent[at])) {
        totals[at] += own;
        passed.add(at);
      }
    });
    return totals;
  }
  function directoryPanel(disk, holder, map2) {
    const d = disk.directories;
    if (!d) return;
    const units = ["seconds", "entries", "bytes"];
    const choose = element(
      "select",
      { title: "what the boxes measure" },
      ...units.map((unit) => element("option", { value: unit }, `by ${unit}`))
    );
    const all = `${counted(d.total)} directories`;
    const note = d.shown < d.total ? `the ${counted(d.shown)} costliest of ${all}, the others in one box` : all;
    holder.append(element("div", { class: "bar" }, choose, element("span", { class: "muted" }, note)));
    const plot = plotIn(holder, 420, `directories of ${disk.title} by cost`);
    const draw2 = () => {
      const layout = plotLayout({ margin: { l: 4, r: 4, t: 4, b: 4 } });
      return plotly().react(plot, [treemap(d, choose.value)], layout, { ...CONFIG, displayModeBar: false });
    };
    choose.addEventListener("change", draw2);
    draw2();
    plot.on("plotly_treemapclick", ({ points: [box] }) => {
      const nodes = map2.owners.files.nodesOf(box.id);
      if (nodes.length) map2.selection.choose(nodes, `with the entries of “${box.label}”`);
    });
  }
  function treemap(d, unit) {
    const text = { seconds: secondsText, entries: counted, bytes: bytesText }[unit];
    const tree = withOthers(d, unit);
    const totals = subtreeTotals(tree);
    const scale = isDark() ? ["#24384a", "#3f86bd"] : ["#eaf3fa", "#7fb8de"];
    return {
      type: "treemap",
      ids: tree.id,
      labels: tree.name.map(plain),
      parents: tree.parent.map((parent) => parent ?? ""),
      values: totals,
      branchvalues: "total",
      text: totals.map(text),
      customdata: tree.own.map(text),
      textinfo: "label+text",
      hovertemplate: "%{label}<br>%{text} in all, %{customdata} in itself<extra></extra>",
      maxdepth: 5,
      tiling: { pad: 2 },
      root: { color: "rgba(0,0,0,0)" },
      marker: {
        colors: totals,
        colorscale: scale.map((colour, i) => [i, colour]),
        line: { width: 1, color: isDark() ? "#14171b" : "#ffffff" }
      },
      textfont: { color: isDark() ? "#e6e9ed" : "#1b1f24" }
    };
  }

  // src/payload.ts
  function spreadOf(disk) {
    const reads = disk.walks.map(({ reach }) => reach.map((place) => place - disk.start));
    const leaves = disk.distances.key_order.map(({ picture }) => picture.y.map((place) => place * 2 ** 20));
    const places = [...reads, ...leaves].flat();
    return places.length ? [Math.min(...places), Math.max(...places)] : [0, disk.used || disk.size];
  }
  function reachOf(disks) {
    return Math.max(...disks.map(spreadOf).map(([low, high]) => high - low));
  }
  function placeRange(disk, scale) {
    const low = Math.max(0, Math.min(spreadOf(disk)[0], disk.size - scale.reach));
    return [(low - 0.04 * scale.reach) / 2 ** 20, (low + 1.04 * scale.reach) / 2 ** 20];
  }
  function labelOf(disk, tree) {
    return disk.classes.find(({ key: key2 }) => key2 === tree)?.label ?? tree;
  }

  // src/distances.ts
  async function orderPanel(disk, holder, selection, scale) {
    const orders = disk.distances.key_order;
    if (!orders.length) holder.append(element("p", { class: "muted" }, "There are no leaves to compare."));
    for (const { tree, total, picture } of orders) {
      const title = `${labelOf(disk, tree)}: ${counted(total)} leaves`;
      holder.append(element("h3", {}, title));
      const layout = {
        xaxis: { title: { text: "place in key order" } },
        yaxis: { title: { text: "place on disk, MiB" }, range: placeRange(disk, scale) }
      };
      const { all } = selection;
      const own = all.trees.indexOf(tree);
      const leaf = all.kinds.indexOf("leaf");
      const place = (i) => all.tree[i] === own && all.kind[i] === leaf && all.rank[i] >= 0 ? [all.rank[i], (all.offset[i] - disk.start) / 2 ** 20] : null;
      const told2 = "leaf %{x:,.0f} in key order<br>%{y:,.1f} MiB";
      const points = Array.from(all.offset.keys(), place).filter((point) => point !== null);
      const trace = points.length === total ? pointsTrace(points, told2) : await pictureTrace(picture, told2);
      await brushed(
        plotIn(holder, 260, title),
        trace,
        layout,
        selection,
        place,
        `chosen in key order of ${labelOf(disk, tree)}`
      );
    }
  }
  function pointsTrace(points, told2) {
    const [x, y] = [points.map(([at]) => at), points.map(([, at]) => at)];
    const marker = { size: 3, color: HUES[0], opacity: 0.6 };
    return { type: "scattergl", mode: "markers", x, y, marker, hovertemplate: `${told2}<extra></extra>` };
  }
  async function distancePanel(disk, holder) {
    const { seek, to_data } = disk.distances;
    await histogram(seek, "From the end of one read to the start of the next", holder);
    await histogram(to_data, "From a file's inode to its first data", holder);
  }
  async function histogram(h, title, holder) {
    if (!h?.total) return;
    await addPlot(holder, title, 250, [bars(h)], {
      xaxis: {
        title: { text: "distance: this up to twice as much", standoff: 8 },
        ...{ type: "category", nticks: 9, tickangle: 0, automargin: true }
      },
      yaxis: { title: { text: "count" } }
    });
  }
  function bars(h) {
    const x = ["0", ...h.counts.map((_, i) => bytesText(2 ** (h.first_power + i)))];
    const hovertemplate = "from %{x}: %{y:,}<extra></extra>";
    return { type: "bar", x, y: [h.touching, ...h.counts], marker: { color: HUES[0] }, hovertemplate };
  }

  // src/link.ts
  var MARK = "#v=";
  var FIELDS = 6;
  function written(map2) {
    const xid = map2.maxXid === Infinity ? "" : map2.maxXid;
    const { view, order, hidden, by } = map2;
    return [Math.round(view.from), Math.round(view.size), order, xid, [...hidden].join("-"), by].join(",");
  }
  function read(text, classes) {
    const fields = text.split(",");
    const [from, size] = fields.map(Number);
    if (fields.length !== FIELDS || !Number.isFinite(from) || !(size > 0) || !Number.isFinite(size)) return null;
    const [, , order, xid, hidden, by] = fields;
    const places = hidden.split("-").filter(Boolean).map(Number);
    return {
      view: { from, size },
      order: ORDERS.includes(order) ? order : "linear",
      maxXid: xid && Number.isFinite(+xid) ? +xid : Infinity,
      by: COLOURINGS.includes(by) ? by : "tree",
      hidden: new Set(places.filter((place) => Number.isInteger(place) && place >= 0 && place < classes))
    };
  }
  function chosen(hash, classes) {
    const texts = hash.startsWith(MARK) ? hash.slice(MARK.length).split(";") : [];
    return classes.map((many, i) => texts[i] === void 0 ? null : read(texts[i], many));
  }
  function follow(maps) {
    if (location.protocol === "about:") return;
    let timer = 0;
    const write = () => history.replaceState(null, "", MARK + maps.map(written).join(";"));
    for (const map2 of maps)
      map2.onDrawn = () => {
        clearTimeout(timer);
        timer = window.setTimeout(write, 300);
      };
  }

  // src/race.ts
  var PLAY_SECONDS = 20;
  var SPEEDS = [0.25, 0.5, 1, 2, 4];
  var STEPS2 = 1e3;
  var Race = class {
    constructor(players, holder) {
      this.players = players;
      const press = () => this.frame === null ? this.play() : this.pause();
      this.button = element("button", { type: "button", onclick: press }, "▶ play");
      const title = "time since the start of the walks";
      this.bar = element("input", { type: "range", min: 0, max: STEPS2, value: 0, title });
      this.bar.addEventListener("input", () => {
        this.pause();
        this.show(+this.bar.value / STEPS2 * this.longest());
      });
      if (!this.hasTime) return;
      const speeds = element(
        "select",
        { title: "how fast" },
        ...SPEEDS.map((speed) => element("option", { value: speed }, this.words(speed)))
      );
      speeds.value = "1";
      speeds.addEventListener("change", () => this.hurry(+speeds.value));
      const end = { type: "button", title: "back to the start, without heads", onclick: () => this.stop() };
      holder.append(
        element(
          "div",
          { class: "bar race" },
          this.button,
          element("button", end, "■ stop"),
          speeds,
          this.bar,
          this.clock
        )
      );
      this.tell();
    }
    players;
    now = 0;
    frame = null;
    chosen = 1;
    began = 0;
    clock = element("span", { class: "muted clock" });
    button;
    bar;
    /** Whether any walk takes time at all: where mounting has read everything, nothing moves. */
    get hasTime() {
      return this.players.length > 0 && this.longest() > 0;
    }
    longest() {
      return Math.max(...this.players.map((player) => player.total()));
    }
    speed() {
      return this.chosen * this.longest() / PLAY_SECONDS;
    }
    words(speed) {
      const times = speed * this.longest() / PLAY_SECONDS;
      return times >= 1 ? `${times.toPrecision(2)} × as fast as the drive` : `${(1 / times).toPrecision(2)} × as slow as the drive`;
    }
    hurry(speed) {
      this.chosen = speed;
      this.since();
      this.tell();
    }
    /** Count the page's time from where the walks are. */
    since() {
      this.began = performance.now() - 1e3 * this.now / this.speed();
    }
    play() {
      if (!this.hasTime || this.frame !== null) return;
      if (this.now >= this.longest()) this.now = 0;
      this.since();
      const step = () => {
        this.show(Math.min(this.longest(), (performance.now() - this.began) / 1e3 * this.speed()));
        if (this.now < this.longest()) this.frame = requestAnimationFrame(step);
        else this.pause();
      };
      this.button.textContent = "❚❚ pause";
      this.frame = requestAnimationFrame(step);
    }
    pause() {
      if (this.frame !== null) cancelAnimationFrame(this.frame);
      this.frame = null;
      this.button.textContent = "▶ play";
    }
    async stop() {
      this.pause();
      this.now = 0;
      this.bar.value = "0";
      this.tell();
      await Promise.all(this.players.map((player) => player.rest()));
    }
    show(now) {
      this.now = now;
      this.bar.value = String(STEPS2 * (now / this.longest()));
      for (const player of this.players) player.at(Math.min(now, player.total()));
      this.tell();
    }
    /** Tell the time; each walk's own clock stands at its band. */
    tell() {
      this.clock.textContent = `${secondsText(this.now)} since the start`;
    }
  };

  // src/walk.ts
  var MOST_PLACES = 3e3;
  async function walkPanel(disk, holder, map2, band, scale) {
    if (!disk.walks.length) {
      holder.append(element("p", { class: "muted" }, "No walk was predicted."));
      return null;
    }
    const options = disk.walks.map((walk2, i) => element("option", { value: i }, walk2.label));
    const choose = element("select", { title: "drive" }, ...options);
    const note = element("span", { class: "muted" });
    holder.append(element("div", { class: "bar" }, choose, note));
    const plot = plotIn(holder, 460, `the walk of ${disk.title}: place on disk over time`);
    let walk = disk.walks[0];
    let reads;
    let last = 0;
    const draw2 = async () => {
      walk = disk.walks[+choose.value];
      const { ticks, time, reads_of } = walk;
      const made = { time, ...disk.walks[reads_of] };
      reads = await unpackAll({ ...made, time }, ["time", "offset", "length", "tree"]);
      reads.time = reads.time.map((tick) => tick / ticks);
      note.textContent = `${walk.order}: ${told(walk)}; select a span of time to see its places in the map above`;
      map2.mark([], null);
      const traces = [...walkTraces(disk, walk, reads), chosenTrace()];
      last = traces.length - 1;
      await plotly().react(plot, traces, walkLayout(disk, walk, scale), CONFIG);
      showReads();
    };
    const showReads = () => {
      const touched = readsOf(map2.selection, reads);
      const x = touched.map((i) => reads.time[i]);
      const y = touched.map((i) => (reads.offset[i] - disk.start) / 2 ** 20);
      return plotly().restyle(plot, { x: [x], y: [y] }, [last]);
    };
    await draw2();
    choose.addEventListener("change", draw2);
    map2.selection.whenChosen(showReads);
    const show = (places, about) => {
      map2.mark(thinned(places), null);
      map2.selection.at(places, about);
    };
    plot.on("plotly_relayout", (change) => {
      const [from, to] = change["xaxis.range"] ?? [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      if (from === void 0 || to === void 0) {
        if (change["xaxis.autorange"]) show([], "");
      } else if (+from > 0 || +to < walk.total_s)
        show(placesBetween(reads, +from, +to), `read between ${secondsText(Math.max(0, +from))} and ${secondsText(+to)}`);
      else show([], "");
    });
    return {
      total: () => walk.total_s,
      rest: () => {
        band.rest(walk.total_s);
        return map2.mark([], null);
      },
      at: (now) => {
        const at = lastBefore(reads.time, now);
        const trail = Array.from(reads.offset.slice(Math.max(0, at - TRAIL), at + 1));
        band.show(trail, now, walk.total_s);
        return map2.mark(trail.slice(0, -1), trail[trail.length - 1] ?? null);
      }
    };
  }
  function told(walk) {
    const drawn = walk.step > 1 ? `, of which one in ${walk.step} is drawn` : "";
    return `${counted(walk.reads)} reads in ${secondsText(walk.total_s)}${drawn}`;
  }
  function lastBefore(time, now) {
    let low = 0;
    let high = time.length - 1;
    while (low < high) {
      const middle = low + high + 1 >> 1;
      if (time[middle] <= now) low = middle;
      else high = middle - 1;
    }
    return low;
  }
  function placesBetween(reads, from, to) {
    return Array.from(reads.offset).filter((_, i) => reads.time[i] >= from && reads.time[i] <= to);
  }
  function thinned(places) {
    const step = Math.max(1, Math.ceil(places.length / MOST_PLACES));
    return places.filter((_, i) => i % step === 0);
  }
  function readsOf({ all, nodes }, { offset, length }) {
    const ordered = nodes.toSorted((a, b) => all.offset[a] - all.offset[b]);
    const firstBehind = (byte) => {
      let low = 0;
      let high = ordered.length;
      while (low < high) {
        const middle = low + high >> 1;
        if (all.offset[ordered[middle]] + all.size[ordered[middle]] <= byte) low = middle + 1;
        else high = middle;
      }
      return ordered[low];
    };
    return Array.from(offset.keys()).filter((i) => {
      const node = firstBehind(offset[i]);
      return node !== void 0 && all.offset[node] < offset[i] + length[i];
    });
  }
  function walkTraces(disk, walk, reads) {
    const points = walk.trees.map((name, tree) => {
      const own = Array.from(reads.tree.keys()).filter((i) => reads.tree[i] === tree);
      const known = disk.classes.find((c) => c.key === name);
      const x = own.map((i) => reads.time[i]);
      return {
        type: "scattergl",
        mode: "markers",
        name: plain(labelOf(disk, name)),
        x,
        y: own.map((i) => (reads.offset[i] - disk.start) / 2 ** 20),
        marker: { size: 3, color: known ? hueOf(known) : HUES[tree % HUES.length] },
        hovertemplate: `%{x:.3f} s<br>%{y:,.1f} MiB<extra>${plain(labelOf(disk, name))}</extra>`
      };
    });
    const { width, seeks, bytes } = walk.rates;
    const time = seeks.map((_, i) => i * width);
    const rate = (name, y, yaxis, color) => ({
      ...{ type: "scatter", mode: "lines", name, x: time, y, yaxis, line: { color, width: 1 }, showlegend: false }
    });
    return [
      ...points.filter((trace) => trace.x.length),
      rate("seeks per second", seeks, "y2", HUES[1]),
      rate(
        "MB per second",
        bytes.map((b) => b / 1e6),
        "y3",
        HUES[2]
      )
    ];
  }
  function walkLayout(disk, walk, scale) {
    const rate = { rangemode: "tozero", fixedrange: true };
    return plotLayout({
      xaxis: {
        title: { text: "seconds since the start of the walk" },
        range: [0, scale.seconds || walk.total_s],
        anchor: "y3"
      },
      yaxis: { title: { text: "place on disk, MiB" }, domain: [0.42, 1], range: placeRange(disk, scale) },
      yaxis2: { title: { text: "seeks/s" }, domain: [0.22, 0.38], ...rate },
      yaxis3: { title: { text: "MB/s" }, domain: [0, 0.16], ...rate },
      legend: { orientation: "h", y: 1.08 },
      margin: { l: 70, r: 12, t: 26, b: 42 },
      dragmode: "zoom"
    });
  }

  // src/page.ts
  var PANELS = ["map", "costs", "order", "walk", "directories", "history", "distances"];
  var cardsOf = (anchor) => [...document.querySelectorAll(`#${anchor} .card`)];
  function whenOpened(anchor, draw2) {
    const folded2 = document.querySelector(`#${anchor} details`);
    if (!folded2) return;
    let drawn = false;
    const go = () => {
      if (!folded2.open || drawn) return;
      drawn = true;
      draw2(cardsOf(anchor));
    };
    folded2.ontoggle = go;
    go();
  }
  function together(maps, holder) {
    if (maps.length < 2) return;
    const box = element("input", { type: "checkbox" });
    for (const map2 of maps)
      map2.onView = ({ view, disk }) => {
        if (!box.checked) return;
        for (const other of maps)
          if (other !== map2) other.show(other.disk.start + view.from - disk.start, view.size, true);
      };
    holder.append(element("label", { class: "bar" }, box, "zoom and move all maps together"));
  }
  async function draw(page2, kept2) {
    const { disks } = page2;
    const scale = { ...page2.scale, reach: reachOf(disks) };
    const [places, orders, walks] = ["map", "order", "walk"].map(cardsOf);
    const maps = disks.map((disk, i) => Object.assign(new AddressMap(disk, places[i], scale), kept2[i]));
    for (const [i, map2] of maps.entries()) {
      await map2.build();
      if (kept2[i]?.view) await map2.show(map2.view.from, map2.view.size, true);
    }
    together(maps, document.querySelector("#map .above"));
    follow(maps);
    const [costs] = cardsOf("costs");
    if (costs) costPanel(disks, costs);
    const players = [];
    const bands2 = disks.map((disk, i) => new Band(disk, document.querySelector(`.band[data-disk="${i}"]`)));
    for (const [i, disk] of disks.entries()) {
      if (!orders[i]) continue;
      await orderPanel(disk, orders[i], maps[i].selection, scale);
      const player = await walkPanel(disk, walks[i], maps[i], bands2[i], scale);
      if (player) players.push(player);
    }
    const race = new Race(players, document.getElementById("race"));
    whenOpened("directories", (cards) => disks.map((disk, i) => directoryPanel(disk, cards[i], maps[i])));
    whenOpened("history", (cards) => disks.map((disk, i) => historyPanel(disk, cards[i], maps[i].selection)));
    whenOpened("distances", (cards) => disks.map((disk, i) => distancePanel(disk, cards[i])));
    window.layoutscope = { page: page2, maps, race };
    document.documentElement.dataset.ready = "yes";
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches || location.protocol === "about:";
    if (!played && !isStill) race.play();
    played = true;
  }
  var played = false;
  var drawing;
  async function redraw() {
    await drawing;
    const { page: page2, maps, race } = window.layoutscope;
    delete document.documentElement.dataset.ready;
    if (race.players.length) await race.stop();
    await new Promise(requestAnimationFrame);
    const kept2 = maps.map(({ view, earlier, hidden, order, maxXid, by }) => ({
      view,
      earlier,
      hidden,
      order,
      maxXid,
      by
    }));
    for (const map2 of maps) map2.gone.abort();
    for (const plot of document.querySelectorAll(".js-plotly-plot")) plotly().purge(plot);
    for (const holder of [
      ...PANELS.flatMap(cardsOf),
      document.getElementById("race"),
      document.querySelector("#map .above")
    ])
      holder.replaceChildren();
    drawing = draw(page2, kept2);
    return drawing;
  }
  for (const section of ["what", ...PANELS].map((anchor) => document.getElementById(anchor)))
    if (section) (section.querySelector(":scope > details") ?? section).append(pictureButtons(section));
  document.getElementById("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  var page = JSON.parse(document.getElementById("payload").textContent);
  var kept = chosen(
    location.hash,
    page.disks.map((disk) => disk.classes.length)
  );
  drawing = unfold(page).then(() => draw(page, kept));
})();
