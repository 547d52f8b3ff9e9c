"use strict";
(() => {
  // src/cells.ts
  var MOST_COLUMNS = 256;
  var SHAPE = 4;
  function gridOf(cells) {
    let columns = SHAPE;
    while (columns < MOST_COLUMNS && columns * columns / SHAPE < cells) columns *= 2;
    return { columns, rows: Math.ceil(cells / columns) };
  }
  function paint(classes, held, roles, width) {
    const cells = held[0]?.length ?? 0;
    const shares = [...roles, ""].map(() => new Float64Array(cells));
    held.forEach((of, k) => {
      const to = shares[roles.indexOf(classes[k].role) < 0 ? roles.length : roles.indexOf(classes[k].role)];
      for (let c = 0; c < cells; c++) to[c] += of[c] / width;
    });
    const due = new Float64Array(shares.length);
    const out = new Int8Array(cells);
    const damaged = roles.indexOf("damaged");
    for (let c = 0; c < cells; c++) {
      let best = -1;
      for (let k = 0; k < shares.length; k++) {
        const share = shares[k][c];
        due[k] += share;
        if (share > 0 && (best < 0 || due[k] > due[best])) best = k;
      }
      if (damaged >= 0 && shares[damaged][c] > 0) best = damaged;
      if (best >= 0) due[best] -= 1;
      out[c] = best === roles.length ? -1 : best;
    }
    return out;
  }

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
  function list(title, names, choose) {
    const options = names.map((name, place) => element("option", { value: place }, name));
    const box = element("select", { title }, ...options);
    box.addEventListener("change", () => choose(+box.value));
    return box;
  }
  function button(text, title, press) {
    return element("button", { type: "button", title, onclick: press }, text);
  }
  function isDark() {
    const forced = document.documentElement.dataset.theme;
    return forced ? forced === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }
  function save(blob, name) {
    const href = URL.createObjectURL(blob);
    element("a", { href, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(href), 1e3);
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
  function escaped(text) {
    return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{DI}]/gu, (found2) => {
      const code = found2.codePointAt(0).toString(16);
      return code.length > 4 ? `\\U${code.padStart(8, "0")}` : `\\u${code.padStart(4, "0")}`;
    });
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
    flags = null;
    choose(nodes, about) {
      this.nodes = nodes;
      this.about = nodes.length ? about : "";
      this.flags = null;
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
    const bar = element(
      "div",
      { class: "bar" },
      element("b", {}, selection.told()),
      button("copy", "copy the table as CSV", () => navigator.clipboard.writeText(csv(selection))),
      button(
        "save as CSV",
        "keep the table as a file",
        () => save(new Blob([csv(selection)], { type: "text/csv" }), "nodes.csv")
      ),
      button("clear selection", "list none of them", () => selection.choose([], ""))
    );
    const head = element("tr", {}, ...COLUMNS2.map((name) => element("th", { scope: "col" }, name)));
    const rows = selection.nodes.slice(0, SHOWN).map((i) => element("tr", {}, ...row(selection.all, i).map((cell) => element("td", {}, cell))));
    const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
    const left = selection.nodes.length - rows.length;
    return [bar, table, ...left > 0 ? [element("p", { class: "muted" }, `and ${counted(left)} more`)] : []];
  }

  // src/plots.ts
  var plotly = () => Plotly;
  var CONFIG = {
    displayModeBar: false,
    showTips: false,
    doubleClick: false,
    plotlyServerURL: ""
  };
  var NARROW = 560;
  function plain(text) {
    return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }
  var known = /* @__PURE__ */ new Map();
  function colour(name) {
    const before = known.get(name);
    if (before) return before;
    const probe = element("span", {});
    probe.style.cssText = `color: var(${name}); forced-color-adjust: none; display: none`;
    document.body.append(probe);
    const found2 = getComputedStyle(probe).color;
    probe.remove();
    known.set(name, found2);
    return found2;
  }
  function plotLayout(extra) {
    const [fg, line] = [colour("--fg"), colour("--line")];
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: fg, size: 12, family: "system-ui, sans-serif" },
      margin: { l: 64, r: 12, t: 8, b: 44 },
      hovermode: "closest",
      hoverlabel: { bgcolor: colour("--panel"), bordercolor: line, font: { color: fg } },
      showlegend: false,
      ...extra
    };
    const axis = { gridcolor: line, zeroline: false, linecolor: line };
    for (const key of Object.keys(layout))
      if (/^[xy]axis/.test(key)) layout[key] = { ...axis, ...layout[key] };
    return layout;
  }
  var seen = /* @__PURE__ */ new Map();
  var forgetColours = () => known.clear();
  var redrawAll = () => Promise.all([...seen.values()].map((draw) => draw()));
  function plotIn(holder, height, label, draw) {
    const plot = element("div", { class: "plot", role: "figure", "aria-label": label });
    plot.style.height = height;
    holder.append(plot);
    const go = async () => {
      plot.dataset.drawn = "begun";
      await draw(plot);
      plot.dataset.drawn = "yes";
    };
    const sight = (entries) => {
      const isSeen = entries[entries.length - 1].isIntersecting;
      if (isSeen === seen.has(plot)) return;
      if (isSeen) {
        seen.set(plot, go);
        go();
      } else {
        seen.delete(plot);
        plotly().purge(plot);
        plot.dataset.drawn = "no";
      }
    };
    new IntersectionObserver(sight, { rootMargin: "200px" }).observe(plot);
    return plot;
  }
  var redraw = (plot) => seen.get(plot)?.();

  // src/tip.ts
  var APART = 14;
  var Tip = class {
    box = element("div", { class: "tip", hidden: "" });
    constructor() {
      document.body.append(this.box);
    }
    show(e, lines) {
      const { box } = this;
      box.textContent = lines.join("\n");
      box.hidden = false;
      const { offsetWidth: wide, offsetHeight: high } = box;
      const left = e.clientX + APART + wide > innerWidth ? Math.max(4, e.clientX - APART - wide) : e.clientX + APART;
      const top = e.clientY + APART + high > innerHeight ? Math.max(4, e.clientY - APART - high) : e.clientY + APART;
      box.style.transform = `translate(${left}px, ${top}px)`;
    }
    hide() {
      this.box.hidden = true;
    }
  };

  // src/figure.ts
  var NEAR = 9;
  var TURN = 200;
  var HEAD = 44;
  var LABEL_TURNS = 0.38;
  var LETTER = 6.6;
  var hueOf = (roles, key) => {
    const role = roles.find((one) => one.key === key);
    return role ? isDark() ? role.dark : role.light : colour("--fg");
  };
  var Figure = class {
    constructor(page2, disks, view, holder) {
      this.page = page2;
      this.disks = disks;
      this.view = view;
      this.holder = holder;
      this.made = { ...page2.figure, data: [...page2.figure.data, ...disks.flatMap((_, i) => found(page2.figure, i))] };
      const label = "what fills each stretch of each disk, and where the head goes over time; plus and minus zoom, arrows move, 0 shows everything, Backspace goes back";
      this.plot = element("div", {
        class: "plot",
        tabindex: 0,
        role: "application",
        "aria-label": label
      });
      holder.append(this.plot);
      view.whenChanged(() => this.draw());
    }
    page;
    disks;
    view;
    holder;
    plot;
    made;
    tip = new Tip();
    turned = 1;
    /** Draw, and listen once there is something to listen to. */
    async start() {
      await this.draw();
      const { plot, view } = this;
      plot.on("plotly_relayout", () => this.dragged());
      plot.on("plotly_doubleclick", () => view.back());
      plot.addEventListener("wheel", (e) => this.wheel(e), { passive: false, capture: true });
      plot.addEventListener("keydown", (e) => this.press(e));
      plot.addEventListener("pointermove", (e) => e.pointerType === "mouse" && !e.buttons && this.point(e));
      plot.addEventListener("pointerup", (e) => e.pointerType !== "mouse" && this.point(e));
      plot.addEventListener("pointerleave", (e) => e.pointerType === "mouse" && this.tip.hide());
    }
    async draw() {
      this.tip.hide();
      const { range } = this.view;
      const [unit] = this.made.unit;
      const filled = this.disks.map((drawn) => this.values(drawn, range));
      const data = this.made.data.map((trace) => {
        const { disk, part, role } = trace.meta;
        const looks = trace.marker ?? trace.line;
        const hue = part === "found" ? colour("--fg") : hueOf(this.made.roles, part === "path" ? "data" : role);
        const key = trace.marker ? "marker" : "line";
        const values = filled[disk](part, role, unit);
        if (part === "marks") values.x = values.y.map(() => this.leftOf(String(trace.xaxis)) / 2);
        return { ...trace, [key]: { ...looks, color: hue }, ...values };
      });
      await plotly().react(this.plot, data, this.layout(), CONFIG);
    }
    /** What the traces of a disk show; the twin is in `layoutscope/report/map/figure.py`. */
    values(drawn, range) {
      const { disk, reads, marks } = drawn;
      const { low, high, from, to } = range;
      const { bins: count, dots } = this.made;
      const width = (high - low) / count;
      const held = drawn.bins(low, high, count);
      const seen2 = [];
      for (let i = 0; i < reads.time.length; i++)
        if (reads.time[i] >= from && reads.time[i] <= to && reads.place[i] >= low && reads.place[i] <= high)
          seen2.push(i);
      const step = Math.max(1, Math.ceil(seen2.length / dots));
      const shown2 = step > 1 ? seen2.filter((_, k) => k % step === 0) : seen2;
      const at = (own, unit) => ({
        x: own.map((i) => reads.time[i]),
        y: own.map((i) => reads.place[i] / unit)
      });
      return (part, role, unit) => {
        if (part === "dots")
          return at(
            shown2.filter((i) => reads.role[i] === role),
            unit
          );
        if (part === "path")
          return step * reads.step === 1 ? at([...reads.time.keys()].slice(...ends(seen2)), unit) : { x: [], y: [] };
        if (part === "found") return { x: marks.map(() => 1), y: marks.map((byte) => (byte - disk.start) / unit) };
        const share = held.get(role) ?? new Float64Array(count);
        const there = [...share.keys()].filter((i) => share[i] > 0);
        const y = there.map((i) => (low + (i + 0.5) * width) / unit);
        if (part === "marks") return { y };
        return { x: there.map((i) => share[i]), y, width: there.map(() => width / unit) };
      };
    }
    leftOf(axis) {
      return this.made.layout[axis.replace("x", "xaxis")].range[0];
    }
    /** Where the rows are, from bottom to top, in a figure of a height. */
    tops(height) {
      const foot = this.made.layout.margin.b;
      const rows = this.made.layout.annotations.filter(({ name }) => name === "caption").length;
      return Array.from({ length: rows }, (_, i) => [1 - (i + 1) / rows, 1 - i / rows - HEAD / (height - foot)]);
    }
    layout() {
      const [unit] = this.made.unit;
      const { low, high, from, to } = this.view.range;
      const { ends: ends2, seconds } = this.page.drives[this.view.drive] ?? { ends: [], seconds: 0 };
      const wide = this.plot.clientWidth;
      const isNarrow = wide < NARROW;
      const [fg, muted3] = [colour("--fg"), colour("--muted")];
      const height = this.holder.clientHeight;
      const tops = this.tops(height);
      const layout = {
        ...this.made.layout,
        height,
        width: wide,
        font: { ...this.made.layout.font, color: fg }
      };
      for (const key of Object.keys(layout)) {
        if (key.startsWith("yaxis")) {
          const [domain, range] = [tops[Number(key.slice(5) || 1) - 1], [low / unit, high / unit]];
          layout[key] = { ...layout[key], domain, range };
        }
        const axis = layout[key];
        const title = isNarrow && axis.title ? { title: { text: "seconds" } } : {};
        if (/^xaxis(\d*[02468])$/.test(key)) layout[key] = { ...axis, range: [from, to], ...title };
        else if (key.startsWith("xaxis") && isNarrow && axis.domain && axis.domain[1] < 1)
          layout[key] = { ...axis, tickvals: [0], title: { text: "" } };
      }
      const most = Math.floor((wide - 70) / LETTER);
      const captions = this.made.layout.annotations.filter(({ name }) => name === "caption").map((caption, i) => ({
        ...caption,
        y: tops[i][1],
        text: cut(String(caption.text), most),
        font: { size: 12, color: muted3 }
      }));
      const labels = ends2.map(({ label }) => {
        const x = Math.min(Math.max(Number(label.x), from), to);
        const turns = (x - from) / (to - from) > LABEL_TURNS;
        return { ...label, x, xanchor: turns ? "right" : "left", visible: seconds > 0 };
      });
      layout.annotations = [...captions, ...labels];
      layout.shapes = ends2.map(({ shape }) => ({ ...shape, line: { width: 1.5, color: fg } }));
      layout.dragmode = matchMedia("(hover: none)").matches ? false : "zoom";
      return layout;
    }
    /** Plotly has zoomed: all axes of positions match, and all of times. */
    dragged() {
      const { yaxis, xaxis2 } = this.plot._fullLayout;
      const [unit] = this.made.unit;
      const [low, high] = yaxis.range.map((place) => place * unit);
      const [from, to] = xaxis2?.range ?? [this.view.range.from, this.view.range.to];
      this.view.show({ low: Math.round(low), high: Math.round(high), from, to });
    }
    /** Where a pointer is: on which disk, at which byte and time, over the bars or the walk. */
    place(e) {
      const box = this.plot.getBoundingClientRect();
      const [x, y] = [e.clientX - box.left, e.clientY - box.top];
      const { low, high, from, to } = this.view.range;
      for (const disk of this.disks.keys()) {
        const up = this.plot._fullLayout[disk ? `yaxis${disk + 1}` : "yaxis"];
        if (y < up._offset || y > up._offset + up._length) continue;
        const walk = this.plot._fullLayout[`xaxis${2 * disk + 2}`];
        const isWalk = walk !== void 0 && x >= walk._offset;
        const byte = high - (y - up._offset) / up._length * (high - low);
        const time = walk ? from + (x - walk._offset) / walk._length * (to - from) : 0;
        const scale = [walk ? walk._length / (to - from) : 1, up._length / (high - low)];
        return { disk, byte, time, isWalk, scale };
      }
      return null;
    }
    point(e) {
      const at = this.place(e);
      if (!at) {
        this.tip.hide();
        return;
      }
      const drawn = this.disks[at.disk];
      const { low, high } = this.view.range;
      if (!at.isWalk) {
        const width = (high - low) / this.made.bins;
        const first = low + Math.floor((at.byte - low) / width) * width;
        this.tip.show(e, drawn.lines(Math.floor(first), Math.floor(first + width)));
        return;
      }
      const { time, place } = drawn.reads;
      let [best, near] = [-1, NEAR ** 2];
      for (let i = 0; i < time.length; i++) {
        const far = ((time[i] - at.time) * at.scale[0]) ** 2 + ((place[i] - at.byte) * at.scale[1]) ** 2;
        if (far < near) [best, near] = [i, far];
      }
      if (best < 0) this.tip.hide();
      else this.tip.show(e, drawn.readLines(best));
    }
    /** With Ctrl or Cmd, as trackpads send a pinch; else the page scrolls. */
    wheel(e) {
      if (!(e.ctrlKey || e.metaKey)) return;
      e.preventDefault();
      const at = this.place(e)?.byte;
      const isFirst = this.turned === 1;
      this.turned *= 2 ** (e.deltaY / TURN);
      if (!isFirst) return;
      requestAnimationFrame(() => {
        const factor = this.turned;
        this.turned = 1;
        this.view.zoom(factor, at);
      });
    }
    press(e) {
      const { view } = this;
      const acts = {
        "+": () => view.zoom(1 / 4),
        "=": () => view.zoom(1 / 4),
        "-": () => view.zoom(4),
        "0": () => view.show(view.whole()),
        Backspace: () => view.back(),
        ArrowUp: () => view.move(1 / 4),
        ArrowDown: () => view.move(-1 / 4),
        Escape: () => this.tip.hide()
      };
      const act = e.ctrlKey || e.metaKey || e.altKey ? void 0 : acts[e.key];
      if (!act) return;
      e.preventDefault();
      act();
    }
    /** Keep what is seen as a file; it is made here. */
    async keep() {
      const size = { width: this.plot.clientWidth, height: this.plot.clientHeight };
      const svg = await plotly().toImage(this.plot, { format: "svg", ...size, imageDataOnly: true });
      save(new Blob([svg], { type: "image/svg+xml" }), "layoutscope.svg");
    }
  };
  function found({ data }, disk) {
    const bars = data.find(({ meta }) => meta.disk === disk);
    if (!bars) return [];
    const marker = { symbol: "triangle-left", size: 9 };
    const on = { xaxis: bars.xaxis, yaxis: bars.yaxis, hoverinfo: "none", cliponaxis: false };
    return [{ type: "scatter", mode: "markers", meta: { disk, part: "found", role: "" }, marker, ...on }];
  }
  function ends(seen2) {
    return seen2.length ? [Math.max(0, seen2[0] - 1), seen2[seen2.length - 1] + 2] : [0, 0];
  }
  function cut(text, most) {
    return text.length > most ? `${text.slice(0, Math.max(1, most - 1))}…` : text;
  }

  // src/payload.ts
  function ofVolume({ volumes }, place) {
    const name = volumes[place]?.name;
    return name ? `${name}: ` : "";
  }

  // src/search.ts
  var MOST = 12;
  var TOLD = 3;
  var AROUND = 1 << 22;
  function searchField(detail) {
    const hasNames = detail.disks.some(({ disk }) => disk.entries.packed);
    const hint = hasNames ? "path, file number or byte" : "byte";
    const field = element("input", { type: "search", placeholder: `${hint} ( / )`, "aria-label": `find a ${hint}` });
    const found2 = element("div", { class: "bar found", role: "status" });
    field.addEventListener("input", async () => {
      const text = field.value.trim();
      if (!text) mark(detail, detail.drawn, []);
      detail.info.textContent = "";
      const unread = detail.disks.filter(({ owners }) => owners.files.readNames < owners.files.total);
      if (text && unread.length) found2.replaceChildren(muted("reading names…"));
      const shown2 = await Promise.all(detail.disks.map((_, number) => results(detail, number, text)));
      if (text !== field.value.trim() || shown2.includes(void 0)) return;
      const all = shown2.flat();
      const nothing = text ? [muted("nothing of that name or number on this page")] : [];
      found2.replaceChildren(...all.length ? all : nothing);
    });
    document.addEventListener("keydown", (e) => {
      if (e.key !== "/" || e.target instanceof HTMLInputElement) return;
      e.preventDefault();
      field.focus();
    });
    return element("div", { class: "search" }, field, found2);
  }
  var muted = (text) => element("span", { class: "muted" }, text);
  async function results(detail, number, text) {
    const drawn = detail.disks[number];
    const { disk, owners } = drawn;
    const files = await owners.files.find(text, text ? MOST : 0);
    if (!files || !text) return files && [];
    const press = (act) => async () => {
      detail.info.textContent = "looking…";
      await detail.turnTo(number);
      await act();
    };
    const of = detail.disks.length > 1 ? `${disk.title}: ` : "";
    const buttons = files.map((file) => {
      const when = file.volume < disk.earlier ? "" : ", as it was";
      const path = element("bdi", {}, file.path);
      const words = [of + ofVolume(disk, file.volume), path, ` (file ${file.id})${when}`];
      return element("button", { type: "button", onclick: press(() => showFile(detail, drawn, file)) }, ...words);
    });
    const byte = Number(text.replaceAll(",", ""));
    if (Number.isInteger(byte) && byte >= disk.start && byte < disk.start + disk.size) {
      const show = press(() => showByte(detail, drawn, byte));
      buttons.push(element("button", { type: "button", onclick: show }, `${of}byte ${counted(byte)}`));
    }
    if (files.length === MOST) buttons.push(muted(`the first ${MOST}`));
    const unsaid = unsearched(disk);
    if (unsaid) buttons.push(muted(unsaid));
    return buttons;
  }
  function unsearched({ entries: { total, withheld, packed } }) {
    if (packed || !total) return "";
    if (withheld) return "files cannot be found here: the page was made without names";
    return `files cannot be found here: the page carries none of the disk's ${counted(total)} paths (--all-paths does)`;
  }
  function mark(detail, drawn, marks) {
    for (const other of detail.disks) other.marks = [];
    drawn.marks = marks;
    return detail.view.changed();
  }
  async function showByte(detail, drawn, byte) {
    const at = byte - drawn.disk.start;
    await detail.view.show({ low: at - AROUND / 2, high: at + AROUND / 2 });
    await mark(detail, drawn, [byte]);
    detail.info.textContent = drawn.lines(at, at + 1).join("\n");
  }
  async function showFile(detail, drawn, file) {
    const { disk, owners } = drawn;
    const extents = await owners.extentsOf(file);
    const bytes = extents.reduce((sum, [, length]) => sum + length, 0);
    const node = file.node < 0 ? void 0 : owners.nodes.offset[file.node];
    const places = extents.flatMap(([start2, length]) => steps(start2, length, detail.cell));
    if (node !== void 0) places.push(node);
    const { low, high } = detail.view.range;
    const isSeen = places.some((place) => place - disk.start >= low && place - disk.start < high);
    if (!isSeen) await detail.view.show({ ...detail.view.whole(), low: 0, high: disk.size });
    await mark(detail, drawn, places);
    const data = disk.tells_files ? `${bytesText(bytes)} of data in ${plural(extents.length, "piece")}` : "where its data lies is not on this page: the disk has more extents than it carries";
    const first = extents.slice(0, TOLD).map(([start2, length]) => `${bytesText(length)} at byte ${counted(start2)}`);
    if (extents.length > TOLD) first.push(`and ${counted(extents.length - TOLD)} more`);
    detail.info.textContent = [
      `${ofVolume(disk, file.volume)}${file.path}, file ${file.id}: ${data}`,
      ...first.length ? [first.join(" · ")] : [],
      ...node === void 0 ? [] : [`its inode: ${owners.nodeText(file.node)}`]
    ].join("\n");
  }
  function steps(start2, length, cell) {
    return Array.from({ length: Math.min(256, Math.ceil(length / cell)) }, (_, i) => start2 + i * cell);
  }

  // src/tables.ts
  var PARTS = 16;
  function textTable(title, tell) {
    const place = element("div", { class: "rows" });
    const box = element("details", { class: "told" }, element("summary", {}, `Show as table: ${title}`), place);
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

  // src/detail.ts
  var CELLS = MOST_COLUMNS * 64;
  var MOST_MARKS = 1500;
  var REST_MS = 90;
  var COLOURS = {
    level: { of: ({ level }, i) => level[i] === 255 ? null : level[i], title: "level" },
    age: { of: ({ xid }, i) => xid[i] || null, title: "transaction" },
    cost: { of: ({ cost }, i) => cost[i] ? Math.log10(cost[i] / 1e6) : null, title: "seconds to read" },
    fill: { of: ({ fill }, i) => fill[i] === 255 ? null : fill[i], title: "% full" }
  };
  var KINDS2 = ["kind", ...Object.keys(COLOURS)];
  var Detail = class {
    constructor(page2, disks, view, holder) {
      this.page = page2;
      this.disks = disks;
      this.view = view;
      this.number = worst(disks);
      const titles = disks.map(({ disk }) => disk.title);
      this.choose = list("disk", titles, (place) => this.turnTo(place));
      this.colours = list("what colors metadata", KINDS2, (place) => {
        this.by = place;
        return this.draw();
      });
      this.all = button("show all", "back to all of the disk and all of the time", () => view.show(view.whole()));
      const nodes = button(
        "list metadata blocks in view",
        "a table of the blocks of metadata that are shown",
        () => this.drawn.selection.between(this.start + view.range.low, this.start + view.range.high)
      );
      const bar = element(
        "div",
        { class: "bar" },
        ...disks.length > 1 ? [this.choose] : [],
        element("label", { class: "muted" }, "color by ", this.colours),
        nodes,
        this.all,
        this.caption
      );
      holder.append(element("h2", {}, "What is stored where"), searchField(this), this.info, bar);
      this.words = textTable("what is stored where", () => this.rows());
      const label = "cells of the stretch that the figure shows, from its first byte at the bottom left";
      this.plot = plotIn(holder, "60vh", label, () => this.react());
      holder.append(this.words.box, ...disks.map(({ selection }) => chosenTable(selection)));
      for (const { selection } of disks) selection.whenChosen(() => this.draw());
      this.choose.value = String(this.number);
      view.whenChanged(() => this.rest());
    }
    page;
    disks;
    view;
    /** Which disk is shown. */
    number = 0;
    /** What colours metadata, as a place among the kinds. */
    by = 0;
    from = 0;
    cell = 1;
    columns = 1;
    painted = new Int8Array(0);
    info = element("div", { class: "found-info", role: "status" });
    plot;
    caption = element("span", { class: "muted caption" });
    tip = new Tip();
    choose;
    colours;
    all;
    words;
    isListening = false;
    timer = 0;
    waiting = [];
    get drawn() {
      return this.disks[this.number];
    }
    get start() {
      return this.drawn.disk.start;
    }
    turnTo(place) {
      this.number = place;
      this.choose.value = String(place);
      return this.draw();
    }
    colourBy(place) {
      this.by = place;
      this.colours.value = String(place);
    }
    /** Draw when the view has come to rest: of many steps of a zoom the last one counts. */
    rest() {
      return new Promise((done) => {
        clearTimeout(this.timer);
        this.waiting.push(done);
        this.timer = window.setTimeout(async () => {
          const waiting = this.waiting.splice(0);
          await this.draw();
          for (const told of waiting) told();
        }, REST_MS);
      });
    }
    async draw() {
      this.layOut();
      this.words.refresh();
      const { low, high } = this.view.range;
      const looking = this.disks.map(({ owners, disk }) => owners.look(disk.start + low, disk.start + high));
      await redraw(this.plot);
      await Promise.all(looking);
    }
    /** Work out what the cells are. */
    layOut() {
      const { disk, pyramid } = this.drawn;
      const { low, high } = this.view.range;
      const { bytes, step } = pyramid.widthFor((high - low) / CELLS);
      this.cell = bytes;
      this.from = Math.floor(low / step) * step;
      const cells = Math.max(1, Math.ceil((high - this.from) / bytes));
      this.columns = gridOf(cells).columns;
      const roles = this.page.figure.roles.map(({ key }) => key);
      const held = pyramid.held(this.from, bytes, Math.min(cells, CELLS + MOST_COLUMNS));
      this.painted = paint(disk.classes, held, roles, bytes);
      const end = Math.min(high, disk.size);
      this.caption.textContent = `${placesText(low, Math.max(end, low + 1))} · a cell is ${bytesText(bytes)}`;
      this.all.hidden = this.view.isWhole;
    }
    async react() {
      if (!this.painted.length) this.layOut();
      const { columns, painted } = this;
      const rows = Math.ceil(painted.length / columns);
      const { roles, unit } = this.page.figure;
      const y = Array.from({ length: rows }, (_, row2) => (this.from + row2 * columns * this.cell) / unit[0]);
      const height = columns * this.cell / unit[0];
      const grid = (value) => y.map((_, row2) => Array.from({ length: columns }, (_2, column) => value(row2 * columns + column)));
      const steps2 = roles.flatMap(
        ({ key }, k) => [k / roles.length, (k + 1) / roles.length].map((at) => [at, hueOf(roles, key)])
      );
      const common = { type: "heatmap", x0: 0.5, dx: 1, y0: y[0] + height / 2, dy: height, hoverinfo: "none" };
      const z = grid((cell) => cell < painted.length && painted[cell] >= 0 ? painted[cell] + 0.5 : null);
      const scale = { zmin: 0, zmax: roles.length, colorscale: steps2, showscale: false };
      const traces = [{ ...common, z, ...scale }];
      if (this.by) traces.push({ ...common, ...this.numbers(grid) });
      traces.push(this.marked(y[0] + height / 2, height));
      const layout = plotLayout({
        xaxis: { visible: false, range: [0, columns], fixedrange: true },
        yaxis: { title: { text: `position, ${unit[1]}` }, range: [y[0], y[0] + rows * height], showgrid: false },
        margin: { l: 62, r: this.by ? 90 : 18, t: 4, b: 8 },
        hovermode: false,
        dragmode: matchMedia("(hover: none)").matches ? false : "zoom",
        width: this.plot.clientWidth
      });
      await plotly().react(this.plot, traces, layout, CONFIG);
      this.listen();
    }
    /** Cells of metadata by a number of their nodes, the highest of each cell. */
    numbers(grid) {
      const { of, title } = COLOURS[KINDS2[this.by]];
      const { nodes, places } = this.drawn.owners;
      const values = new Float64Array(this.painted.length).fill(Number.NaN);
      const from = this.start + this.from;
      for (const i of places.near(from, from + values.length * this.cell)) {
        const value = of(nodes, i);
        const [low, high] = [nodes.offset[i] - from, nodes.offset[i] + nodes.size[i] - from];
        if (value === null) continue;
        for (let c = Math.max(0, Math.floor(low / this.cell)); c < Math.min(values.length, high / this.cell); c++)
          if (!(values[c] >= value)) values[c] = value;
      }
      const isCost = KINDS2[this.by] === "cost";
      const ticks = {
        tickvals: [-6, -5, -4, -3, -2, -1, 0],
        ticktext: ["1 us", "10 us", "0.1 ms", "1 ms", "10 ms", "0.1 s", "1 s"]
      };
      const bar = { title: { text: title }, thickness: 12, outlinewidth: 0, ...isCost ? ticks : {} };
      const metadata = ["main", "other"].map((key) => this.page.figure.roles.findIndex((role) => role.key === key));
      const z = grid(
        (cell) => metadata.includes(this.painted[cell]) && !Number.isNaN(values[cell]) ? values[cell] : null
      );
      return { z, colorscale: "Viridis", reversescale: isDark(), colorbar: bar };
    }
    /** Rings around what was found, and around nodes that are chosen. */
    marked(bottom, height) {
      const { marks, selection } = this.drawn;
      const { all, nodes } = selection;
      const cells = /* @__PURE__ */ new Set();
      for (const byte of [...marks, ...nodes.map((i) => all.offset[i])]) {
        const cell = Math.floor((byte - this.start - this.from) / this.cell);
        if (cell >= 0 && cell < this.painted.length) cells.add(cell);
        if (cells.size >= MOST_MARKS) break;
      }
      const marker = { symbol: "square-open", size: 8, color: colour("--fg"), line: { width: 1.5 } };
      const x = [...cells].map((cell) => cell % this.columns + 0.5);
      const y = [...cells].map((cell) => bottom + Math.floor(cell / this.columns) * height);
      return { type: "scatter", mode: "markers", x, y, marker, hoverinfo: "none" };
    }
    listen() {
      if (this.isListening) return;
      this.isListening = true;
      const { plot, view } = this;
      plot.on("plotly_relayout", () => {
        const [low, high] = plot._fullLayout.yaxis.range.map((at) => at * this.page.figure.unit[0]);
        view.show({ low: Math.round(low), high: Math.round(high) });
      });
      plot.on("plotly_doubleclick", () => view.back());
      plot.addEventListener("pointermove", (e) => e.pointerType === "mouse" && !e.buttons && this.point(e));
      plot.addEventListener("pointerup", (e) => e.pointerType !== "mouse" && this.point(e));
      plot.addEventListener("pointerleave", () => this.tip.hide());
    }
    /** The cell under a pointer; -1 beside all of them. */
    cellAt(e) {
      const { xaxis, yaxis } = this.plot._fullLayout;
      const box = this.plot.getBoundingClientRect();
      const rows = Math.ceil(this.painted.length / this.columns);
      const column = Math.floor((e.clientX - box.left - xaxis._offset) / xaxis._length * this.columns);
      const row2 = Math.floor((1 - (e.clientY - box.top - yaxis._offset) / yaxis._length) * rows);
      const isInside = column >= 0 && column < this.columns && row2 >= 0 && row2 < rows;
      return isInside ? row2 * this.columns + column : -1;
    }
    /** Say what a cell holds, in lines. */
    lines(cell) {
      const low = this.from + cell * this.cell;
      return this.drawn.lines(low, low + this.cell);
    }
    point(e) {
      const cell = this.cellAt(e);
      if (cell < 0) this.tip.hide();
      else this.tip.show(e, this.lines(cell));
    }
    /** The stretch in equal parts, as rows. */
    rows() {
      const { disk, pyramid } = this.drawn;
      const { low, high } = this.view.range;
      const end = Math.min(high, disk.size);
      const width = (end - low) / PARTS;
      const held = pyramid.held(low, width, PARTS);
      const rows = Array.from({ length: width > 0 ? PARTS : 0 }, (_, part) => {
        const told = held.map((of, k) => ({ label: disk.classes[k].label, bytes: of[part] })).filter(({ bytes }) => bytes >= 1).sort((a, b) => b.bytes - a.bytes).map(({ label, bytes }) => `${label} ${bytesText(Math.round(bytes))} (${shareText(bytes / width)})`);
        const edges = [part, part + 1].map((n) => counted(Math.round(disk.start + low + n * width)));
        return [...edges, told.join(", ")];
      });
      const note = `What the figure shows of ${disk.title}, in ${PARTS} equal parts; it follows the zoom.`;
      return { columns: ["from byte", "to byte", "what it holds"], rows, note };
    }
  };
  function worst(disks) {
    const damage = ({ disk }) => disk.classes.reduce((sum, c) => sum + (c.role === "damaged" ? c.bytes : 0), 0);
    const seconds = ({ disk }) => disk.walks[0]?.total_s ?? 0;
    const ranked = [...disks.keys()].sort(
      (a, b) => damage(disks[b]) - damage(disks[a]) || seconds(disks[b]) - seconds(disks[a])
    );
    return ranked[0] ?? 0;
  }

  // src/turns.ts
  var pause = (milliseconds = 0) => new Promise((done) => setTimeout(done, milliseconds));

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
      const found2 = lower.indexOf(wanted, starts[from]);
      return found2 < 0 ? -1 : firstWhere(from, this.length, (i) => starts[i + 1] > found2);
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
    name(entry, lower = false) {
      const names = this.names[Math.floor(entry / this.block)];
      return lower ? names.lowerAt(entry % this.block) : names.at(entry % this.block);
    }
    pathOf(entry) {
      const { above } = this.columns;
      const parts = [];
      const passed = /* @__PURE__ */ new Set();
      let [at, topmost2] = [entry, entry];
      for (; at >= 0 && !passed.has(at) && !this.isRoot(at); at = above[at]) {
        parts.unshift(this.name(at));
        passed.add(at);
        topmost2 = at;
      }
      const lost = at < 0 ? this.lostOf(topmost2) : passed.has(at) ? "in itself" : "";
      return `${lost && `(${lost})`}/${parts.map(escaped).join("/")}`;
    }
    /** The directory that an entry lies in, of which none is named so; nothing where that is the root. */
    lostOf(entry) {
      const { above, orphan } = this.columns;
      if (!this.orphans) {
        this.orphans = /* @__PURE__ */ new Map();
        for (let i = 0; i < above.length; i++) if (above[i] < 0) this.orphans.set(i, this.orphans.size);
      }
      const number = orphan.text(this.orphans.get(entry));
      return number === String(ROOT) ? "" : `directory ${number}`;
    }
    isRoot(entry) {
      const { id, above } = this.columns;
      return above[entry] < 0 && id.low[entry] === ROOT && !id.high[entry];
    }
    file(entry) {
      const { volume, id, node } = this.columns;
      return { volume: volume[entry], id: id.text(entry), path: this.pathOf(entry), node: node[entry] };
    }
    /** Places of the nodes that hold the inodes of what lies in a directory, told by volume and number, and its own. */
    nodesOf(folder) {
      const [volume, number] = folder.split(":");
      const { volume: volumes, id, node, above, orphan } = this.columns;
      const [first, last] = within(volumes, +volume);
      const own = id.find(number, first, last);
      const isOwn = (i) => above[i] === own || id.low[i] === id.low[own] && id.high[i] === id.high[own];
      const found2 = /* @__PURE__ */ new Set();
      let orphans = 0;
      for (let i = 0; i < last; i++) {
        const isOrphan = above[i] < 0 && orphan.text(orphans++) === number;
        if (i >= first && node[i] >= 0 && (isOrphan || own >= 0 && isOwn(i))) found2.add(node[i]);
      }
      return [...found2];
    }
    /**
     * Files whose path holds a text to the end of a name, in upper or lower case, or whose number it is: the first of
     * them. Undefined where another search began before this one was done.
     */
    async find(text, most) {
      const turn = ++this.asked;
      await this.whole;
      const found2 = this.numbered(text);
      const parts = text.normalize("NFC").toLowerCase().split("/");
      const last = parts.pop();
      const next = parts.length ? this.nextIn(parts, last) : (names, from) => names.next(from, last);
      let began = performance.now();
      search: for (const [k, names] of this.names.entries())
        for (let from = 0; from < names.length; ) {
          const i = next(names, from, k * this.block);
          from = i < 0 ? names.length : i + 1;
          const entry = k * this.block + i;
          if (i >= 0 && !found2.includes(entry)) found2.push(entry);
          if (found2.length >= most) break search;
          if (performance.now() - began < SLICE_MS) continue;
          await pause();
          if (turn !== this.asked) return void 0;
          began = performance.now();
        }
      return turn === this.asked ? found2.slice(0, most).map((entry) => this.file(entry)) : void 0;
    }
    /** The entries of a number, of each volume. */
    numbered(id) {
      const { volume, id: ids } = this.columns;
      const volumes = this.total ? volume[this.total - 1] + 1 : 0;
      return Array.from({ length: volumes }, (_, number) => ids.find(id, ...within(volume, number))).filter(
        (entry) => entry >= 0
      );
    }
    /** What finds the next name that begins with a text, in a folder whose path ends with some names. */
    nextIn(parts, wanted) {
      const { above } = this.columns;
      const known2 = new Uint8Array(this.total + 1);
      return (names, from, first) => {
        for (let i = from; i < names.length; i++) {
          const folder = above[first + i];
          known2[folder + 1] ||= this.endsWith(folder, parts) ? 1 : 2;
          if (known2[folder + 1] === 1 && names.begins(i, wanted)) return i;
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
  var REST_MS2 = 60;
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
      await pause(REST_MS2);
      if (turn !== this.asked) return;
      const parts = await Promise.all(wanted.map((tile) => this.part(tile)));
      if (turn === this.asked) this.parts = parts;
      if (this.unpacked.size > 4 * NAMED_TILES) this.unpacked.clear();
    }
    async part(tile) {
      const known2 = this.unpacked.get(tile);
      if (known2) return known2;
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
        const told = files.slice(0, TOLD_FILES).map((i) => this.fileText(i));
        lines.push(`data of ${told.join(", ")}${more}`);
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
      for (const { start: start2, length, owner } of parts)
        for (let i = 0; i < start2.length; i++)
          if (start2[i] < high && start2[i] + length[i] > low) {
            if (owner[i] > 0) nodes.add(owner[i] - 1);
            else files.add(-1 - owner[i]);
          }
      return { nodes: [...nodes], files: [...files] };
    }
    /** Where all data of a file lies, in ascending order: first byte and length of each piece. */
    async extentsOf(file) {
      const found2 = [];
      const number = this.files.ownerOf(file);
      if (number < 0) return found2;
      for (const tile of this.disk.owners) {
        const { start: start2, length, owner } = await this.part(tile);
        for (let i = 0; i < start2.length; i++) if (owner[i] === -1 - number) found2.push([start2[i], length[i]]);
      }
      return found2;
    }
    fileText(i) {
      const { volume, id } = this.files.owner(i);
      const path = this.files.path(volume, id);
      const when = volume < this.disk.earlier ? "" : " as it was";
      return ofVolume(this.disk, volume) + (path === void 0 ? `file ${id}` : `file ${id} “⁨${path}⁩”`) + when;
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

  // src/pyramid.ts
  var SOME = 8;
  function runsOf(gap, more, held) {
    const [first, count, before] = Array.from({ length: 3 }, () => new Float64Array(gap.length));
    for (let i = 0, at = 0, units = 0; i < gap.length; i++) {
      at += gap[i];
      first[i] = at;
      count[i] = more[i] + 1;
      before[i] = units;
      at += count[i];
      units += count[i] * held[i];
    }
    return { first, count, held: Float64Array.from(held), before };
  }
  async function unpacked(packed) {
    const { gap, count, held } = await unpackAll(packed, ["gap", "count", "held"]);
    return runsOf(gap, count, held);
  }
  var Pyramid = class _Pyramid {
    constructor(disk, finest) {
      this.finest = finest;
      this.unit = disk.pyramid.unit;
      this.cell = disk.pyramid.cell;
      this.size = disk.size;
      this.free = disk.classes.findIndex((c) => !c.role);
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
      let step = this.cell;
      while (step * 2 * SOME <= bytes) step *= 2;
      return { step, bytes: Math.max(step, Math.ceil(bytes / step) * step) };
    }
    /**
     * Bytes of each class in each of some stretches of a width, from a byte of the disk on: exact where both are whole
     * numbers of the narrowest cells, which are taken as evenly filled elsewhere.
     */
    held(from, width, cells) {
      const [low, many] = [from / this.cell, width / this.cell];
      const shares = this.finest.map((runs) => this.heldBy(runs, low, many, cells));
      if (this.free >= 0) shares[this.free] = this.rest(shares, from, width, cells);
      return shares;
    }
    heldBy({ first, count, held, before }, low, many, cells) {
      const runs = first.length;
      let next = firstWhere(0, runs, (i) => first[i] >= low);
      const isAbsent = !(next < runs && first[next] < low + cells * many) && !(next && first[next - 1] + count[next - 1] > low);
      if (isAbsent) return this.nothing(cells);
      const out = new Float64Array(cells);
      let below = 0;
      for (let c = -1; c < cells; c++) {
        const edge = low + (c + 1) * many;
        while (next < runs && first[next] < edge) next++;
        const last = next - 1;
        const units = last < 0 ? 0 : before[last] + Math.min(edge - first[last], count[last]) * held[last];
        if (c >= 0) out[c] = (units - below) * this.unit;
        below = units;
        if (next === runs && last >= 0 && edge >= first[last] + count[last]) break;
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
      for (let c = 0; c < cells; c++) out[c] = Math.max(0, Math.min(width, this.size - from - c * width));
      shares.forEach((of, k) => {
        if (k !== this.free && of !== this.zeros) for (let c = 0; c < cells; c++) out[c] -= of[c];
      });
      return out;
    }
  };

  // src/drawn.ts
  var NONE = { time: [], place: [], length: [], role: [], tree: [], step: 1 };
  var TOLD2 = 5;
  var Drawn = class _Drawn {
    constructor(disk, pyramid, owners, selection) {
      this.disk = disk;
      this.pyramid = pyramid;
      this.owners = owners;
      this.selection = selection;
    }
    disk;
    pyramid;
    owners;
    selection;
    reads = NONE;
    /** First bytes that somebody searched for, from the start of the image. */
    marks = [];
    static async of(disk) {
      const [pyramid, owners] = await Promise.all([Pyramid.of(disk), Owners.of(disk)]);
      return new _Drawn(disk, pyramid, owners, new Selection(owners.nodes, owners.places));
    }
    /** Take the walks on a drive. */
    async choose(drive) {
      const { walks, start: start2 } = this.disk;
      const own = walks.filter((walk) => walk.drive === drive && walk.order === walks[0].order);
      const reads = { time: [], place: [], length: [], role: [], tree: [], step: 1 };
      let before = 0;
      for (const walk of own) {
        const packed = { ...walks[walk.reads_of], time: walk.time };
        const { time, offset, length, tree } = await unpackAll(packed, ["time", "offset", "length", "tree"]);
        for (let i = 0; i < time.length; i++) {
          reads.time.push(before + time[i] / walk.ticks);
          reads.place.push(offset[i] - start2);
          reads.length.push(length[i]);
          reads.role.push(walk.roles[tree[i]]);
          reads.tree.push(walk.trees[tree[i]]);
        }
        reads.step = Math.max(reads.step, walk.step);
        before += walk.total_s;
      }
      this.reads = reads;
    }
    /** What a stretch holds by role, as shares of it, in equal bins. */
    bins(low, high, count) {
      const width = (high - low) / count;
      const shares = /* @__PURE__ */ new Map();
      this.pyramid.held(low, width, count).forEach((held, k) => {
        const { role } = this.disk.classes[k];
        if (!role) return;
        const sum = shares.get(role) ?? new Float64Array(count);
        for (let i = 0; i < count; i++) sum[i] += held[i] / width;
        shares.set(role, sum);
      });
      return shares;
    }
    /** Say what lies in a stretch, in lines. */
    lines(low, high) {
      const { start: start2, size, classes } = this.disk;
      const end = Math.min(high, size);
      if (low >= end) return ["past the end of this disk"];
      const told = this.pyramid.held(low, end - low, 1).map((held, k) => ({ label: classes[k].label, bytes: held[0] })).filter(({ bytes }) => bytes >= 1).sort((a, b) => b.bytes - a.bytes).map(({ label, bytes }) => `${label} ${shareText(bytes / (end - low))}`);
      const more = told.length > TOLD2 ? [`${told.length - TOLD2} more`] : [];
      return [
        `bytes ${counted(start2 + low)} to ${counted(start2 + end)}, ${bytesText(end - low)}`,
        [...told.slice(0, TOLD2), ...more].join(" · "),
        ...this.owners.lines(start2 + low, start2 + end)
      ];
    }
    /** Say what one of the reads is. */
    readLines(i) {
      const { time, place, length, tree } = this.reads;
      const at = this.disk.start + place[i];
      const lines = [`read at ${secondsText(time[i])}: ${tree[i]}, ${bytesText(length[i])} at byte ${counted(at)}`];
      this.owners.places.some(at, at + length[i], (node) => {
        lines.push(this.owners.nodeText(node));
        return true;
      });
      return lines;
    }
  };

  // src/link.ts
  var MARK = "#v=";
  var WHOLE = ["low", "high", "drive", "disk", "by"];
  function written({ low, high, from, to, drive, disk, by }) {
    const places = [low, high].map(Math.round);
    const times = [from, to].map((time) => +time.toPrecision(9));
    return MARK + [...places, ...times, drive, disk, by].join(",");
  }
  function read(hash) {
    if (!hash.startsWith(MARK)) return null;
    const [low, high, from, to, drive, disk, by] = hash.slice(MARK.length).split(",").map(Number);
    const shown2 = { low, high, from, to, drive, disk, by };
    if (![from, to].every(Number.isFinite)) return null;
    if (!WHOLE.every((key) => Number.isInteger(shown2[key]) && shown2[key] >= 0)) return null;
    return shown2.high > shown2.low && shown2.to > shown2.from ? shown2 : null;
  }

  // src/tree.ts
  var ALONE = 0.9;
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
  function topmost(tree, totals) {
    let at = 0;
    const passed = /* @__PURE__ */ new Set();
    for (; ; ) {
      passed.add(at);
      const inside = tree.parent.flatMap((parent, i) => parent === tree.id[at] && totals[i] > 0 ? [i] : []);
      const [best] = inside.sort((a, b) => totals[b] - totals[a]);
      if (best === void 0 || passed.has(best) || totals[best] < ALONE * totals[at]) return tree.id[at];
      at = best;
    }
  }

  // src/panels.ts
  var MIB = 2 ** 20;
  var muted2 = (text) => element("p", { class: "muted" }, text);
  var placeOf = (mib) => bytesText(Math.max(0, Math.round(mib * MIB)));
  var MOST_POINTS = 4e3;
  var [SPOTS_WIDE, SPOTS_HIGH] = [240, 90];
  function orderPanel(page2, drawn, holder) {
    const { disk, selection } = drawn;
    const orders = disk.distances.key_order;
    if (!orders.length) holder.append(muted2("No tree here has leaves to compare."));
    for (const order of orders) {
      const { nodes } = disk.volumes[order.volume];
      const { all } = selection;
      const leaves = [];
      const [tree, leaf] = [all.trees.indexOf(order.tree), all.kinds.indexOf("leaf")];
      for (let i = nodes[0]; i < Math.min(nodes[1], all.offset.length); i++)
        if (all.tree[i] === tree && all.kind[i] === leaf && all.rank[i] >= 0 && all.offset[i] >= 0) leaves.push(i);
      const title = `${ofVolume(disk, order.volume)}${order.label}: ${plural(order.total, "leaf").replace("leafs", "leaves")}`;
      const left = order.total - leaves.length;
      const notes = left > 0 ? [muted2(`The page carries the positions of ${counted(leaves.length)} of them.`)] : [];
      holder.append(element("h3", {}, title), ...notes);
      const y = (i) => (all.offset[i] - disk.start) / MIB;
      const role = disk.classes.find(({ key }) => key === order.tree)?.role ?? "other";
      const shown2 = spots(leaves, (i) => all.rank[i], y);
      const plot = plotIn(holder, "260px", title, async (self) => {
        const points = (own, marker) => ({
          ...{ type: "scatter", mode: "markers", x: own.map((i) => all.rank[i]), y: own.map(y), marker },
          hovertemplate: "leaf %{x:,.0f} in key order<br>%{y:,.1f} MiB<extra></extra>"
        });
        const chosen = shown2.filter((i) => selection.isChosen[i] === 1);
        const ring = { size: 7, symbol: "circle-open", color: colour("--fg") };
        const traces = [points(shown2, { size: 4, color: hueOf(page2.figure.roles, role) }), points(chosen, ring)];
        const layout = plotLayout({
          xaxis: { title: { text: "order of keys" } },
          yaxis: { title: { text: "position, MiB" }, range: [0, Math.max(disk.used, page2.figure.span) / MIB] },
          dragmode: false
        });
        await plotly().react(self, traces, layout, CONFIG);
      });
      selection.whenChosen(() => redraw(plot));
      const note = "Equal parts of the order of keys.";
      const columns = ["order of keys", "leaves", "lowest position", "highest position"];
      holder.append(textTable(title, () => ({ columns, rows: orderRows(leaves, (i) => all.rank[i], y), note })).box);
    }
  }
  function listen(plot, event, act) {
    const own = plot;
    own.removeAllListeners(event);
    own.on(event, act);
  }
  function spots(own, x, y) {
    if (own.length <= MOST_POINTS) return own;
    const edge = (of) => own.reduce(([a, b], i) => [Math.min(a, of(i)), Math.max(b, of(i))], [Infinity, -Infinity]);
    const [[x0, x1], [y0, y1]] = [edge(x), edge(y)];
    const taken = /* @__PURE__ */ new Set();
    return own.filter((i) => {
      const column = Math.floor((x(i) - x0) / (x1 - x0 || 1) * SPOTS_WIDE);
      const spot = column * SPOTS_HIGH + Math.floor((y(i) - y0) / (y1 - y0 || 1) * SPOTS_HIGH);
      return !taken.has(spot) && taken.add(spot);
    });
  }
  var ROWS = 16;
  function orderRows(leaves, rank, y) {
    const sorted = [...leaves].sort((a, b) => rank(a) - rank(b));
    const parts = Math.min(ROWS, sorted.length);
    return Array.from({ length: parts }, (_, part) => {
      const own = sorted.slice(
        Math.round(part * sorted.length / parts),
        Math.round((part + 1) * sorted.length / parts)
      );
      const [first, last] = [rank(own[0]), rank(own[own.length - 1])];
      const places = own.map(y);
      const span = last > first ? `${counted(first)} to ${counted(last)}` : counted(first);
      return [span, counted(own.length), placeOf(Math.min(...places)), placeOf(Math.max(...places))];
    });
  }
  function historyPanel(page2, drawn, holder) {
    const h = drawn.disk.history;
    if (!h) {
      holder.append(muted2("No metadata here says when it was written, or all of it says the same."));
      return;
    }
    const title = "Transaction that wrote each block of metadata, by position";
    holder.append(element("h3", {}, drawn.disk.title));
    if (h.states.length)
      holder.append(
        muted2(`States that can be read: ${h.states.map(({ label, xid }) => `${label} (${counted(xid)})`).join(", ")}.`)
      );
    plotIn(holder, "280px", title, async (self) => {
      const trace = await density(h.picture, hueOf(page2.figure.roles, "main"));
      const axes = { xaxis: { title: { text: "position, MiB" } }, yaxis: { title: { text: "transaction" } } };
      return plotly().react(self, [trace], plotLayout(axes), CONFIG);
    });
    const columns = ["positions", "blocks", "oldest transaction", "youngest transaction"];
    const note = "Equal parts of the stretch with metadata; transactions to a step of the picture.";
    const rows = () => partsOf(h.picture, spanOf(placeOf), (xid) => counted(Math.round(xid)));
    holder.append(textTable(title, async () => ({ columns, rows: await rows(), note })).box);
  }
  async function density(picture, hue) {
    const counts = await unpack(picture.counts);
    const middles = ([low, high], n) => Array.from({ length: n }, (_, i) => low + (i + 0.5) * (high - low) / n);
    const row2 = (r) => Array.from(counts.subarray(r * picture.columns, (r + 1) * picture.columns), (n) => n ? 1 + Math.log10(n) : null);
    return {
      ...{ type: "heatmap", x: middles(picture.x, picture.columns), y: middles(picture.y, picture.rows) },
      z: Array.from({ length: picture.rows }, (_, r) => row2(r)),
      ...{ zmin: 0, showscale: false, hoverongaps: false },
      colorscale: [
        [0, colour("--line")],
        [1, hue]
      ],
      hovertemplate: "%{x:,.1f} MiB<br>transaction %{y:,.0f}<extra></extra>"
    };
  }
  function powersOf(page2) {
    const all = page2.disks.flatMap(({ distances: { seek, to_data } }) => [seek, to_data]).filter((h) => h?.counts.length);
    const lows = all.map((h) => h.first_power);
    const highs = all.map((h) => h.first_power + h.counts.length);
    return all.length ? [Math.min(...lows), Math.max(...highs)] : [0, 0];
  }
  async function distancePanel(page2, drawn, holder) {
    const { disk, selection } = drawn;
    const { seek, to_data } = disk.distances;
    const [walk] = disk.walks;
    if (!seek?.total && !to_data.total)
      holder.append(muted2("Nothing here has a distance: no walk, and no file with data."));
    if (seek?.total && walk) {
      const reads = await unpackAll(walk, ["offset"]);
      const bins = await unpack(seek.reads);
      const title = `From the end of one read to the start of the next${walk.name ? `: ${walk.name}` : ""}`;
      histogram(
        page2,
        holder,
        title,
        "reads",
        seek,
        (bin, words) => selection.at(
          Array.from(reads.offset).filter((_, i) => bins[i] === bin),
          `read ${words} from the read before`
        )
      );
    }
    if (to_data.total) {
      const { node, bin: bins } = await unpackAll(to_data, ["node", "bin"]);
      histogram(
        page2,
        holder,
        "From a file's inode to its first data",
        "files",
        to_data,
        (bin, words) => selection.choose(
          [...new Set(Array.from(node).filter((_, i) => bins[i] === bin))],
          `with inodes ${words} from their data`
        )
      );
    }
  }
  function histogram(page2, holder, title, unit, h, choose) {
    const [low, high] = powersOf(page2);
    const before = Array.from({ length: Math.max(0, h.first_power - low) }, () => 0);
    const counts = h.counts.length ? [...before, ...h.counts] : [];
    const all = [h.touching, ...counts, ...Array.from({ length: Math.max(0, high - low - counts.length) }, () => 0)];
    const names = ["0 B", ...all.slice(1).map((_, i) => bytesText(2 ** (low + i)))];
    const words = (bin) => bin ? `${names[bin]} to ${bytesText(2 ** (low + bin))}` : "nothing";
    holder.append(element("h3", {}, title));
    plotIn(holder, "220px", title, async (self) => {
      const layout = plotLayout({
        xaxis: {
          title: { text: "distance, powers of two" },
          type: "category",
          nticks: 9,
          tickangle: 0,
          fixedrange: true
        },
        yaxis: { title: { text: unit }, fixedrange: true }
      });
      const hovertemplate = `%{x} and up to twice as much: %{y:,} ${unit}<extra></extra>`;
      const marker = { color: hueOf(page2.figure.roles, "main") };
      await plotly().react(self, [{ type: "bar", x: names, y: all, marker, hovertemplate }], layout, CONFIG);
      listen(self, "plotly_click", ({ points: [bar] }) => {
        const own = bar.pointNumber ? bar.pointNumber - before.length : 0;
        if (bar) choose(own, words(bar.pointNumber));
      });
    });
    const rows = all.flatMap((count, bin) => count ? [[words(bin), counted(count)]] : []);
    holder.append(textTable(title, () => ({ columns: ["distance", unit], rows })).box);
  }
  var MOST_ROWS = 20;
  var UNITS2 = ["seconds", "entries", "bytes"];
  var TEXTS = { seconds: secondsText, entries: counted, bytes: bytesText };
  function directoryPanel(page2, drawn, holder) {
    const d = drawn.disk.directories;
    holder.hidden = !d;
    if (!d) return;
    let unit = "seconds";
    const choose = list(
      "what the boxes measure",
      UNITS2.map((one) => `by ${one}`),
      (place) => {
        unit = UNITS2[place];
        words.refresh();
        return redraw(plot);
      }
    );
    const all = `${counted(d.total)} directories`;
    const note = d.shown < d.total ? `the ${counted(d.shown)} most expensive of ${all}, the others in one box` : all;
    holder.append(
      element("h3", {}, drawn.disk.title),
      element("div", { class: "bar" }, choose, element("span", { class: "muted" }, note))
    );
    const plot = plotIn(holder, "420px", `directories of ${drawn.disk.title}`, async (self) => {
      const layout = plotLayout({ margin: { l: 4, r: 4, t: 4, b: 4 } });
      await plotly().react(self, [treemap(d, unit, hueOf(page2.figure.roles, "main"))], layout, CONFIG);
      listen(self, "plotly_treemapclick", ({ points: [box] }) => {
        const nodes = drawn.owners.files.nodesOf(box.id);
        if (nodes.length) drawn.selection.choose(nodes, `with the entries of “${box.label}”`);
      });
    });
    const words = textTable(`directories of ${drawn.disk.title}`, () => directoryRows(d, unit));
    holder.append(words.box);
  }
  function directoryRows(d, unit) {
    const text = TEXTS[unit];
    const tree = withOthers(d, unit);
    const totals = subtreeTotals(tree);
    const places = new Map(tree.id.map((id, i) => [id, i]));
    const above = (i) => tree.name[places.get(tree.parent[i]) ?? -1] ?? "";
    const ranked = [...totals.keys()].sort((a, b) => totals[b] - totals[a]);
    const rows = ranked.slice(0, MOST_ROWS).map((i) => [tree.name[i], above(i), text(totals[i]), text(tree.own[i])]);
    const left = ranked.length - rows.length;
    const note = left > 0 ? `The ${MOST_ROWS} largest; ${plural(left, "more box").replace("boxs", "boxes")} on the plot.` : "";
    return { columns: ["directory", "in", `${unit} in all`, "in itself"], rows, note };
  }
  function treemap(d, unit, hue) {
    const text = TEXTS[unit];
    const tree = withOthers(d, unit);
    const totals = subtreeTotals(tree);
    return {
      ...{ type: "treemap", ids: tree.id, labels: tree.name.map(plain), values: totals, branchvalues: "total" },
      parents: tree.parent.map((parent) => parent ?? ""),
      level: topmost(tree, totals),
      text: totals.map(text),
      customdata: tree.own.map(text),
      textinfo: "label+text",
      hovertemplate: "%{label}<br>%{text} in all, %{customdata} in itself<extra></extra>",
      ...{ maxdepth: 4, tiling: { pad: 2 }, root: { color: "rgba(0,0,0,0)" } },
      marker: {
        colors: tree.own,
        colorscale: [
          [0, isDark() ? "#20262e" : "#eef1f5"],
          [1, hue]
        ],
        line: { width: 1, color: colour("--bg") }
      }
    };
  }

  // src/view.ts
  var LEAST_SECONDS = 1e-3;
  function within2(low, high, least, most) {
    const wide = Math.min(most, Math.max(least, high - low));
    const middle = (low + high) / 2;
    const start2 = wide === high - low ? low : middle - wide / 2;
    const from = Math.min(Math.max(0, start2), most - wide);
    return [from, from + wide];
  }
  function possible(range, { most, least, seconds }) {
    const [low, high] = within2(range.low, range.high, Math.min(least, most), most);
    const [from, to] = within2(range.from, range.to, Math.min(LEAST_SECONDS, seconds), seconds);
    return { low, high, from, to };
  }
  function zoomed(range, factor, at, { most, least }) {
    const wide = range.high - range.low;
    const limited = Math.min(most, Math.max(Math.min(least, most), wide * factor));
    const share = limited / wide;
    if (Math.abs(share - 1) < 1e-9) return range;
    return { ...range, low: at - (at - range.low) * share, high: at + (range.high - at) * share };
  }
  var View = class {
    constructor(range, whole, limits) {
      this.range = range;
      this.whole = whole;
      this.limits = limits;
    }
    range;
    whole;
    limits;
    drive = 0;
    /** What was asked for last is shown. */
    done = Promise.resolve();
    turn = 0;
    earlier = [];
    listeners = [];
    whenChanged(listener) {
      this.listeners.push(listener);
    }
    /** Tell one after the other, between which the page draws; the rest hear nothing where another change came. */
    async changed() {
      const turn = ++this.turn;
      for (const listener of this.listeners) {
        await listener();
        await pause();
        if (turn !== this.turn) return this.done;
      }
      return void 0;
    }
    get isWhole() {
      const whole = this.whole();
      return ["low", "high", "from", "to"].every((key) => whole[key] === this.range[key]);
    }
    /** Show a stretch; silently where it is one of many steps of a movement. */
    show(range, silent = false) {
      const next = possible({ ...this.range, ...range }, this.limits());
      const { low, high, from, to } = this.range;
      if (next.low === low && next.high === high && next.from === from && next.to === to) return Promise.resolve();
      if (!silent) this.remember();
      this.range = next;
      this.done = this.changed();
      return this.done;
    }
    remember() {
      this.earlier.push({ ...this.range });
    }
    zoom(factor, at = (this.range.low + this.range.high) / 2, silent = false) {
      return this.show(zoomed(this.range, factor, at, this.limits()), silent);
    }
    move(share) {
      const by = share * (this.range.high - this.range.low);
      return this.show({ low: this.range.low + by, high: this.range.high + by });
    }
    back() {
      const range = this.earlier.pop() ?? this.whole();
      return this.show(range, true);
    }
  };

  // src/page.ts
  var LEAST_CELLS = 64;
  var byId = (id) => document.getElementById(id);
  function whenOpened(anchor, draw) {
    const folded = byId(anchor)?.querySelector("details");
    if (!folded) return;
    folded.addEventListener("toggle", async () => {
      if (!folded.open || folded.dataset.filled) return;
      folded.dataset.filled = "yes";
      await Promise.all([...folded.querySelectorAll(".card")].map(draw));
    });
  }
  function driveList({ drives }, view, disks) {
    const choose = async (place) => {
      view.drive = place;
      const { headline, why, drive } = drives[place];
      document.querySelector("h1").textContent = headline;
      byId("why").textContent = why;
      await Promise.all(disks.map((drawn) => drawn.choose(drive)));
      const { from, to } = view.whole();
      view.range = { ...view.range, from, to };
      box.value = String(place);
      byId("figure").classList.toggle("other", place > 0);
      return view.changed();
    };
    const names = drives.map(({ drive }) => drive);
    const box = list("drive", names, choose);
    const held = byId("drive");
    if (names.length > 1) held?.replaceChildren(box);
    return choose;
  }
  async function start(page2) {
    const disks = await Promise.all(page2.disks.map((disk) => Drawn.of(disk)));
    const [first] = page2.drives;
    if (first) await Promise.all(disks.map((drawn) => drawn.choose(first.drive)));
    const seconds = () => 1.02 * (page2.drives[view.drive]?.seconds || 1);
    const whole = () => ({ low: 0, high: page2.figure.span, from: 0, to: seconds() });
    const limits = () => ({
      most: Math.max(page2.figure.span, ...page2.disks.map(({ size }) => size)),
      least: LEAST_CELLS * Math.min(...disks.map(({ pyramid }) => pyramid.cell)),
      seconds: seconds()
    });
    const view = new View(
      { low: 0, high: page2.figure.span, from: 0, to: 1.02 * (first?.seconds || 1) },
      whole,
      limits
    );
    const holder = byId("figure");
    const figure = new Figure(page2, disks, view, holder);
    await figure.start();
    holder.classList.add("alive");
    performance.mark("figure");
    const detail = new Detail(page2, disks, view, byId("map"));
    const choose = driveList(page2, view, disks);
    for (const [anchor, draw] of Object.entries({
      directories: directoryPanel,
      history: historyPanel,
      distances: distancePanel,
      order: orderPanel
    }))
      whenOpened(anchor, (card, i) => draw(page2, disks[i], card));
    window.layoutscope = { page: page2, figure, detail, view };
    byId("map").append(tools(figure, view, detail));
    await followAddress(view, detail, choose);
    colours(view);
    await detail.draw();
    document.documentElement.dataset.ready = "yes";
    performance.mark("ready");
  }
  function tools(figure, view, detail) {
    const told = element("span", { class: "muted", role: "status" });
    const link = () => location.href.split("#")[0] + written(shown(view, detail));
    const copy = async () => {
      const isCopied = await navigator.clipboard.writeText(link()).then(
        () => true,
        () => false
      );
      told.textContent = isCopied ? "copied" : link();
    };
    const ways = WAYS.map(
      ([want, way]) => element("tr", {}, element("th", { scope: "row" }, want), element("td", {}, way))
    );
    const help = element(
      "details",
      { class: "help" },
      element("summary", {}, "Keyboard and mouse ( ? )"),
      element("table", {}, element("tbody", {}, ...ways))
    );
    document.addEventListener("keydown", (e) => {
      if (e.key === "?" && !(e.target instanceof HTMLInputElement)) help.open = !help.open;
    });
    const links = location.protocol === "about:" ? [] : [button("copy link", "copy the address of what is shown now", copy), told];
    return element(
      "div",
      { class: "bar tools" },
      button("save picture", "keep the figure as SVG", () => figure.keep()),
      ...links,
      help
    );
  }
  var WAYS = [
    ["see what is at a place", "point at it, or tap it"],
    ["zoom in", "drag over a stretch of disk, of time, or of both; Ctrl or Cmd and the wheel, or a pinch; + and −"],
    ["move", "arrow up, arrow down"],
    ["go back", "double click, Backspace"],
    ["see everything", "0"],
    ["find a path, a file by its number, or a byte", "/"]
  ];
  var shown = (view, detail) => ({
    ...view.range,
    drive: view.drive,
    disk: detail.number,
    by: detail.by
  });
  async function followAddress(view, detail, choose) {
    const { page: page2 } = window.layoutscope;
    const go = async () => {
      const asked = read(location.hash);
      if (asked) {
        detail.colourBy(Math.min(asked.by, 4));
        detail.number = Math.min(asked.disk, page2.disks.length - 1);
        if (asked.drive !== view.drive && page2.drives[asked.drive]) await choose(asked.drive);
        await detail.turnTo(detail.number);
        return view.show(asked);
      }
      const part = location.hash.length > 1 && byId(location.hash.slice(1));
      if (!part) return;
      for (const folded of part.querySelectorAll(":scope > details")) folded.open = true;
      for (const wait of [0, 300]) setTimeout(() => part.scrollIntoView(), wait);
    };
    addEventListener("hashchange", go);
    let timer = 0;
    if (location.protocol !== "about:")
      view.whenChanged(() => {
        clearTimeout(timer);
        timer = window.setTimeout(() => history.replaceState(null, "", written(shown(view, detail))), 300);
      });
    await go();
  }
  function colours(view) {
    const again = () => {
      forgetColours();
      return Promise.all([view.changed(), redrawAll()]);
    };
    byId("theme").addEventListener("click", () => {
      document.documentElement.dataset.theme = isDark() ? "light" : "dark";
      return again();
    });
    for (const what of ["(prefers-color-scheme: dark)", "(forced-colors: active)"])
      matchMedia(what).addEventListener("change", again);
    let wide = innerWidth;
    addEventListener("resize", () => {
      if (innerWidth === wide) return;
      wide = innerWidth;
      return again();
    });
  }
  var page = JSON.parse(byId("payload").textContent);
  unfold(page).then(() => start(page));
})();
