"use strict";
(() => {
  // src/dom.ts
  function element(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (typeof value === "function") node.addEventListener(key.slice(2), value);
      else node.setAttribute(key, String(value));
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
  function swatch(colour2) {
    const box = element("span", { class: "swatch" });
    box.style.background = colour2;
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
  var LEAST = SHADES.map(([least]) => least);
  function shadeOf(share) {
    let shade2 = 0;
    while (share < LEAST[shade2]) shade2++;
    return shade2;
  }
  var NO_NUMBER = { light: "#d4d7db", dark: "#3a4049" };
  var HATCHED = /* @__PURE__ */ new Set(["damaged", "unclaimed", "unread", "not-told"]);
  var hatchOn = (c) => ({ hue: hueOf(c), hatch: isDark() ? "#000000" : "#ffffff" });
  var MARKED = "damaged";
  var numPlain = (classes) => classes.length * SHADES.length + 2;
  function palette(classes) {
    const shades2 = classes.flatMap(
      (c) => SHADES.map(([, strength]) => ({
        ...HATCHED.has(c.key) ? hatchOn(c) : {},
        hue: shade(hueOf(c), strength)
      }))
    );
    const plain2 = [{ hue: isDark() ? "#14171b" : "#ffffff" }, ...shades2, { hue: hueOf(HIDDEN) }];
    const marked = classes.find(({ key }) => key === MARKED);
    return marked ? [...plain2, ...plain2.map(({ hue }) => ({ hue, hatch: hueOf(marked) }))] : plain2;
  }
  function withoutMetadata(picked, classes, instead) {
    const isMetadata = classes.map(({ group }) => group === "metadata");
    const plain2 = numPlain(classes);
    for (let c = 0; c < picked.length; c++)
      if (isMetadata[Math.floor((picked[c] % plain2 - 1) / SHADES.length)]) picked[c] = instead;
  }
  function colours(classes, held, hidden, cellSize) {
    const cells = hidden.length;
    const other = Float64Array.from(hidden);
    const most = new Float64Array(cells);
    const metadata = new Float64Array(cells);
    const out = Uint16Array.from(hidden, (bytes) => bytes > 0 ? 1 + classes.length * SHADES.length : 0);
    held.forEach((of, k) => {
      const colour2 = 1 + k * SHADES.length;
      if (classes[k].group !== "metadata") mark(of, other, out, colour2, most);
      else {
        mark(of, most, out, colour2);
        for (let c = 0; c < cells; c++) metadata[c] += of[c];
      }
    });
    for (let c = 0; c < cells; c++) if (most[c]) out[c] += shadeOf(metadata[c] / cellSize);
    const damaged = classes.findIndex(({ key }) => key === MARKED);
    if (damaged >= 0) markAll(held[damaged], out, 1 + damaged * SHADES.length, numPlain(classes));
    return out;
  }
  function mostOf(classes, held, metadata, cellSize) {
    const marked = metadata.find((k) => classes[k].key === MARKED);
    return Array.from(held[0] ?? [], (_, i) => {
      const own = metadata.map((k) => held[k][i]);
      const worst = marked !== void 0 && held[marked][i] > 0 ? marked : metadata[own.indexOf(Math.max(...own))];
      return { most: worst ?? 0, share: own.reduce((sum, bytes) => sum + bytes, 0) / cellSize };
    });
  }
  function markAll(of, out, colour2, plain2) {
    for (let c = 0; c < of.length; c++)
      if (of[c] > 0 && !(out[c] >= colour2 && out[c] < colour2 + SHADES.length)) out[c] += plain2;
  }
  function mark(of, most, out, colour2, over) {
    for (let c = 0; c < of.length; c++) {
      if (!(of[c] > most[c])) continue;
      most[c] = of[c];
      if (!over?.[c]) out[c] = colour2;
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
  async function unpack(packed) {
    const planes = await inflate(packed.data);
    const kind = KINDS[packed.type];
    const width = kind.BYTES_PER_ELEMENT;
    const n = packed.n;
    const bytes = new Uint8Array(n * width);
    for (let p = 0; p < width; p++) for (let i = 0, at = p * n; i < n; i++) bytes[i * width + p] = planes[at + i];
    const values = new kind(bytes.buffer);
    return packed.delta ? sums(values) : values;
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
    const arrays = await Promise.all(keys.map(async (key) => [key, await unpack(object[key])]));
    return Object.fromEntries(arrays);
  }
  var Ids = class {
    constructor(low, high) {
      this.low = low;
      this.high = high;
    }
    low;
    high;
    get length() {
      return this.low.length;
    }
    text(i) {
      return this.high[i] ? (BigInt(this.high[i]) << 32n | BigInt(this.low[i])).toString() : String(this.low[i]);
    }
    /** Where an identifier stands for the first time from a place on, before another, as far as they rise; -1: nowhere. */
    find(id, from = 0, to = this.length) {
      const [high, low] = halves(id);
      const isBelow = (i) => this.high[i] < high || this.high[i] === high && this.low[i] < low;
      const at = firstWhere(from, to, (i) => !isBelow(i));
      return at < to && this.high[at] === high && this.low[at] === low ? at : -1;
    }
  };
  function halves(id) {
    if (!/^\d{1,20}$/.test(id)) return [-1, -1];
    const whole = BigInt(id);
    return [Number(whole >> 32n), Number(whole & 0xffffffffn)];
  }
  function firstWhere(from, to, holds) {
    let [low, high] = [from, to];
    while (low < high) {
      const middle = low + high >>> 1;
      if (holds(middle)) high = middle;
      else low = middle + 1;
    }
    return low;
  }
  async function idsOf(packed) {
    const { low, high } = await unpackAll(packed, ["low", "high"]);
    return new Ids(low, high);
  }
  var COLUMNS = [
    "tree",
    "kind",
    "condition",
    "level",
    "offset",
    "size",
    "records",
    "xid",
    "rank",
    "fill",
    "cost"
  ];
  async function nodesOf(packed) {
    const columns = await unpackAll(packed, COLUMNS);
    const { trees, classes, kinds, conditions, total } = packed;
    const [id, first, last] = await Promise.all([packed.id, packed.first, packed.last].map(idsOf));
    const { change, other } = packed;
    const moves = change && other ? await unpackAll({ change, other }, ["change", "other"]) : null;
    return { ...columns, moves, trees, classes, kinds, conditions, total, id, first, last };
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
  var NARROW = 560;
  var HUES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A6BBE", "#7A5C3E"];
  function plain(text) {
    return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }
  function colour(name) {
    const probe = element("span", {});
    probe.style.cssText = `color: var(${name}); forced-color-adjust: none; display: none`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }
  function plotLayout(extra) {
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
    for (const key of Object.keys(layout))
      if (/^[xy]axis/.test(key)) layout[key] = { ...axis, ...layout[key] };
    return layout;
  }
  function plotIn(holder, height, label) {
    const plot = element("div", { class: "plot", role: "figure", "aria-label": label });
    plot.style.height = `${height}px`;
    holder.append(plot);
    return plot;
  }
  function legendOf(plot, entries) {
    plot.dataset.legend = "yes";
    const parts = entries.map(({ text, hue }) => element("span", { class: "entry" }, swatch(hue), text));
    return element("div", { class: "bar legend", role: "group", "aria-label": "what the colours mean" }, ...parts);
  }
  function padded([low, high]) {
    const room = 0.04 * (high - low || 1);
    return [low - room, high + room];
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
      colorscale: scale.map((colour2, i) => [i, colour2]),
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
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
    node.append(...children);
    return node;
  };
  var Sheet = class {
    pieces = [];
    height = EDGE;
    words(text, size, weight = "normal") {
      if (!text) return;
      const y = this.height + size;
      this.pieces.push(
        shape("text", { x: EDGE, y, fill: colour("--fg"), "font-size": size, "font-weight": weight }, text)
      );
      this.height = y + 0.6 * size;
    }
    /** A piece as wide as the sheet. */
    piece(svg, height) {
      const place = { x: EDGE, y: this.height, width: WIDTH - 2 * EDGE, height };
      for (const [key, value] of Object.entries(place)) svg.setAttribute(key, String(value));
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
        const box = { x, y: this.height, width: SWATCH, height: SWATCH, fill: hue, stroke: colour("--line") };
        const place = { x: x + SWATCH + 6, y: this.height + SWATCH - 1, fill: colour("--fg"), "font-size": 13 };
        this.pieces.push(shape("rect", box), shape("text", place, text));
        x += width;
      }
      if (entries.length) this.height += LINE + 6;
    }
    text() {
      const height = this.height + EDGE;
      const size = { width: WIDTH, height, viewBox: `0 0 ${WIDTH} ${height}`, "font-family": "system-ui, sans-serif" };
      const ground = shape("rect", { width: WIDTH, height, fill: colour("--bg") });
      return new XMLSerializer().serializeToString(shape("svg", size, ground, ...this.pieces));
    }
  };
  async function chart(plot, sheet) {
    const height = plot.clientHeight;
    const showlegend = plot.dataset.legend === "yes";
    const legend2 = { orientation: "h", y: 1, yanchor: "bottom" };
    const layout = { ...plot.layout, paper_bgcolor: colour("--bg"), autosize: false, showlegend, legend: legend2 };
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

  // src/places.ts
  var SECTOR = 512;
  var NodePlaces = class {
    constructor(nodes) {
      this.nodes = nodes;
    }
    nodes;
    sorted = null;
    widest = 1;
    /** Places of the nodes that lie on this disk in the order of their addresses; sorted when they are asked for first. */
    get ordered() {
      if (this.sorted) return this.sorted;
      const { offset, size } = this.nodes;
      for (let i = 0; i < size.length; i++) if (offset[i] >= 0) this.widest = Math.max(this.widest, size[i]);
      const many = offset.length;
      const isHere = (i) => offset[i] >= 0;
      const isExact = (byte) => byte < 0 || byte % SECTOR === 0 && (byte / SECTOR + 1) * many < 2 ** 53;
      if (offset.every(isExact)) {
        const keys = Float64Array.from(offset, (byte, i) => byte < 0 ? -1 : byte / SECTOR * many + i).sort();
        const here = keys.subarray(firstWhere(0, many, (k) => keys[k] >= 0));
        this.sorted = Uint32Array.from(here, (key) => key % many);
      } else
        this.sorted = Uint32Array.from(offset.keys()).filter(isHere).sort((a, b) => offset[a] - offset[b]);
      return this.sorted;
    }
    /** Places of the nodes that overlap a stretch of disk, and perhaps of some just before it, by their addresses. */
    near(low, high) {
      const { ordered } = this;
      const { offset } = this.nodes;
      const first = (byte) => firstWhere(0, ordered.length, (k) => offset[ordered[k]] >= byte);
      return ordered.subarray(first(low - this.widest + 1), first(high));
    }
    /** Give each node that overlaps a stretch to somebody, until he has seen enough. */
    some(low, high, isEnough) {
      const { offset, size } = this.nodes;
      const { ordered } = this;
      const behind = low - this.widest + 1;
      for (let k = firstWhere(0, ordered.length, (at) => offset[ordered[at]] >= behind); k < ordered.length; k++) {
        const i = ordered[k];
        if (offset[i] >= high) return false;
        if (offset[i] + size[i] > low && isEnough(i)) return true;
      }
      return false;
    }
  };

  // src/turns.ts
  var pause = (milliseconds = 0) => new Promise((done) => setTimeout(done, milliseconds));
  var Turns = class {
    turn = 0;
    steps = [];
    /** All of the last turn is done. */
    done = Promise.resolve();
    add(step2) {
      this.steps.push(step2);
    }
    begin() {
      this.done = this.go(++this.turn);
    }
    async go(turn) {
      for (const step2 of this.steps) {
        await pause();
        if (turn !== this.turn) return this.done;
        await step2();
      }
    }
  };

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
  function placesText(low, high) {
    const [factor, unit] = UNITS.find(([least]) => high >= least) ?? [1, "B"];
    const apart = 1 - Math.floor(Math.log10((high - low) / factor));
    const digits = factor === 1 ? 0 : Math.max(0, apart, 2 - Math.floor(Math.log10(high / factor)));
    const [from, to] = [low, high].map(
      (n) => (n / factor).toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })
    );
    return `${low < factor ? bytesText(low) : from} to ${to} ${unit}`;
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
    constructor(all, places = new NodePlaces(all)) {
      this.all = all;
      this.places = places;
    }
    all;
    places;
    /** Places in the disk's nodes. */
    nodes = [];
    /** How it was chosen, as the table's title goes on. */
    about = "";
    listeners = [];
    followers = new Turns();
    flags = null;
    choose(nodes, about) {
      this.nodes = nodes;
      this.about = nodes.length ? about : "";
      this.flags = null;
      for (const listener of this.listeners) listener();
      this.followers.begin();
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
      const wanted = new Uint8Array(this.all.offset.length);
      for (const place of places)
        this.places.some(place, place + 1, (i) => {
          wanted[i] = 1;
          return false;
        });
      this.where((i) => wanted[i] === 1, about);
    }
    /** Whether a node is chosen, by its place. */
    get isChosen() {
      if (!this.flags) {
        this.flags = new Uint8Array(this.all.offset.length);
        for (const i of this.nodes) this.flags[i] = 1;
      }
      return this.flags;
    }
    /** Hear of each choice at once. */
    whenChosen(listener) {
      this.listeners.push(listener);
    }
    /** Hear of a choice when the page has drawn what hears at once, and no other choice was made meanwhile. */
    afterChosen(follower) {
      this.followers.add(follower);
    }
    /** All views show the choice. */
    get shown() {
      return this.followers.done;
    }
    told() {
      let bytes = 0;
      for (const i of this.nodes) bytes += this.all.size[i];
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
    "last key",
    "condition"
  ];
  function row(nodes, i) {
    return [
      nodes.trees[nodes.tree[i]],
      nodes.kinds[nodes.kind[i]],
      nodes.id.text(i),
      String(nodes.offset[i]),
      String(nodes.size[i]),
      nodes.level[i] === 255 ? "" : String(nodes.level[i]),
      String(nodes.records[i]),
      nodes.xid[i] ? String(nodes.xid[i]) : "",
      nodes.fill[i] === 255 ? "" : String(nodes.fill[i]),
      nodes.cost[i] ? String(nodes.cost[i] / 1e3) : "",
      nodes.first.text(i),
      nodes.last.text(i),
      nodes.conditions[nodes.condition[i]]
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
      const key = element("div", { class: "bar legend muted scale" });
      const hatched = [hatchedSwatch(NO_NUMBER), `metadata of which this is not told: ${none}`];
      if (this.low > this.high) {
        key.append(`no node has a ${this.by} here; `, ...hatched);
        return key;
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
      key.append(span, `${each}of several nodes in a cell, the highest; `, hatched[0], `${hatched[1]}${left}; `);
      key.append("trees have their colours in the strip alone");
      return key;
    }
  };
  function overpaint(picked, { offset, size }, which, hue, { from, cellSize }) {
    for (let n = 0; n < which.length; n++) {
      const low = offset[which[n]] - from;
      const last = Math.min(CELLS - 1, Math.floor((low + size[which[n]] - 1) / cellSize));
      for (let c = Math.max(0, Math.floor(low / cellSize)); c <= last; c++) picked[c] = hue;
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

  // src/cursor.ts
  var STEPS2 = {
    ArrowRight: [1, 0],
    ArrowLeft: [-1, 0],
    ArrowDown: [0, 1],
    ArrowUp: [0, -1]
  };
  var Cursor = class {
    constructor(map2) {
      this.map = map2;
    }
    map;
    /** A byte of the cell that is read, which stays there when the map is zoomed; null where none is. */
    byte = null;
    /** Act on a key, and tell whether there was anything to do. */
    press(e) {
      const { map: map2 } = this;
      const step2 = e.shiftKey && STEPS2[e.key];
      const cell = this.cell();
      if (step2) this.go(step2);
      else if (cell === null) return false;
      else if (e.key === "Enter") map2.zoom(1 / 16, cell).then(() => map2.describe(this.cell() ?? cell));
      else if (e.key === " ") map2.choose(cell, cell);
      else if (e.key === "Escape") this.put(null);
      else return false;
      e.preventDefault();
      return true;
    }
    /** The cell that is read; null where none is, or where it is out of sight. */
    cell() {
      const { byte, map: map2 } = this;
      return byte === null || byte < map2.from || byte >= map2.to ? null : Math.floor((byte - map2.from) / map2.cellSize);
    }
    /** Begin in the middle of what is seen of the disk, or go on from where one was, not past the disk's end. */
    go([columns, rows]) {
      const { map: map2 } = this;
      const isThere = this.cell() !== null;
      const end = Math.min(map2.to, map2.disk.start + map2.disk.size);
      const from = isThere ? this.byte : (map2.from + end) / 2;
      const cell = isThere ? map2.beside(from, columns, rows) : map2.beside(from, 0, 0);
      if (map2.from + cell * map2.cellSize >= end) return;
      this.put(map2.from + (cell + 0.5) * map2.cellSize);
      map2.describe(cell);
    }
    put(byte) {
      this.byte = byte;
      this.map.mark(this.map.marks, this.map.head);
    }
  };

  // src/brush.ts
  var MOST_POINTS = 2e4;
  var SPOT = 3;
  var chosenTrace = () => ({
    ...{ type: "scattergl", mode: "markers", x: [], y: [], hoverinfo: "skip", showlegend: false },
    marker: { size: 4, color: hueOf(CHOSEN) }
  });
  function pointsOf(nodes, { has, x, y }, axes) {
    const own = Array.from(nodes).filter(has);
    const points = { x: [], y: [] };
    const taken = /* @__PURE__ */ new Set();
    const [across, up] = axes.map(({ range, _length }) => ({ low: range[0], pixel: (range[1] - range[0]) / _length }));
    const [wide, high] = axes.map(({ _length }) => Math.ceil(_length / SPOT));
    const isDense = own.length > MOST_POINTS;
    for (const i of own) {
      if (isDense) {
        const column = Math.floor((x(i) - across.low) / across.pixel / SPOT);
        const row2 = Math.floor((y(i) - up.low) / up.pixel / SPOT);
        if (column < 0 || column >= wide || row2 < 0 || row2 >= high) continue;
        const spot = row2 * wide + column;
        if (taken.has(spot)) continue;
        taken.add(spot);
      }
      points.x.push(x(i));
      points.y.push(y(i));
    }
    return points;
  }
  function count(nodes, has) {
    let many = 0;
    for (const i of nodes) if (has(i)) many++;
    return many;
  }
  var axesOf = ({ _fullLayout: { xaxis, yaxis } }) => [xaxis, yaxis];
  async function brushed(plot, first, layout, selection, placing, about) {
    const config = { ...CONFIG, modeBarButtonsToRemove: ["lasso2d", "sendDataToCloud", "editInChartStudio"] };
    const traces = [first, chosenTrace()];
    await plotly().newPlot(plot, traces, plotLayout({ ...layout, dragmode: "select", showlegend: false }), config);
    const show = (nodes, trace) => {
      const { x, y } = pointsOf(nodes, placing, axesOf(plot));
      return plotly().restyle(plot, { x: [x], y: [y] }, [trace]);
    };
    const showAll = () => first.type === "scattergl" ? show(selection.all.offset.keys(), 0) : void 0;
    let many = 0;
    selection.afterChosen(() => {
      const before = many;
      many = selection.nodes.length;
      return before || many ? show(selection.nodes, 1) : void 0;
    });
    await showAll();
    plot.on("plotly_relayout", async (change) => {
      if (!Object.keys(change).some((key) => /^[xy]axis/.test(key))) return;
      if (count(selection.all.offset.keys(), placing.has) > MOST_POINTS) await showAll();
      if (many > MOST_POINTS) await show(selection.nodes, 1);
    });
    plot.on("plotly_selected", (event) => {
      if (!event?.range) return;
      const [[left, right], [low, high]] = [sorted(event.range.x), sorted(event.range.y)];
      const { has, x, y } = placing;
      selection.where((i) => has(i) && x(i) >= left && x(i) <= right && y(i) >= low && y(i) <= high, about);
    });
  }
  var sorted = ([a, b]) => a < b ? [a, b] : [b, a];

  // src/payload.ts
  function spreadOf(disk) {
    const reads = disk.walks.map(({ reach }) => (reach ?? []).map((place) => place - disk.start));
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
  function ofVolume({ volumes }, place) {
    const name = volumes[place]?.name;
    return name ? `${name}: ` : "";
  }
  var PLACES = "place on disk, MiB";
  function startText({ start }) {
    return start ? `Places count from byte ${counted(start)}, where this disk begins.` : "";
  }
  function labelOf(disk, tree) {
    return disk.classes.find(({ key }) => key === tree)?.label ?? tree;
  }

  // src/tables.ts
  var PARTS = 16;
  function textTable(title, tell) {
    const place = element("div", { class: "rows" });
    const box = element("details", { class: "told" }, element("summary", {}, `In words: ${title}`), place);
    const refresh = async () => {
      if (box.open) place.replaceChildren(...content2(title, await tell()));
    };
    box.addEventListener("toggle", refresh);
    return { box, refresh };
  }
  function content2(title, { columns, rows, note }) {
    const head = element("tr", {}, ...columns.map((name) => element("th", { scope: "col" }, name)));
    const body = rows.map((cells) => element("tr", {}, ...cells.map((cell) => element("td", {}, cell))));
    const parts = [element("caption", {}, title), element("thead", {}, head), element("tbody", {}, ...body)];
    return [element("table", {}, ...parts), ...note ? [element("p", { class: "muted" }, note)] : []];
  }
  var placeText = (mib) => bytesText(Math.max(0, Math.round(mib * 2 ** 20)));
  var spanOf = (x) => (low, high) => `${x(low)} to ${x(high)}`;
  async function partsOf(picture, span, y = placeText, most = PARTS) {
    const counts = await unpack(picture.counts);
    const { columns, rows } = picture;
    const at = ([low, high], share) => low + share * (high - low);
    const parts = Math.min(PARTS, most, columns);
    return Array.from({ length: parts }, (_, part) => {
      const [first, end] = [part, part + 1].map((n) => Math.round(n * columns / parts));
      const [from, to] = [first, end].map((column) => at(picture.x, column / columns));
      let [many, low, high] = [0, rows, -1];
      for (let r = 0; r < rows; r++)
        for (let c = first; c < end; c++) {
          const n = counts[r * columns + c];
          if (!n) continue;
          many += n;
          low = Math.min(low, r);
          high = r;
        }
      const [least, most2] = [low / rows, (high + 1) / rows].map((share) => y(at(picture.y, share)));
      return [span(from, to, end === columns), counted(many), many ? least : "", many ? most2 : ""];
    });
  }

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
      holder.append(
        element(
          "p",
          { class: "muted" },
          "There is nothing to compare: no node here tells its transaction, or all tell the same one."
        )
      );
      return;
    }
    const trace = await pictureTrace(h.picture, "%{x:,.1f} MiB<br>transaction %{y:,.0f}");
    const title = "Transaction that wrote each node, over the address space";
    holder.append(element("h3", {}, title));
    if (disk.start) holder.append(element("p", { class: "muted" }, startText(disk)));
    const layout = {
      xaxis: { title: { text: PLACES }, range: padded(h.picture.x) },
      yaxis: { title: { text: "transaction" }, range: padded(h.picture.y) }
    };
    const plot = plotIn(holder, 280, title);
    const columns = ["places on disk", "nodes", "oldest transaction", "youngest transaction"];
    const note = "Equal parts of the stretch with nodes; transactions are told to a step of the picture.";
    const place_ = (mib) => bytesText(Math.max(0, Math.round(mib * 2 ** 20)));
    const words = textTable(title, async () => ({
      columns,
      rows: await partsOf(h.picture, spanOf(place_), (xid2) => counted(Math.round(xid2))),
      note
    }));
    holder.append(words.box);
    const { xid, offset } = selection.all;
    const placing = {
      has: (i) => xid[i] > 0 && offset[i] >= 0,
      // what lies on another drive of a set has no place here
      x: (i) => (offset[i] - disk.start) / 2 ** 20,
      y: (i) => xid[i]
    };
    await brushed(plot, trace, layout, selection, placing, "chosen by age and place");
  }

  // src/legend.ts
  var FIRST = 2;
  var ALWAYS = ["damaged", "locked"];
  function legend(map2, shadeKey, hiddenKey) {
    const { classes } = map2.disk;
    const boxes = /* @__PURE__ */ new Map();
    const isChange = classes.some(({ key }) => key === "stayed");
    const what = isChange ? "changes" : "metadata";
    const held = classes.map((_, k) => k).filter((k) => classes[k].bytes > 0);
    const metadata = held.filter((k) => classes[k].group === "metadata").sort((a, b) => classes[b].bytes - classes[a].bytes);
    const first = /* @__PURE__ */ new Set([
      ...held.filter((k) => ALWAYS.includes(classes[k].key)),
      ...metadata.slice(0, isChange ? metadata.length : FIRST),
      ...held.filter((k) => classes[k].group !== "metadata")
    ]);
    const more = held.filter((k) => !first.has(k));
    const bar = element("div", { class: "bar legend" }, ...[...first].map((k) => entry(map2, k, boxes)));
    if (more.length) bar.append(folded(map2, more, boxes));
    shadeKey.replaceChildren(...shades(what, hueOf(classes[metadata[0] ?? 0])));
    hiddenKey.replaceChildren(" ", swatch(hueOf(HIDDEN)), " hidden by the legend or the slider");
    return element("div", {}, bar, element("div", { class: "bar legend muted" }, shadeKey, hiddenKey));
  }
  function folded(map2, more, boxes) {
    const bytes = more.reduce((sum, k) => sum + map2.disk.classes[k].bytes, 0);
    const summary = element("summary", {}, `${plural(more.length, "more kind")} of metadata, ${bytesText(bytes)}`);
    const entries = more.map((k) => entry(map2, k, boxes));
    const box = element("details", {}, summary, element("div", { class: "bar" }, ...entries));
    box.open = more.some((k) => map2.hidden.has(k));
    return box;
  }
  function entry(map2, k, boxes) {
    const c = map2.disk.classes[k];
    const box = element("input", { type: "checkbox" });
    box.checked = !map2.hidden.has(k);
    boxes.set(k, box);
    box.addEventListener("change", () => {
      if (box.checked) map2.hidden.delete(k);
      else map2.hidden.add(k);
      map2.draw();
    });
    const size = `${bytesText(c.bytes)} in ${plural(c.pieces, "piece")}`;
    const title = `${shareText(c.bytes / map2.disk.size)} of the disk`;
    const words = element("span", {}, `${c.label} `, element("span", { class: "muted" }, size));
    const label = element("label", { title }, box, HATCHED.has(c.key) ? hatchedSwatch(c) : swatch(hueOf(c)), words);
    return element("span", { class: "entry" }, label, only(map2, k, c.label, boxes));
  }
  function only(map2, k, label, boxes) {
    const press = () => {
      const others = [...boxes.keys()].filter((other) => other !== k);
      const isAlone = !map2.hidden.has(k) && others.every((other) => map2.hidden.has(other));
      map2.hidden.clear();
      if (!isAlone) for (const other of others) map2.hidden.add(other);
      for (const [other, box] of boxes) box.checked = !map2.hidden.has(other);
      map2.draw();
    };
    const title = `show ${label} alone; again: everything`;
    return element("button", { type: "button", class: "only", title, "aria-label": title, onclick: press }, "only");
  }
  function shades(what, hue) {
    const steps2 = SHADES.flatMap(([least, strength], i) => [
      swatch(shade(hue, strength)),
      i < SHADES.length - 1 ? ` from ${100 * least} % ` : " less"
    ]);
    return [`${what} in a cell: `, ...steps2];
  }

  // src/mapwords.ts
  function mapWords({ disk, from, cellSize, current, hiddenBytes }) {
    const kinds = [
      ...disk.classes.map(({ label }, k) => ({ label, of: current[k] })),
      { label: "hidden by the legend or the slider", of: hiddenBytes }
    ];
    const end = disk.start + disk.size;
    const rows = [];
    const each = CELLS / PARTS;
    for (let part = 0; part < PARTS; part++) {
      const low = from + part * each * cellSize;
      const high = Math.min(low + each * cellSize, end);
      if (low >= high) break;
      const held = kinds.map(({ label, of }) => ({
        label,
        bytes: of.subarray(part * each, (part + 1) * each).reduce((a, b) => a + b, 0)
      })).filter(({ bytes }) => bytes > 0).sort((a, b) => b.bytes - a.bytes).map(({ label, bytes }) => `${label} ${bytesText(bytes)} (${shareText(bytes / (high - low))})`);
      rows.push([counted(low), counted(high), held.join(", ")]);
    }
    const past = rows.length < PARTS ? ", without those past the end of the disk" : "";
    const note = `What is seen now, in ${PARTS} equal parts${past}; the table follows zoom, legend and slider.`;
    return { columns: ["from byte", "to byte", "what it holds"], rows, note };
  }

  // src/files.ts
  var ROOT = 2;
  var ZERO = "\0";
  var SLICE_MS = 8;
  var Names = class {
    constructor(text) {
      this.text = text;
      this.lower = text.normalize("NFC").toLowerCase();
      this.starts = startsOf(text);
      this.lowerStarts = this.lower === text ? this.starts : startsOf(this.lower);
    }
    text;
    starts;
    lower;
    lowerStarts;
    get length() {
      return this.starts.length - 1;
    }
    at(i) {
      return this.text.slice(this.starts[i], this.starts[i + 1] - 1);
    }
    lowerAt(i) {
      return this.lower.slice(this.lowerStarts[i], this.lowerStarts[i + 1] - 1);
    }
    /** The next name from one on that holds a text; -1: none does. */
    next(from, wanted) {
      if (from >= this.length) return -1;
      const { lower, lowerStarts: starts } = this;
      const found = lower.indexOf(wanted, starts[from]);
      return found < 0 ? -1 : firstWhere(from, this.length, (i) => starts[i + 1] > found);
    }
    begins(i, wanted) {
      return this.lower.startsWith(wanted, this.lowerStarts[i]);
    }
  };
  function startsOf(text) {
    const starts = [];
    for (let at = text.indexOf(ZERO); at >= 0; at = text.indexOf(ZERO, at + 1)) starts.push(at + 1);
    starts.push(text.length + 1);
    return Uint32Array.from(starts);
  }
  var FEW = 7;
  var NO_COLUMNS = { volume: [], node: [], id: new Ids([], []), above: [], orphan: new Ids([], []) };
  var Files = class _Files {
    constructor(owners, columns = NO_COLUMNS, block = 1) {
      this.owners = owners;
      this.columns = columns;
      this.block = block;
    }
    owners;
    columns;
    block;
    names = [];
    /** All names are there. */
    whole = Promise.resolve();
    asked = 0;
    orphans = null;
    static async of(disk) {
      const { volume } = await unpackAll(disk.files, ["volume"]);
      const owners = { volume, id: await idsOf(disk.files) };
      const { packed } = disk.entries;
      if (!packed) return new _Files(owners);
      const { volume: volumes, node, above } = await unpackAll(packed, ["volume", "node", "above"]);
      const [id, orphan] = await Promise.all([idsOf(packed.id), idsOf(packed.orphan)]);
      const files = new _Files(owners, { volume: volumes, node, id, above, orphan }, packed.block);
      files.whole = files.read(packed);
      if (packed.names.length <= FEW) await files.whole;
      return files;
    }
    /** Unpack the names, a few between two pictures. */
    async read({ names }) {
      for (const packed of names) {
        this.add(await inflateText(packed));
        await pause();
      }
    }
    /** Take the names of the next entries, each behind a zero. */
    add(text) {
      this.names.push(new Names(text));
    }
    get total() {
      return this.columns.id.length;
    }
    /** How many of the names are there already. */
    get readNames() {
      return Math.min(this.total, this.names.length * this.block);
    }
    /** The file that an owner of data is. */
    owner(i) {
      return { volume: this.owners.volume[i], id: this.owners.id.text(i) };
    }
    /** Which owner of data a file is; -1 where it has none on this disk. */
    ownerOf({ volume, id }) {
      const { volume: volumes, id: ids } = this.owners;
      return ids.find(id, ...within(volumes, volume));
    }
    /** Where a file is in its volume; undefined where the page has no name of it, or not yet. */
    path(volume, id) {
      const at = this.place(volume, id);
      return at < 0 || this.readNames < this.total ? void 0 : this.pathOf(at);
    }
    place(volume, id) {
      return this.columns.id.find(id, ...within(this.columns.volume, volume));
    }
    name(entry2, lower = false) {
      const names = this.names[Math.floor(entry2 / this.block)];
      return lower ? names.lowerAt(entry2 % this.block) : names.at(entry2 % this.block);
    }
    pathOf(entry2) {
      const { above } = this.columns;
      const parts = [];
      const passed = /* @__PURE__ */ new Set();
      let [at, topmost] = [entry2, entry2];
      for (; at >= 0 && !passed.has(at) && !this.isRoot(at); at = above[at]) {
        parts.unshift(this.name(at));
        passed.add(at);
        topmost = at;
      }
      const lost = at < 0 ? this.lostOf(topmost) : passed.has(at) ? "in itself" : "";
      return `${lost && `(${lost})`}/${parts.join("/")}`;
    }
    /** The directory that an entry lies in, of which none is named so; nothing where that is the root. */
    lostOf(entry2) {
      const { above, orphan } = this.columns;
      if (!this.orphans) {
        this.orphans = /* @__PURE__ */ new Map();
        for (let i = 0; i < above.length; i++) if (above[i] < 0) this.orphans.set(i, this.orphans.size);
      }
      const number = orphan.text(this.orphans.get(entry2));
      return number === String(ROOT) ? "" : `directory ${number}`;
    }
    isRoot(entry2) {
      const { id, above } = this.columns;
      return above[entry2] < 0 && id.low[entry2] === ROOT && !id.high[entry2];
    }
    file(entry2) {
      const { volume, id, node } = this.columns;
      return { volume: volume[entry2], id: id.text(entry2), path: this.pathOf(entry2), node: node[entry2] };
    }
    /** Places of the nodes that hold the inodes of what lies in a directory, told by volume and number, and its own. */
    nodesOf(folder) {
      const [volume, number] = folder.split(":");
      const { volume: volumes, id, node, above, orphan } = this.columns;
      const [first, last] = within(volumes, +volume);
      const own = id.find(number, first, last);
      const isOwn = (i) => above[i] === own || id.low[i] === id.low[own] && id.high[i] === id.high[own];
      const found = /* @__PURE__ */ new Set();
      let orphans = 0;
      for (let i = 0; i < last; i++) {
        const isOrphan = above[i] < 0 && orphan.text(orphans++) === number;
        if (i >= first && node[i] >= 0 && (isOrphan || own >= 0 && isOwn(i))) found.add(node[i]);
      }
      return [...found];
    }
    /**
     * Files whose path holds a text to the end of a name, in upper or lower case, or whose number it is: the first of
     * them. Undefined where another search began before this one was done.
     */
    async find(text, most) {
      const turn = ++this.asked;
      await this.whole;
      const found = this.numbered(text);
      const parts = text.normalize("NFC").toLowerCase().split("/");
      const last = parts.pop();
      const next = parts.length ? this.nextIn(parts, last) : (names, from) => names.next(from, last);
      let began = performance.now();
      search: for (const [k, names] of this.names.entries())
        for (let from = 0; from < names.length; ) {
          const i = next(names, from, k * this.block);
          from = i < 0 ? names.length : i + 1;
          const entry2 = k * this.block + i;
          if (i >= 0 && !found.includes(entry2)) found.push(entry2);
          if (found.length >= most) break search;
          if (performance.now() - began < SLICE_MS) continue;
          await pause();
          if (turn !== this.asked) return void 0;
          began = performance.now();
        }
      return turn === this.asked ? found.slice(0, most).map((entry2) => this.file(entry2)) : void 0;
    }
    /** The entries of a number, of each volume. */
    numbered(id) {
      const { volume, id: ids } = this.columns;
      const volumes = this.total ? volume[this.total - 1] + 1 : 0;
      return Array.from({ length: volumes }, (_, number) => ids.find(id, ...within(volume, number))).filter(
        (entry2) => entry2 >= 0
      );
    }
    /** What finds the next name that begins with a text, in a folder whose path ends with some names. */
    nextIn(parts, wanted) {
      const { above } = this.columns;
      const known = new Uint8Array(this.total + 1);
      return (names, from, first) => {
        for (let i = from; i < names.length; i++) {
          const folder = above[first + i];
          known[folder + 1] ||= this.endsWith(folder, parts) ? 1 : 2;
          if (known[folder + 1] === 1 && names.begins(i, wanted)) return i;
        }
        return -1;
      };
    }
    /** Whether the path of a folder ends with some names, of the first of them with its end. */
    endsWith(folder, parts) {
      const { above } = this.columns;
      let at = folder;
      for (let k = parts.length - 1; k >= 0; k--) {
        if (at < 0 || this.isRoot(at)) return k === 0 && parts[0] === "";
        const name = this.name(at, true);
        if (k ? name !== parts[k] : !name.endsWith(parts[0])) return false;
        at = above[at];
      }
      return true;
    }
  };
  function within(volumes, volume) {
    const place = (least) => firstWhere(0, volumes.length, (i) => volumes[i] >= least);
    return [place(volume), place(volume + 1)];
  }

  // src/owners.ts
  var NAMED_TILES = 12;
  var REST_MS = 60;
  var TOLD_NODES = 3;
  var TOLD_FILES = 4;
  var CONDITIONS = {
    damaged: ["damaged metadata block"],
    unread: ["metadata block that could not be read"],
    locked: ["locked metadata block"]
  };
  var UNKNOWN = ["locked", "unreadable"];
  var Owners = class _Owners {
    constructor(disk, nodes, files) {
      this.disk = disk;
      this.nodes = nodes;
      this.files = files;
      this.places = new NodePlaces(nodes);
    }
    disk;
    nodes;
    files;
    unpacked = /* @__PURE__ */ new Map();
    parts = null;
    isWide = true;
    asked = 0;
    places;
    static async of(disk) {
      return new _Owners(disk, await nodesOf(disk.nodes), await Files.of(disk));
    }
    /** Make ready to tell of a view, where it is narrow enough to name what lies there. */
    async look(from, to) {
      this.parts = null;
      const turn = ++this.asked;
      const wanted = this.disk.owners.filter((tile) => tile.to > from && tile.from < to);
      this.isWide = wanted.length > NAMED_TILES;
      if (this.isWide) return;
      await pause(REST_MS);
      if (turn !== this.asked) return;
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
    /** Say in lines what lies between two bytes. */
    lines(low, high) {
      if (this.isWide) return ["zoom in to see whose nodes and files these are"];
      if (!this.parts) return ["whose nodes and files these are is being read"];
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
      const number = this.files.ownerOf(file);
      if (number < 0) return found;
      for (const tile of this.disk.owners) {
        const { start, length, owner } = await this.part(tile);
        for (let i = 0; i < start.length; i++) if (owner[i] === -1 - number) found.push([start[i], length[i]]);
      }
      return found;
    }
    fileText(i) {
      const { volume, id } = this.files.owner(i);
      const path = this.files.path(volume, id);
      const when = volume < this.disk.earlier ? "" : " as it was";
      return ofVolume(this.disk, volume) + (path === void 0 ? `file ${id}` : `file ${id} “${path}”`) + when;
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
      const volume = this.disk.volumes.findIndex(({ nodes }) => i < nodes[1]);
      const kind = n.kinds[n.kind[i]];
      const isKnown = !UNKNOWN.includes(kind);
      return [
        ...CONDITIONS[n.conditions[n.condition[i]]] ?? [],
        `${ofVolume(this.disk, volume)}${n.trees[n.tree[i]]} ${isKnown ? `${kind} ` : ""}node ${n.id.text(i)}`,
        ...n.level[i] === 255 ? [] : [`level ${n.level[i]}`],
        ...n.xid[i] ? [`xid ${n.xid[i]}`] : [],
        ...this.movesOf(i),
        ...isKnown ? [`${n.records[i]} records`] : [],
        ...n.fill[i] === 255 ? [] : [`${n.fill[i]} % full`],
        ...n.cost[i] ? [`${secondsText(n.cost[i] / 1e6)} to read`] : [],
        ...isKnown ? [`keys of ${n.first.text(i)} to ${n.last.text(i)}`] : [],
        n.offset[i] < 0 ? "not on this disk" : `${bytesText(n.size[i])} at byte ${counted(n.offset[i])}`
      ].join(" · ");
    }
  };

  // src/peek.ts
  var [WIDTH2, HEIGHT] = [256, 96];
  var Peek = class {
    constructor(map2, holder, signal) {
      this.map = map2;
      const title = `back to the map of ${map2.title}`;
      const back = () => map2.plot.scrollIntoView({ block: "center" });
      this.box = element(
        "button",
        { type: "button", class: "peek", title, "aria-label": title, onclick: back },
        this.canvas
      );
      this.box.hidden = true;
      holder.append(this.box);
      addEventListener("scroll", () => this.refresh(), { passive: true, signal });
    }
    map;
    canvas = element("canvas", { width: WIDTH2, height: HEIGHT, "aria-hidden": "true" });
    box;
    asked = false;
    /** Show or hide it, and draw it anew, once a frame. */
    refresh() {
      if (this.asked) return;
      this.asked = true;
      requestAnimationFrame(() => {
        this.asked = false;
        const { map: map2, box } = this;
        box.hidden = !map2.isMarked() || map2.plot.getBoundingClientRect().bottom > 0;
        if (!box.hidden) this.draw();
      });
    }
    draw() {
      const pen = this.canvas.getContext("2d");
      pen.imageSmoothingEnabled = false;
      pen.clearRect(0, 0, WIDTH2, HEIGHT);
      pen.drawImage(this.map.canvas, 0, 0, WIDTH2, HEIGHT);
      for (const { x, y, hue } of this.map.spots()) {
        pen.fillStyle = hue;
        pen.fillRect(x * WIDTH2 - 2, y * HEIGHT - 2, 4, 4);
      }
    }
  };

  // src/picture.ts
  var FINE = 4;
  var RGB = /\d+/g;
  function bytesOf2(colour2) {
    const [r, g, b] = colour2.startsWith("#") ? [1, 3, 5].map((i) => Number.parseInt(colour2.slice(i, i + 2), 16)) : colour2.match(RGB).map(Number);
    return 255 << 24 | b << 16 | g << 8 | r;
  }
  var Picture = class {
    canvas = element("canvas", { class: "cells", "aria-hidden": "true" });
    image = null;
    /** Paint each cell where the order has it; colours are places in the palette. */
    paint(chosen2, palette2, { columns, rows, cell }) {
      const { canvas } = this;
      const [width, height] = [columns * FINE, rows * FINE];
      if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
      const pen = canvas.getContext("2d");
      if (this.image?.width !== width || this.image.height !== height) this.image = new ImageData(width, height);
      const image = this.image;
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
  var [EDGE2, WIDE] = [6, 30];
  function followStrip(strip, map2) {
    let held = null;
    const shareAt = (e) => e.offsetX / strip.clientWidth;
    const edgeAt = (at) => {
      const { from, width } = map2.window();
      const near = (edge) => Math.abs(at - edge) * strip.clientWidth <= EDGE2;
      if (width * strip.clientWidth < WIDE) return null;
      return near(from) ? "left" : near(from + width) ? "right" : null;
    };
    strip.addEventListener("pointerdown", (e) => {
      if (e.button) return;
      strip.setPointerCapture(e.pointerId);
      map2.remember();
      const { from, width } = map2.window();
      const at = shareAt(e);
      const edge = edgeAt(at);
      const isInside = at >= from && at <= from + width;
      const grip = isInside ? at - from : width / 2;
      if (edge === "left") held = (to) => to < from + width && map2.lead(Math.max(0, to), from + width - Math.max(0, to));
      else if (edge === "right") held = (to) => to > from && map2.lead(from, to - from);
      else held = (to) => map2.lead(to - grip, width);
      if (!isInside && !edge) held(at);
    });
    strip.addEventListener("pointermove", (e) => {
      if (held) held(shareAt(e));
      else strip.style.cursor = edgeAt(shareAt(e)) ? "ew-resize" : "pointer";
    });
    const released = () => {
      held = null;
    };
    strip.addEventListener("pointerup", released);
    strip.addEventListener("pointercancel", released);
    const turned = (e) => {
      e.preventDefault();
      map2.turn(shareAt(e), e.deltaY > 0 ? 2 : 1 / 2);
    };
    strip.addEventListener("wheel", turned, { passive: false });
  }

  // src/pyramid.ts
  var SOME = 8;
  function runsOf(gap, more, held) {
    const [first, count2, before] = Array.from({ length: 3 }, () => new Float64Array(gap.length));
    for (let i = 0, at = 0, units = 0; i < gap.length; i++) {
      at += gap[i];
      first[i] = at;
      count2[i] = more[i] + 1;
      before[i] = units;
      at += count2[i];
      units += count2[i] * held[i];
    }
    return { first, count: count2, held: Float64Array.from(held), before };
  }
  async function unpacked(packed) {
    const { gap, count: count2, held } = await unpackAll(packed, ["gap", "count", "held"]);
    return runsOf(gap, count2, held);
  }
  var Pyramid = class _Pyramid {
    constructor(disk, finest) {
      this.finest = finest;
      this.unit = disk.pyramid.unit;
      this.cell = disk.pyramid.cell;
      this.size = disk.size;
      this.free = disk.classes.findIndex((c) => c.group === "free");
    }
    finest;
    cell;
    free;
    unit;
    size;
    zeros = new Float64Array(0);
    static async of(disk) {
      return new _Pyramid(disk, await Promise.all(disk.pyramid.cells.map(unpacked)));
    }
    /** The narrowest cells, at least as wide as asked for, that are whole steps. */
    widthFor(bytes) {
      let step2 = this.cell;
      while (step2 * 2 * SOME <= bytes) step2 *= 2;
      return { step: step2, bytes: Math.max(step2, Math.ceil(bytes / step2) * step2) };
    }
    /** Bytes of each class in each of some cells; `from` counts from the disk's start, in whole steps of the width. */
    held(from, width, cells) {
      const low = Math.round(from / this.cell);
      const many = Math.round(width.bytes / this.cell);
      const shares = this.finest.map((runs) => this.heldBy(runs, low, many, cells));
      if (this.free >= 0) shares[this.free] = this.rest(shares, from, width, cells);
      return shares;
    }
    heldBy({ first, count: count2, held, before }, low, many, cells) {
      const runs = first.length;
      let next = firstWhere(0, runs, (i) => first[i] >= low);
      const isAbsent = !(next < runs && first[next] < low + cells * many) && !(next && first[next - 1] + count2[next - 1] > low);
      if (isAbsent) return this.nothing(cells);
      const out = new Float64Array(cells);
      let below = 0;
      for (let c = -1; c < cells; c++) {
        const edge = low + (c + 1) * many;
        while (next < runs && first[next] < edge) next++;
        const last = next - 1;
        const units = last < 0 ? 0 : before[last] + Math.min(edge - first[last], count2[last]) * held[last];
        if (c >= 0) out[c] = (units - below) * this.unit;
        below = units;
        if (next === runs && last >= 0 && edge >= first[last] + count2[last]) break;
      }
      return out;
    }
    /** Zeros, the same for all classes of which nothing is in sight. */
    nothing(cells) {
      if (this.zeros.length !== cells) this.zeros = new Float64Array(cells);
      return this.zeros;
    }
    /** Free space has no runs: it is what the others leave of a cell. */
    rest(shares, from, width, cells) {
      const out = new Float64Array(cells);
      for (let c = 0; c < cells; c++) out[c] = Math.max(0, Math.min(width.bytes, this.size - from - c * width.bytes));
      shares.forEach((of, k) => {
        if (k !== this.free && of !== this.zeros) for (let c = 0; c < cells; c++) out[c] -= of[c];
      });
      return out;
    }
  };

  // src/search.ts
  var MOST = 12;
  var TOLD = 3;
  function searchField(map2) {
    const hint = map2.disk.entries.packed ? "path, file number or byte" : "byte";
    const field = element("input", { type: "search", placeholder: `${hint} ( / )`, "aria-label": `find a ${hint}` });
    const found = element("div", { class: "bar found", role: "status" });
    field.addEventListener("keydown", (e) => e.stopPropagation());
    field.addEventListener("input", async () => {
      const { total, readNames } = map2.owners.files;
      if (readNames < total) found.replaceChildren(muted(`reading ${counted(total)} names…`));
      const shown = await results(map2, field.value.trim());
      if (shown) found.replaceChildren(...shown);
    });
    const called = (e) => {
      if (e.key !== "/" || e.target instanceof HTMLInputElement) return;
      e.preventDefault();
      field.focus();
    };
    document.addEventListener("keydown", called, { signal: map2.gone.signal });
    return element("div", { class: "search" }, field, found);
  }
  var muted = (text) => element("span", { class: "muted" }, text);
  async function results(map2, text) {
    const files = await map2.owners.files.find(text, text ? MOST : 0);
    if (!files) return void 0;
    if (!text) {
      map2.mark([], null);
      return [];
    }
    const buttons = files.map(
      (file) => button(
        `${ofVolume(map2.disk, file.volume)}${file.path} (file ${file.id})${file.volume < map2.disk.earlier ? "" : ", as it was"}`,
        () => showFile(map2, file)
      )
    );
    const byte = Number(text.replaceAll(",", ""));
    const { start, size } = map2.disk;
    if (Number.isInteger(byte) && byte >= start && byte < start + size)
      buttons.push(button(`byte ${counted(byte)}`, () => showByte(map2, byte)));
    if (files.length === MOST) buttons.push(muted(`the first ${MOST}`));
    const unsaid = unsearched(map2.disk);
    if (unsaid) buttons.push(muted(unsaid));
    return buttons.length ? buttons : [muted("nothing of that name or number on this page")];
  }
  function unsearched({ entries: { total, withheld, packed } }) {
    if (packed || !total) return "";
    if (withheld) return "files cannot be found here: the page was made without names";
    return `files cannot be found here: the page carries none of the disk's ${counted(total)} paths (--all-paths does)`;
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
      `${ofVolume(map2.disk, file.volume)}${file.path}, file ${file.id}: ${data}`,
      ...first.length ? [first.join(" · ")] : [],
      ...node === void 0 ? [] : [`its inode, where the larger ring is: ${map2.owners.nodeText(file.node)}`]
    ].join("\n");
  }
  function steps(start, length, cell) {
    return Array.from({ length: Math.min(256, Math.ceil(length / cell)) }, (_, i) => start + i * cell);
  }

  // src/strip.ts
  var LITTLE = 1 / 8;
  var [WIDTH3, HEIGHT2] = [1024, 32];
  var Strip = class {
    constructor(map2) {
      this.map = map2;
      this.span = map2.full;
      const { start } = map2.disk;
      followStrip(this.canvas, {
        window: () => ({ from: (map2.view.from - start) / this.span, width: map2.view.size / this.span }),
        remember: () => map2.earlier.push({ ...map2.view }),
        lead: (from, width) => map2.show(start + from * this.span, width * this.span, true),
        turn: (at, factor) => map2.zoom(factor, void 0, true, start + at * this.span)
      });
    }
    map;
    canvas = element("canvas", { class: "strip", role: "img", width: WIDTH3, height: HEIGHT2 });
    painted = null;
    span;
    /** Bytes that the strip spans. */
    spanned() {
      const { view, disk, full, used } = this.map;
      return used < LITTLE * full && view.from + view.size <= disk.start + used ? used : full;
    }
    /** Draw the frame over the picture, which is worked out anew where other classes or another span are shown. */
    draw() {
      const { canvas, map: map2 } = this;
      const pen = canvas.getContext("2d");
      this.span = this.spanned();
      const shown = [this.span, ...map2.hidden].join();
      if (this.painted?.of !== shown) {
        this.paint(pen);
        this.painted = { of: shown, picture: pen.getImageData(0, 0, WIDTH3, HEIGHT2) };
        const what = this.span === map2.full ? "the whole disk" : `the part in use, ${bytesText(this.span)}`;
        canvas.title = `${what}; drag the frame or its edges, click to go there, turn the wheel to zoom`;
        canvas.setAttribute("aria-label", `strip of ${map2.disk.title}: ${what}, and a frame around what the map shows`);
      } else pen.putImageData(this.painted.picture, 0, 0);
      pen.strokeStyle = "#E4002B";
      pen.lineWidth = 2;
      const scale = WIDTH3 / this.span;
      pen.strokeRect((map2.from - map2.disk.start) * scale, 1, Math.max(3, (map2.to - map2.from) * scale), HEIGHT2 - 2);
    }
    paint(pen) {
      const { disk, pyramid, hidden } = this.map;
      const width = pyramid.widthFor(this.span / WIDTH3);
      const cells = Math.ceil(this.span / width.bytes);
      const pixel = WIDTH3 * width.bytes / this.span;
      pen.fillStyle = isDark() ? "#1e2126" : "#f4f4f2";
      pen.fillRect(0, 0, WIDTH3, HEIGHT2);
      const held = pyramid.held(0, width, cells);
      const fill = (k, i, top, alpha) => {
        pen.fillStyle = hueOf(disk.classes[k]);
        pen.globalAlpha = alpha;
        const left = Math.floor(i * pixel);
        pen.fillRect(left, top, Math.max(1, Math.floor((i + 1) * pixel) - left), 24);
      };
      const shown = [...disk.classes.keys()].filter((k) => disk.classes[k].group !== "free" && !hidden.has(k));
      const metadata = shown.filter((k) => disk.classes[k].group === "metadata");
      for (const k of shown.filter((other) => !metadata.includes(other)))
        held[k].forEach((bytes, i) => {
          if (bytes > 0) fill(k, i, 8, Math.max(0.15, bytes / width.bytes));
        });
      for (const [i, { most, share }] of mostOf(disk.classes, held, metadata, width.bytes).entries())
        if (share > 0) fill(most, i, 0, SHADES[shadeOf(share)][1]);
      pen.globalAlpha = 1;
    }
  };

  // src/address.ts
  var KEYS = "plus and minus zoom, arrows move, 0 shows the whole disk, Backspace goes back; shift and arrows read cell by cell, Enter zooms in on the cell, Space chooses its nodes";
  var INVITATION = matchMedia("(hover: none)").matches ? "Tap a cell to see what it holds, and again to zoom in; two fingers zoom in and out." : "Point at a cell to see what it holds; click or turn the wheel to zoom, drag to move, drag with shift to choose nodes.";
  var MOST_MARKS = 1500;
  var SQUARE = 0.8;
  var MOST_SQUARE = 768;
  var AddressMap = class {
    constructor(disk, holder, scale) {
      this.disk = disk;
      this.holder = holder;
      this.full = scale.span;
      this.used = scale.used;
      this.view = { from: disk.start, size: scale.used };
      const label = `map of ${disk.title}: ${KEYS}`;
      this.words = textTable(`map of ${disk.title}`, () => mapWords(this));
      this.plot = element("div", {
        class: "plot map",
        tabindex: 0,
        role: "application",
        "aria-label": label
      });
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
    /** Told what the legend hides, when that changes. */
    onFilter = [];
    /** Told that the picture changed. */
    onDrawn = () => {
    };
    /** Ends what the map hears of the window. */
    gone = new AbortController();
    plot;
    picture = new Picture();
    drawn = "";
    filtered = "";
    isSeen = true;
    isStale = false;
    shades = null;
    inks = null;
    stretch = null;
    strip;
    cursor = new Cursor(this);
    words;
    peek;
    caption = element("span", { class: "muted caption" });
    scaleKey = element("div", {});
    shadeKey = element("span", {});
    hiddenKey = element("span", {});
    places = cellPlaces("linear");
    async build() {
      this.pyramid = await Pyramid.of(this.disk);
      this.view = this.possible(this.view.from, this.view.size);
      this.owners = await Owners.of(this.disk);
      this.selection = new Selection(this.owners.nodes, this.owners.places);
      this.selection.whenChosen(() => this.paint());
      this.strip = new Strip(this);
      const slider = ageSlider(this.disk, this);
      this.holder.append(
        element("h3", {}, this.disk.title),
        element("div", { class: "bar" }, searchField(this), this.controls()),
        this.strip.canvas,
        element("div", { class: "cellbox" }, this.picture.canvas, this.plot),
        this.info,
        ...slider ? [slider] : [],
        legend(this, this.shadeKey, this.hiddenKey),
        this.scaleKey,
        this.words.box,
        chosenTable(this.selection)
      );
      const peeks = document.getElementById("peeks");
      if (peeks) this.peek = new Peek(this.peeked(), peeks, this.gone.signal);
      await this.draw();
      this.listen();
    }
    peeked() {
      const spots = () => {
        const { x, y, marker } = this.overlay();
        const { columns, rows } = this.places;
        return x.map((at, i) => ({ x: (at + 0.5) / columns, y: (y[i] + 0.5) / rows, hue: marker.color[i] }));
      };
      const isMarked = () => this.head !== null || this.marks.length > 0 || this.selection.nodes.length > 0;
      return { title: this.disk.title, canvas: this.picture.canvas, plot: this.plot, isMarked, spots };
    }
    listen() {
      followPointer(this.plot, this, this.gone.signal);
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
      if (this.cursor.press(e)) return;
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
    /** The cell of a byte, and the one that stands so many columns and rows beside it in the picture. */
    beside(byte, columns, rows) {
      const at = Math.min(CELLS - 1, Math.max(0, Math.floor((byte - this.from) / this.cellSize)));
      const inside = (n, many) => Math.min(many - 1, Math.max(0, n));
      const column = inside(this.places.column[at] + columns, this.places.columns);
      const row2 = inside(this.places.row[at] + rows, this.places.rows);
      return this.places.cell[row2 * this.places.columns + column];
    }
    controls() {
      const isChange = this.disk.classes.some(({ key }) => key === "stayed");
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
      this.pyramid.finest.forEach((runs, k) => {
        const last = runs.first.length - 1;
        if (this.disk.classes[k].group !== "metadata" || last < 0) return;
        low = Math.min(low, runs.first[0]);
        high = Math.max(high, runs.first[last] + runs.count[last]);
      });
      if (low < high) this.show(this.disk.start + low * this.pyramid.cell, (high - low) * this.pyramid.cell);
    }
    /** Zoom on a cell, a byte, or the middle; with `keep` it stays where it is, as under a pointer. */
    zoom(factor, cell, keep = false, byte = (this.from + this.to) / 2) {
      const size = this.view.size * factor;
      const at = cell === void 0 ? byte : this.from + (cell + 0.5) * this.cellSize;
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
      this.view = this.possible(from, size);
      const changed = before.from !== this.view.from || before.size !== this.view.size;
      if (!silent && changed) this.earlier.push(before);
      if (changed) this.onView(this);
      return this.draw();
    }
    /** What is seen where somebody asks for a stretch: cells have a least size, and there is not more than all. */
    possible(from, size) {
      const { start } = this.disk;
      const wide = Math.min(this.full, Math.max(size, CELLS * this.pyramid.cell));
      return { from: Math.min(Math.max(from, start), Math.max(start, start + this.full - wide)), size: wide };
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
      this.caption.textContent = `${placesText(this.from, end)} · a cell is ${bytesText(this.cellSize)}`;
      this.paint();
      this.strip.draw();
      const filtered = [...this.hidden].join();
      if (filtered !== this.filtered) for (const listener of this.onFilter) listener();
      this.filtered = filtered;
      this.words.refresh();
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
      this.shadeKey.hidden = scale !== null;
      if (scale) {
        const none = inks.length;
        inks.push(...scale.inks);
        withoutMetadata(picked, classes, none);
        const all = this.hidden.size === 0 && this.maxXid === Infinity;
        const there = this.owners.places.near(this.from, this.to);
        paintSteps(picked, nodes, all ? there : there.filter((i) => this.shows(i)), scale.steps, none + 1, this);
      }
      overpaint(picked, nodes, this.selection.nodes, chosen2, this);
      this.picture.paint(picked, inks, this.places);
      this.peek?.refresh();
    }
    /** The scale that nodes are coloured by, with its legend; null where they have the colours of their trees. */
    scale() {
      const { by, shades: shades2 } = this;
      if (by === "tree" || shades2?.by === by) {
        if (by === "tree") this.scaleKey.replaceChildren();
        else if (!this.scaleKey.firstChild) this.scaleKey.append(shades2.key());
        return by === "tree" ? null : shades2;
      }
      this.shades = new Scale(this.owners.nodes, by, this.disk.walks[0]?.drive ?? "");
      this.scaleKey.replaceChildren(this.shades.key());
      return this.shades;
    }
    /** Whether the legend shows a tree. */
    showsTree(tree) {
      return !this.hidden.has(this.disk.classes.findIndex(({ key }) => key === tree));
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
        return this.marks.length || this.head !== null || this.cursor.byte !== null ? this.mark(this.marks, this.head) : 0;
      this.drawn = this.order;
      const side = Math.min(this.holder.clientWidth, SQUARE * innerHeight, MOST_SQUARE);
      this.plot.style.height = this.order === "hilbert" ? `${side}px` : "";
      await plotly().react(this.plot, [this.overlay()], this.layout(), { ...CONFIG, displayModeBar: false });
      await plotly().relayout(this.plot, { autosize: true });
      this.picture.lieUnder(this.plot);
    }
    layout() {
      const { columns, rows } = this.places;
      const square = this.order === "hilbert" ? { scaleanchor: "x", constrain: "domain" } : {};
      return plotLayout({
        xaxis: { visible: false, fixedrange: true, range: [-0.5, columns - 0.5], constrain: "domain" },
        yaxis: { visible: false, fixedrange: true, range: [rows - 0.5, -0.5], ...square },
        margin: { l: 4, r: 4, t: 4, b: 4 },
        showlegend: false,
        dragmode: false,
        hovermode: false
      });
    }
    overlay() {
      const marked = new Set(this.marks.map((offset) => Math.floor((offset - this.from) / this.cellSize)));
      const spots = [...marked].slice(0, MOST_MARKS).map((cell) => ({ cell, size: 5, hue: isDark() ? "#ffffff" : "#000000", symbol: "circle-open" }));
      const spot = (byte, size, symbol) => spots.push({ cell: Math.floor((byte - this.from) / this.cellSize), size, hue: "#E4002B", symbol });
      if (this.head !== null) spot(this.head, 14, "circle-open");
      if (this.cursor.byte !== null) spot(this.cursor.byte, 12, "square-open");
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
          symbol: seen.map(({ symbol }) => symbol),
          line: { width: 1.5 }
        }
      };
    }
    /** Show marks and head; where the map is out of sight, when it is seen again. */
    mark(offsets, head) {
      this.marks = offsets;
      this.head = head;
      this.isStale = !this.isSeen;
      this.peek?.refresh();
      return this.isSeen ? this.restyle() : void 0;
    }
    restyle() {
      this.isStale = false;
      const { x, y, marker } = this.overlay();
      const { size, color, symbol } = marker;
      const changes = { x: [x], y: [y], "marker.size": [size], "marker.color": [color], "marker.symbol": [symbol] };
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
    rest(walk) {
      this.pen();
      this.tell(walk, secondsText(walk.total_s));
    }
    /** Show the head at the last of some places, and behind it how it came there, as arcs. */
    show(places, now, walk) {
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
      const total = walk.total_s;
      const done = now >= total ? ", done" : "";
      this.tell(walk, `${secondsText(Math.min(now, total))} of ${secondsText(total)}${done}`);
    }
    tell({ name }, time) {
      if (this.clock) this.clock.textContent = name ? `${name}: ${time}` : time;
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
  var SHORT = 14;
  function costPanel(disks, holder, selections) {
    const isNarrow = holder.clientWidth < NARROW;
    const named = (disk, i, drive) => {
      const [name] = disk.title.split(":");
      const short = isNarrow && name.length > SHORT ? `${name.slice(0, SHORT)}…` : name;
      return disks.length > 1 ? `${i + 1}. ${short}: ${drive}` : drive;
    };
    const rows = disks.flatMap((disk, i) => disk.costs.map((c) => ({ ...c, title: named(disk, i, c.drive) })));
    if (!rows.length) return;
    const y = rows.map(
      (row2) => isNarrow ? plain(row2.title).replace(/(: |, )/g, "$1<br>").replace(" (", "<br>(") : plain(row2.title)
    );
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
    if (rows.some((row2) => row2.best_s !== null)) traces.push(best(y, rows));
    const title = "seconds of each walk by cause";
    const plot = plotIn(holder, 80 + (isNarrow ? 52 : 34) * rows.length, title);
    const layout = plotLayout({
      barmode: "stack",
      xaxis: { title: { text: "seconds" } },
      yaxis: { automargin: true, autorange: "reversed" },
      showlegend: false
    });
    const entries = causes.map((cause) => ({ text: cause, hue: CAUSES[cause] || HUES[5] }));
    if (traces.length > causes.length) entries.push({ text: `${BEST}: the upright line`, hue: colour("--fg") });
    plot.before(legendOf(plot, entries));
    plotly().newPlot(plot, traces, layout, CONFIG);
    holder.append(textTable(title, () => causeRows(rows, causes)).box, chosenCosts(disks, selections));
  }
  var BEST = "with the best remedy that needs no other drive";
  var causeRows = (rows, causes) => ({
    columns: ["walk", "in all", ...causes, BEST],
    rows: rows.map((row2) => [
      row2.title,
      secondsText(Object.values(row2.causes).reduce((a, b) => a + b, 0)),
      ...causes.map((cause) => secondsText(row2.causes[cause] ?? 0)),
      row2.best_s === null ? "" : `${secondsText(row2.best_s)}: ${row2.best}`
    ])
  });
  function chosenCosts(disks, selections) {
    const place = element("div", { class: "chosen-costs", role: "status" });
    const tell = () => {
      const lines = disks.flatMap((disk, i) => {
        const { nodes, all } = selections[i];
        const [walk] = disk.walks;
        if (!nodes.length || !walk) return [];
        const cost = nodes.reduce((sum, node) => sum + all.cost[node], 0) / 1e6;
        const same = disk.walks.filter(({ drive, order }) => drive === walk.drive && order === walk.order);
        const whole = same.reduce((sum, { total_s }) => sum + total_s, 0);
        const share = whole ? ` (${shareText(cost / whole)})` : "";
        const words = `${plural(nodes.length, "chosen node")} of ${disk.title}: ${secondsText(cost)}${share}`;
        return [element("p", {}, `${words} of ${secondsText(whole)} on a ${walk.drive}`)];
      });
      place.replaceChildren(...lines);
    };
    for (const selection of selections) selection.whenChosen(tell);
    return place;
  }
  function best(y, rows) {
    return {
      type: "scatter",
      mode: "markers",
      name: BEST,
      y,
      x: rows.map((row2) => row2.best_s),
      text: rows.map((row2) => plain(row2.best)),
      marker: { symbol: "line-ns-open", size: 18, color: isDark() ? "#fff" : "#000", line: { width: 3 } },
      hovertemplate: "%{text}: %{x:.3f} s<extra></extra>"
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
  async function directoryPanel(disk, holder, map2) {
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
    const words = textTable(`directories of ${disk.title}`, () => directoryRows(d, choose.value));
    holder.append(words.box);
    choose.addEventListener("change", () => {
      words.refresh();
      return draw2();
    });
    const drawn = draw2();
    plot.on("plotly_treemapclick", ({ points: [box] }) => {
      const nodes = map2.owners.files.nodesOf(box.id);
      if (nodes.length) map2.selection.choose(nodes, `with the entries of “${box.label}”`);
    });
    await drawn;
  }
  var MOST_ROWS = 20;
  function directoryRows(d, unit) {
    const text = { seconds: secondsText, entries: counted, bytes: bytesText }[unit];
    const tree = withOthers(d, unit);
    const totals = subtreeTotals(tree);
    const places = new Map(tree.id.map((id, i) => [id, i]));
    const above = (i) => tree.name[places.get(tree.parent[i]) ?? -1] ?? "";
    const ranked = [...totals.keys()].sort((a, b) => totals[b] - totals[a]);
    const rows = ranked.slice(0, MOST_ROWS).map((i) => [tree.name[i], above(i), text(totals[i]), text(tree.own[i])]);
    const left = ranked.length - rows.length;
    const note = left > 0 ? `The ${MOST_ROWS} largest; ${plural(left, "box")} more on the plot.` : "";
    return { columns: ["directory", "in", `${unit} in all`, "in itself"], rows, note };
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
        colorscale: scale.map((colour2, i) => [i, colour2]),
        line: { width: 1, color: isDark() ? "#14171b" : "#ffffff" }
      },
      textfont: { color: isDark() ? "#e6e9ed" : "#1b1f24" }
    };
  }

  // src/reads.ts
  function readsOf({ nodes, places, isChosen }, { offset, length }) {
    const touched = [];
    if (!nodes.length) return touched;
    const isOne = (node) => isChosen[node] === 1;
    for (let i = 0; i < offset.length; i++) if (places.some(offset[i], offset[i] + length[i], isOne)) touched.push(i);
    return touched;
  }

  // src/distances.ts
  async function orderPanel(disk, holder, map2, scale) {
    const { selection } = map2;
    const orders = disk.distances.key_order;
    if (!orders.length) holder.append(element("p", { class: "muted" }, "No tree here has leaves to compare."));
    if (orders.length && disk.start) holder.append(element("p", { class: "muted" }, startText(disk)));
    for (const { volume, tree, total, picture } of orders) {
      const { name: ofVolume2, nodes } = disk.volumes[volume];
      const called = `${ofVolume2 ? `${ofVolume2}, ` : ""}${labelOf(disk, tree)}`;
      const title = `${called}: ${counted(total)} leaves`;
      const layout = {
        xaxis: { title: { text: "place in key order" }, range: padded(picture.x) },
        yaxis: { title: { text: PLACES }, range: placeRange(disk, scale) }
      };
      const { all } = selection;
      const own = all.trees.indexOf(tree);
      const leaf = all.kinds.indexOf("leaf");
      const placing = {
        // Ranks of another volume are of another tree; what lies on another drive of a set has no place here.
        has: (i) => i >= nodes[0] && i < nodes[1] && all.tree[i] === own && all.kind[i] === leaf && all.rank[i] >= 0 && all.offset[i] >= 0,
        x: (i) => all.rank[i],
        y: (i) => (all.offset[i] - disk.start) / 2 ** 20
      };
      const told2 = "leaf %{x:,.0f} in key order<br>%{y:,.1f} MiB";
      const carried = count(all.offset.keys(), placing.has);
      const trace = carried === total ? pointsTrace(told2, treeHue(disk, tree)) : await pictureTrace(picture, told2);
      const name = carried === total && total > MOST_POINTS ? `${title}; where several share a spot, one is drawn` : title;
      const heading = element("h3", {}, name);
      holder.append(heading);
      const plot = plotIn(holder, 260, title);
      const columns = ["places in key order", "leaves", "lowest place on disk", "highest place on disk"];
      const note = `Equal parts of the key order; places are told to ${bytesText(step(picture.y, picture.rows))}.`;
      const words = textTable(`order of ${title}`, async () => ({
        columns,
        rows: await partsOf(picture, ranksBetween, void 0, total),
        note
      }));
      holder.append(words.box);
      const about = `chosen in key order of ${called}`;
      await brushed(plot, trace, layout, selection, placing, about);
      const follow2 = () => {
        const visible = map2.showsTree(tree);
        heading.textContent = visible ? name : `${title}, hidden by the legend of the map`;
        plotly().restyle(plot, { visible }, [0]);
      };
      map2.onFilter.push(follow2);
      if (!map2.showsTree(tree)) follow2();
      await pause();
    }
  }
  function ranksBetween(low, high, isLast) {
    const [first, last] = [Math.ceil(low), isLast ? Math.floor(high) : Math.ceil(high) - 1];
    return last > first ? `${counted(first)} to ${counted(last)}` : counted(first);
  }
  var step = ([low, high], rows) => Math.round((high - low) / rows * 2 ** 20);
  function treeHue({ classes }, tree) {
    const known = classes.find(({ key }) => key === tree);
    return known ? hueOf(known) : HUES[0];
  }
  function pointsTrace(told2, color) {
    const marker = { size: 3, color, opacity: 0.6 };
    return { type: "scattergl", mode: "markers", x: [], y: [], marker, hovertemplate: `${told2}<extra></extra>` };
  }
  async function distancePanel(disk, holder, selection) {
    const { seek, to_data } = disk.distances;
    const before = holder.childElementCount;
    if (seek?.total) await seeks(disk, seek, holder, selection);
    if (to_data.total) await toData(to_data, holder, selection);
    if (holder.childElementCount === before)
      holder.append(element("p", { class: "muted" }, "Nothing here has a distance: no walk, and no file with data."));
  }
  async function seeks(disk, h, holder, selection) {
    const { step: step2, ...walk } = disk.walks[0];
    const reads = await unpackAll(walk, ["offset", "length"]);
    const bins = await unpack(h.reads);
    const drawn = step2 > 1 ? `, of one read in ${step2}` : "";
    await histogram({
      ...{ h, holder, selection },
      title: `From the end of one read to the start of the next${walk.name ? `: ${walk.name}` : ""}`,
      of: `reads of the first walk${drawn}`,
      choose: (wanted, words) => selection.at(
        Array.from(reads.offset).filter((_, i) => wanted.has(bins[i])),
        `read ${words} behind the read before${drawn}`
      ),
      chosen: () => readsOf(selection, reads).map((i) => bins[i])
    });
  }
  async function toData(h, holder, selection) {
    const { node, bin } = await unpackAll(h, ["node", "bin"]);
    const left = h.total > node.length ? `, of ${counted(node.length)} of ${counted(h.total)} files` : "";
    await histogram({
      ...{ h, holder, selection },
      title: "From a file's inode to its first data",
      of: `files${left}`,
      choose: (wanted, words) => {
        const nodes = new Set(Array.from(node).filter((_, i) => wanted.has(bin[i])));
        selection.choose([...nodes], `with inodes of files whose data begins ${words} away${left}`);
      },
      chosen: () => Array.from(bin).filter((_, i) => selection.isChosen[node[i]] === 1)
    });
  }
  async function histogram(shown) {
    const { h, holder, selection, title } = shown;
    const names = binNames(h);
    holder.append(element("h3", {}, title));
    const plot = plotIn(holder, 250, title);
    holder.append(barWords(shown, names).box);
    const layout = plotLayout({
      xaxis: {
        title: { text: "distance: this up to twice as much", standoff: 8 },
        ...{ type: "category", nticks: 9, tickangle: 0, automargin: true }
      },
      yaxis: { title: { text: "count" } },
      ...{ barmode: "overlay", dragmode: "select", selectdirection: "h", showlegend: false }
    });
    const config = { ...CONFIG, modeBarButtonsToRemove: ["lasso2d", "sendDataToCloud", "editInChartStudio"] };
    await plotly().newPlot(plot, [bars(h, names), chosenBars(names, shown.of)], layout, config);
    const choose = (event) => {
      const found = event?.points.filter(({ curveNumber }) => curveNumber === 0).map(({ pointNumber }) => pointNumber);
      if (found?.length) shown.choose(new Set(found), spanText(h, Math.min(...found), Math.max(...found)));
    };
    plot.on("plotly_selected", choose);
    plot.on("plotly_click", choose);
    const follow2 = () => showChosen(plot, shown, names);
    selection.afterChosen(follow2);
    follow2();
  }
  function showChosen(plot, { chosen: chosen2, selection }, names) {
    const counts = names.map(() => null);
    if (selection.nodes.length) {
      for (const bin of chosen2()) if (bin < counts.length) counts[bin] = (counts[bin] ?? 0) + 1;
    }
    return plotly().restyle(plot, { y: [counts] }, [1]);
  }
  var binNames = (h) => ["0 B", ...h.counts.map((_, i) => bytesText(2 ** (h.first_power + i)))];
  function spanText(h, first, last) {
    const low = first ? bytesText(2 ** (h.first_power + first - 1)) : "0 B";
    return last ? `${low} to ${bytesText(2 ** (h.first_power + last))}` : "nothing";
  }
  function barWords({ h, title, of, chosen: chosen2, selection }, names) {
    return textTable(title, () => {
      const own = chosen2();
      const counts = [h.touching, ...h.counts];
      const rows = names.map((_, bin) => [
        spanText(h, bin, bin),
        counted(counts[bin]),
        selection.nodes.length ? counted(own.filter((other) => other === bin).length) : ""
      ]);
      return { columns: ["distance", "count", "of chosen nodes"], rows, note: `Chosen nodes are counted by ${of}.` };
    });
  }
  function bars(h, x) {
    const hovertemplate = "from %{x}: %{y:,}<extra></extra>";
    const looks = { marker: { color: HUES[0] }, unselected: { marker: { opacity: 1 } } };
    return { type: "bar", x, y: [h.touching, ...h.counts], ...looks, hovertemplate };
  }
  function chosenBars(x, of) {
    const hovertemplate = `from %{x}: %{y:,} of what is chosen, in ${of}<extra></extra>`;
    return { type: "bar", x, y: x.map(() => null), width: 0.4, marker: { color: hueOf(CHOSEN) }, hovertemplate };
  }

  // src/help.ts
  var WAYS = [
    ["read a cell", "point at it; touch: tap once; keys: shift and arrows go from cell to cell"],
    ["zoom", "wheel, click, + and −, Enter on the cell that is read; touch: a second tap at the same place, two fingers"],
    ["move", "drag, arrow keys; the frame on the strip, whose edges make it wider or narrower"],
    ["see the whole disk, go back", "0, Backspace"],
    [
      "choose nodes",
      "drag with shift over the map; Space on the cell that is read; a box over order or history; a span of the walk; bars of the distances; a directory"
    ],
    ["see one kind alone", "“only” beside it in the legend"],
    ["find a path, a file by its number, or a byte", "/"],
    ["see this list", "?"]
  ];
  function helpBox(signal) {
    const rows = WAYS.map(
      ([want, way]) => element("tr", {}, element("th", { scope: "row" }, want), element("td", {}, way))
    );
    const table = element("table", {}, element("caption", {}, "What the map answers to"), element("tbody", {}, ...rows));
    const box = element("details", { class: "help" }, element("summary", {}, "How to use the map ( ? )"), table);
    const called = (e) => {
      if (e.key !== "?" || e.target instanceof HTMLInputElement) return;
      box.open = !box.open;
      if (box.open) box.scrollIntoView({ block: "nearest" });
    };
    document.addEventListener("keydown", called, { signal });
    return box;
  }
  async function copyText(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return false;
    }
  }
  function linkButton(address) {
    if (location.protocol === "about:") return null;
    const told2 = element("span", { class: "muted", role: "status" });
    const press = async () => {
      const link = address();
      told2.textContent = await copyText(link) ? "copied" : link;
    };
    const title = "copy the address, which leads to what is shown now";
    return element(
      "span",
      { class: "bar" },
      element("button", { type: "button", title, onclick: press }, "copy link"),
      told2
    );
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
  var addressOf = (maps) => location.href.split("#")[0] + MARK + maps.map(written).join(";");
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
  var STEPS3 = 1e3;
  var Race = class {
    constructor(players, holder) {
      this.players = players;
      const press = () => this.frame === null ? this.play() : this.pause();
      this.button = element("button", { type: "button", onclick: press }, "▶ play");
      const title = "time since the start of the walks";
      this.bar = element("input", { type: "range", min: 0, max: STEPS3, value: 0, title });
      this.bar.addEventListener("input", () => {
        this.pause();
        this.show(+this.bar.value / STEPS3 * this.longest());
      });
      if (!this.hasTime) return;
      const speeds = this.speeds;
      speeds.append(...SPEEDS.map((speed) => element("option", { value: speed }, this.words(speed))));
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
    speeds = element("select", { title: "how fast" });
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
      const told2 = (n) => counted(+n.toPrecision(2));
      return times >= 1 ? `${told2(times)} × as fast as the drive` : `${told2(1 / times)} × as slow as the drive`;
    }
    /** Begin anew: the walks take another time now. */
    restart() {
      for (const option of this.speeds.options) option.textContent = this.words(+option.value);
      return this.stop();
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
      const step2 = () => {
        this.show(Math.min(this.longest(), (performance.now() - this.began) / 1e3 * this.speed()));
        if (this.now < this.longest()) this.frame = requestAnimationFrame(step2);
        else this.pause();
      };
      this.button.textContent = "❚❚ pause";
      this.frame = requestAnimationFrame(step2);
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
      this.bar.value = String(STEPS3 * (now / this.longest()));
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
  var Drives = class {
    constructor(disks) {
      this.disks = disks;
    }
    disks;
    listeners = [];
    /** The most that something is of the walks on a drive. */
    most(drive, of) {
      const walks = this.disks.flatMap((disk) => disk.walks).filter((walk) => walk.drive === drive);
      return Math.max(0, ...walks.map(of));
    }
    choose(walk) {
      for (const listener of this.listeners) listener(walk);
    }
    whenChosen(listener) {
      this.listeners.push(listener);
    }
  };
  async function walkPanel(disk, holder, map2, band, scale, drives) {
    if (!disk.walks.length) {
      holder.append(element("p", { class: "muted" }, "No walk reads anything here."));
      return null;
    }
    const options = disk.walks.map((walk2, i) => element("option", { value: i }, walk2.label));
    const choose = element("select", { title: "drive" }, ...options);
    const note = element("span", { class: "muted" });
    holder.append(element("div", { class: "bar" }, choose, note));
    const key = element("div", {});
    holder.append(key);
    const plot = plotIn(holder, 460, `the walk of ${disk.title}: place on disk over time`);
    let walk = disk.walks[0];
    let reads;
    let last = 0;
    let isShown = false;
    const words = textTable(`the walk of ${disk.title}`, () => walkRows(disk, walk, reads));
    holder.append(words.box);
    const draw2 = async () => {
      walk = disk.walks[+choose.value];
      const { ticks, time, reads_of } = walk;
      const made = { time, ...disk.walks[reads_of] };
      reads = await unpackAll({ ...made, time }, ["time", "offset", "length", "tree"]);
      reads.time = reads.time.map((tick) => tick / ticks);
      note.textContent = `${walk.order}: ${told(walk)}; select a span of time to see its places in the map above. ${startText(disk)}`;
      map2.mark([], null);
      const traces = [...walkTraces(disk, walk, reads), chosenTrace()];
      last = traces.length - 1;
      const layout = walkLayout(disk, scale, drives, walk.drive);
      await plotly().react(plot, traces, layout, CONFIG);
      key.replaceChildren(legendOf(plot, treeHues(traces)));
      showTrees();
      showReads();
      words.refresh();
    };
    const showTrees = () => {
      const trees = plot.data.flatMap(({ meta }, trace) => typeof meta === "string" ? [{ meta, trace }] : []);
      if (!trees.length) return;
      const visible = trees.map(({ meta }) => map2.showsTree(meta));
      plotly().restyle(
        plot,
        { visible },
        trees.map(({ trace }) => trace)
      );
    };
    const showReads = () => {
      const touched = readsOf(map2.selection, reads);
      isShown = touched.length > 0;
      const x = touched.map((i) => reads.time[i]);
      const y = touched.map((i) => (reads.offset[i] - disk.start) / 2 ** 20);
      return plotly().restyle(plot, { x: [x], y: [y] }, [last]);
    };
    await draw2();
    choose.addEventListener("change", () => drives.choose(disk.walks[+choose.value]));
    drives.whenChosen((chosen2) => {
      const own = disk.walks.indexOf(chosen2);
      const at = own < 0 ? disk.walks.findIndex(({ drive }) => drive === chosen2.drive) : own;
      if (at < 0 || own < 0 && disk.walks[+choose.value].drive === chosen2.drive) return;
      choose.value = String(at);
      return draw2();
    });
    map2.onFilter.push(showTrees);
    map2.selection.afterChosen(() => isShown || map2.selection.nodes.length ? showReads() : void 0);
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
        band.rest(walk);
        return map2.mark([], null);
      },
      at: (now) => {
        const at = lastBefore(reads.time, now);
        const trail = Array.from(reads.offset.slice(Math.max(0, at - TRAIL), at + 1));
        band.show(trail, now, walk);
        return map2.mark(trail.slice(0, -1), trail[trail.length - 1] ?? null);
      }
    };
  }
  var treeHues = (traces) => traces.flatMap(
    ({ meta, name, marker }) => meta ? [{ text: String(name), hue: String(marker.color) }] : []
  );
  function walkRows(disk, { total_s, step: step2, rates }, { time, offset, length }) {
    const place = (at) => bytesText(at - disk.start);
    const rows = Array.from({ length: total_s ? PARTS : 0 }, (_, part) => {
      const [low, high] = [part, part + 1].map((n) => n * total_s / PARTS);
      const reads = Array.from(time.keys()).filter((i) => time[i] >= low && (time[i] < high || part === PARTS - 1));
      const own = reads.map((i) => offset[i]);
      const seeks2 = reads.filter((i) => !i || offset[i] !== offset[i - 1] + length[i - 1]).length;
      const bytes = reads.reduce((all, i) => all + length[i], 0);
      const sum = (of) => of.reduce((all, each, i) => {
        const middle = (i + 0.5) * rates.width;
        return middle >= low && middle < high ? all + each * rates.width : all;
      }, 0);
      const ends = own.length ? [Math.min(...own), Math.max(...own)].map(place) : ["", ""];
      const span = `${secondsText(low)} to ${secondsText(high)}`;
      return [
        span,
        counted(own.length),
        counted(step2 > 1 ? Math.round(sum(rates.seeks)) : seeks2),
        bytesText(step2 > 1 ? Math.round(sum(rates.bytes)) : bytes),
        ...ends
      ];
    });
    const drawn = step2 > 1 ? ` Reads are one in ${step2}, those that are drawn.` : "";
    const about = step2 > 1 ? ", about" : "";
    const columns = ["time", "reads", `seeks${about}`, `read${about}`, "lowest place", "highest place"];
    return { columns, rows, note: `Equal spans of time; places are bytes from the disk's start.${drawn}` };
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
    const step2 = Math.max(1, Math.ceil(places.length / MOST_PLACES));
    return places.filter((_, i) => i % step2 === 0);
  }
  function walkTraces(disk, walk, reads) {
    const points = walk.trees.map((name, tree) => {
      const own = Array.from(reads.tree.keys()).filter((i) => reads.tree[i] === tree);
      const known = disk.classes.find((c) => c.key === name);
      const x = own.map((i) => reads.time[i]);
      return {
        type: "scattergl",
        mode: "markers",
        meta: name,
        name: plain(labelOf(disk, name)),
        x,
        y: own.map((i) => (reads.offset[i] - disk.start) / 2 ** 20),
        marker: { size: 3, color: known ? hueOf(known) : HUES[tree % HUES.length] },
        hovertemplate: `%{x:.3f} s<br>%{y:,.1f} MiB<extra>${plain(labelOf(disk, name))}</extra>`
      };
    });
    const { width, seeks: seeks2, bytes } = walk.rates;
    const time = [...seeks2.keys(), seeks2.length].map((i) => i * width);
    const rate = (name, y, yaxis, color) => ({
      ...{ type: "scatter", mode: "lines", name, x: time, y: [...y, ...y.slice(-1)], yaxis, showlegend: false },
      line: { color, width: 1, shape: "hv" }
    });
    return [
      ...points.filter((trace) => trace.x.length),
      rate("seeks per second", seeks2, "y2", HUES[1]),
      rate(
        "MB per second",
        bytes.map((b) => b / 1e6),
        "y3",
        HUES[2]
      )
    ];
  }
  function walkLayout(disk, scale, drives, drive) {
    const seconds2 = drives.most(drive, ({ total_s }) => total_s);
    const top = (of) => 1.05 * drives.most(drive, ({ rates }) => Math.max(0, ...rates[of])) || 1;
    const rate = (most) => ({ range: [0, most], fixedrange: true });
    return plotLayout({
      xaxis: {
        title: { text: "seconds since the start of the walk" },
        range: [0, seconds2 || 1],
        anchor: "y3"
      },
      yaxis: { title: { text: PLACES }, domain: [0.42, 1], range: placeRange(disk, scale) },
      yaxis2: { title: { text: "seeks/s" }, domain: [0.22, 0.38], ...rate(top("seeks")) },
      yaxis3: { title: { text: "MB/s" }, domain: [0, 0.16], ...rate(top("bytes") / 1e6) },
      margin: { l: 70, r: 12, t: 8, b: 42 },
      dragmode: "zoom",
      showlegend: false
    });
  }

  // src/page.ts
  var PANELS = ["map", "costs", "order", "walk", "directories", "history", "distances"];
  var cardsOf = (anchor) => [...document.querySelectorAll(`#${anchor} .card`)];
  function whenOpened(anchor, draw2) {
    const folded2 = document.querySelector(`#${anchor} details`);
    if (!folded2) return;
    folded2.dataset.drawn = "no";
    const go = async () => {
      if (!folded2.open || folded2.dataset.drawn !== "no") return;
      folded2.dataset.drawn = "begun";
      await Promise.all(draw2(cardsOf(anchor)));
      folded2.dataset.drawn = "yes";
    };
    folded2.ontoggle = go;
    go();
  }
  function aboveMaps(maps, holder) {
    const link = linkButton(() => addressOf(maps));
    holder.append(element("div", { class: "bar" }, helpBox(maps[0].gone.signal), ...link ? [link] : []));
    together(maps, holder);
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
    for (const map2 of maps) await map2.build();
    performance.mark("map");
    if (maps.length) aboveMaps(maps, document.querySelector("#map .above"));
    follow(maps);
    const [costs] = cardsOf("costs");
    if (costs) {
      const selections = maps.map(({ selection }) => selection);
      costPanel(disks, costs, selections);
    }
    const players = [];
    const drives = new Drives(disks);
    const bands2 = disks.map((disk, i) => new Band(disk, document.querySelector(`.band[data-disk="${i}"]`)));
    for (const [i, disk] of disks.entries()) {
      await pause();
      if (orders[i]) await orderPanel(disk, orders[i], maps[i], scale);
      if (!walks[i]) continue;
      await pause();
      const player = await walkPanel(disk, walks[i], maps[i], bands2[i], scale, drives);
      if (player) players.push(player);
    }
    const race = new Race(players, document.getElementById("race"));
    drives.whenChosen(() => race.restart());
    whenOpened("directories", (cards) => {
      for (const [i, disk] of disks.entries()) cards[i].hidden = !disk.directories;
      return disks.map((disk, i) => directoryPanel(disk, cards[i], maps[i]));
    });
    whenOpened("history", (cards) => disks.map((disk, i) => historyPanel(disk, cards[i], maps[i].selection)));
    whenOpened("distances", (cards) => disks.map((disk, i) => distancePanel(disk, cards[i], maps[i].selection)));
    window.layoutscope = { page: page2, maps, race };
    document.documentElement.dataset.ready = "yes";
    performance.mark("ready");
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches || location.protocol === "about:";
    if (!played && !isStill) race.play();
    played = true;
  }
  var lists = () => ["walk", "directories"].flatMap(cardsOf).flatMap((card) => [...card.querySelectorAll("select")]);
  function chooseAgain(earlier) {
    for (const [i, list] of lists().entries()) {
      if (list.value === earlier[i]) continue;
      list.value = earlier[i];
      list.dispatchEvent(new Event("change"));
    }
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
    const listed = lists().map(({ value }) => value);
    for (const map2 of maps) map2.gone.abort();
    for (const plot of document.querySelectorAll(".js-plotly-plot")) plotly().purge(plot);
    for (const holder of [
      ...PANELS.flatMap(cardsOf),
      document.getElementById("race"),
      document.querySelector("#map .above"),
      document.getElementById("peeks")
    ])
      holder.replaceChildren();
    drawing = draw(page2, kept2).then(() => {
      for (const [i, { selection }] of maps.entries())
        window.layoutscope.maps[i].selection.choose(selection.nodes, selection.about);
      chooseAgain(listed);
    });
    return drawing;
  }
  document.body.append(element("div", { id: "peeks" }));
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
