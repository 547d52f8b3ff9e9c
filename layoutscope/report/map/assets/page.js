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
  var byId = (id) => document.getElementById(id);
  function list(title, names, choose) {
    const options = names.map((name, place) => element("option", { value: place }, name));
    const box = element("select", { title }, ...options);
    box.addEventListener("change", () => choose(+box.value));
    return box;
  }
  function button(text, title, press) {
    return element("button", { type: "button", title, onclick: press }, text);
  }
  function save(blob, name) {
    const href = URL.createObjectURL(blob);
    element("a", { href, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(href), 1e3);
  }
  function table({ columns, rows }, title = "") {
    const head = element("tr", {}, ...columns.map((name) => element("th", { scope: "col" }, name)));
    const body = rows.map((cells) => element("tr", {}, ...cells.map((cell) => element("td", {}, cell))));
    const caption = title ? [element("caption", {}, title)] : [];
    return element("table", {}, ...caption, element("thead", {}, head), element("tbody", {}, ...body));
  }
  function textTable(title, rows) {
    const place = element("div", { class: "rows" });
    const box = element("details", { class: "told" }, element("summary", {}, `Show as table: ${title}`), place);
    const refresh = () => box.open && place.replaceChildren(table(rows(), title));
    box.addEventListener("toggle", refresh);
    return { box, refresh };
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
  var isTouch = () => matchMedia("(hover: none)").matches;
  var known = /* @__PURE__ */ new Map();
  function color(name) {
    const before = known.get(name);
    if (before) return before;
    const probe = element("span", {});
    probe.style.cssText = `color: var(--${name}); forced-color-adjust: none; display: none`;
    document.body.append(probe);
    const found2 = getComputedStyle(probe).color;
    probe.remove();
    known.set(name, found2);
    return found2;
  }
  function themed(trace) {
    const role = trace.meta?.role;
    if (!role) return trace;
    const hue = color(String(role));
    const marker = trace.marker;
    const scale = [
      [0, color("line")],
      [1, hue]
    ];
    const shades = { colorscale: scale, line: { width: 1, color: color("bg") } };
    return {
      ...trace,
      ...marker && { marker: { ...marker, ...marker.colors ? shades : { color: hue } } },
      ...trace.line ? { line: { ...trace.line, color: hue } } : {},
      ...trace.fill ? { fillcolor: hue } : {}
    };
  }
  function plotLayout(extra) {
    const [fg, line] = [color("fg"), color("line")];
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 64, r: 12, t: 8, b: 44 },
      hovermode: "closest",
      hoverlabel: { bgcolor: color("panel"), bordercolor: line, font: { color: fg } },
      showlegend: false,
      ...extra,
      font: { color: fg, size: 12, family: "system-ui, sans-serif" }
    };
    const axis = { gridcolor: line, zeroline: false, linecolor: line };
    for (const key of Object.keys(layout))
      if (/^[xy]axis/.test(key)) layout[key] = { ...axis, ...layout[key] };
    layout.dragmode = isTouch() ? false : "zoom";
    layout.shapes = (layout.shapes ?? []).map((shape) => ({ ...shape, line: { width: 1.5, color: fg } }));
    return layout;
  }
  var seen = /* @__PURE__ */ new Map();
  function plotIn(holder, height, label, draw, listen = () => {
  }) {
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
        go().then(() => listen(plot));
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
  function followTheme(draw) {
    const again = () => {
      known.clear();
      return Promise.all([draw(), ...[...seen.values()].map((one) => one())]);
    };
    const isDark = matchMedia("(prefers-color-scheme: dark)");
    byId("theme").addEventListener("click", () => {
      const { dataset: dataset2 } = document.documentElement;
      dataset2.theme = (dataset2.theme || (isDark.matches ? "dark" : "light")) === "dark" ? "light" : "dark";
      return again();
    });
    for (const media of [isDark, matchMedia("(forced-colors: active)")]) media.addEventListener("change", again);
    const { classList, dataset } = document.documentElement;
    let theme;
    const print = (isPrinted) => () => {
      if (isPrinted) theme = dataset.theme;
      dataset.theme = isPrinted ? "light" : theme ?? "";
      classList.toggle("printed", isPrinted);
      return again();
    };
    addEventListener("beforeprint", print(true));
    addEventListener("afterprint", print(false));
    let wide = innerWidth;
    addEventListener("resize", () => {
      if (innerWidth === wide) return;
      wide = innerWidth;
      return again();
    });
  }

  // src/payload.ts
  function ofVolume({ volumes }, place) {
    const name = volumes[place]?.name;
    return name ? `${name}: ` : "";
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

  // src/selection.ts
  var SHOWN = 12;
  var Selection = class {
    constructor(all) {
      this.all = all;
    }
    all;
    /** Places in the disk's nodes. */
    nodes = [];
    about = "";
    listeners = [];
    choose(nodes, about = "") {
      this.nodes = nodes;
      this.about = about;
      for (const listener of this.listeners) listener();
    }
    /** Choose the nodes that overlap a stretch of disk. */
    between(low, high) {
      const { offset, size } = this.all;
      const nodes = [...offset.keys()].filter((i) => offset[i] < high && offset[i] + size[i] > low);
      this.choose(nodes, `between bytes ${counted(low)} and ${counted(high)}`);
    }
    whenChosen(listener) {
      this.listeners.push(listener);
    }
    title() {
      const bytes = this.nodes.reduce((sum, i) => sum + this.all.size[i], 0);
      return this.nodes.length ? `${plural(this.nodes.length, "node")} ${this.about}, ${bytesText(bytes)}` : "";
    }
  };
  function chosenTable(selection) {
    const box = element("div", { class: "chosen", role: "status" });
    selection.whenChosen(() => box.replaceChildren(...selection.nodes.length ? content(selection) : []));
    return box;
  }
  function content(selection) {
    const { nodes, all } = selection;
    const text = () => csv(selection);
    const keep = () => save(new Blob([text()], { type: "text/csv" }), "nodes.csv");
    const bar = element(
      "div",
      { class: "bar" },
      element("b", {}, selection.title()),
      button("copy", "copy the table as CSV", () => navigator.clipboard.writeText(text())),
      button("save as CSV", "keep the table as a file", keep),
      button("clear selection", "list none of them", () => selection.choose([]))
    );
    const shown2 = table({ columns: COLUMNS, rows: nodes.slice(0, SHOWN).map((i) => row(all, i)) });
    const left = nodes.length - SHOWN;
    return [bar, shown2, ...left > 0 ? [element("p", { class: "muted" }, `and ${counted(left)} more`)] : []];
  }
  var COLUMNS = [
    ...["tree", "kind", "node", "byte", "size", "level", "records", "xid", "fill %", "ms to read"],
    ...["first key", "last key", "condition"]
  ];
  function row(n, i) {
    return [
      n.trees[n.tree[i]],
      n.kinds[n.kind[i]],
      n.id.text(i),
      String(n.offset[i]),
      String(n.size[i]),
      n.level[i] === 255 ? "" : String(n.level[i]),
      String(n.records[i]),
      n.xid[i] ? String(n.xid[i]) : "",
      n.fill[i] === 255 ? "" : String(n.fill[i]),
      n.cost[i] ? String(n.cost[i] / 1e3) : "",
      n.first.text(i),
      n.last.text(i),
      n.conditions[n.condition[i]]
    ];
  }
  function csv({ all, nodes }) {
    return [COLUMNS, ...nodes.map((i) => row(all, i))].map((cells) => `${cells.join(",")}\r
`).join("");
  }

  // src/tipbox.ts
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
    /** Show what is where a mouse points, or a finger taps. */
    follow(plot, point) {
      plot.addEventListener("pointermove", (e) => e.pointerType === "mouse" && !e.buttons && point(e));
      plot.addEventListener("pointerup", (e) => e.pointerType !== "mouse" && point(e));
      plot.addEventListener("pointerleave", (e) => e.pointerType === "mouse" && this.hide());
    }
    hide() {
      this.box.hidden = true;
    }
  };

  // src/turns.ts
  var pause = (milliseconds = 0) => new Promise((done) => setTimeout(done, milliseconds));

  // src/detail.ts
  var CELLS = MOST_COLUMNS * 64;
  var MOST_MARKS = 1500;
  var REST_MS = 90;
  var PARTS = 16;
  var Detail = class {
    constructor(page, disks, view, holder) {
      this.page = page;
      this.disks = disks;
      this.view = view;
      this.number = worst(disks);
      const titles = disks.map(({ disk }) => disk.title);
      this.choose = list("disk", titles, (place) => this.turnTo(place));
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
        nodes,
        this.all,
        this.caption
      );
      holder.append(element("h2", {}, "What is stored where"), searchField(this), this.info, bar);
      this.words = textTable("what is stored where", () => this.rows());
      const label = "cells of the stretch that the figure shows, from its first byte at the bottom left";
      this.plot = plotIn(
        holder,
        "60vh",
        label,
        () => this.react(),
        () => this.listen()
      );
      this.tip.follow(this.plot, (e) => this.point(e));
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
    from = 0;
    cell = 1;
    columns = 1;
    painted = new Int8Array(0);
    info = element("div", { class: "found-info", role: "status" });
    plot;
    caption = element("span", { class: "muted caption" });
    tip = new Tip();
    choose;
    all;
    words;
    turn = 0;
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
    /** Draw when the view has come to rest: of many steps of a zoom the last one counts. */
    async rest() {
      const turn = ++this.turn;
      await pause(REST_MS);
      if (turn === this.turn) await this.draw();
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
      const { roles } = this.page.figure;
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
      const height = columns * this.cell / unit[0];
      const bottom = this.from / unit[0];
      const z = Array.from(
        { length: rows },
        (_, row2) => Array.from(painted.subarray(row2 * columns, (row2 + 1) * columns), (role) => role < 0 ? null : role + 0.5)
      );
      const steps2 = roles.flatMap((key, k) => [k, k + 1].map((at) => [at / roles.length, color(key)]));
      const cells = {
        ...{ type: "heatmap", x0: 0.5, dx: 1, y0: bottom + height / 2, dy: height, hoverinfo: "none" },
        ...{ z, zmin: 0, zmax: roles.length, colorscale: steps2, showscale: false }
      };
      const layout = plotLayout({
        xaxis: { visible: false, range: [0, columns], fixedrange: true },
        yaxis: { title: { text: `position, ${unit[1]}` }, range: [bottom, bottom + rows * height], showgrid: false },
        margin: { l: 62, r: 18, t: 4, b: 8 },
        hovermode: false,
        width: this.plot.clientWidth
      });
      await plotly().react(this.plot, [cells, this.marked(bottom + height / 2, height)], layout, CONFIG);
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
      const marker = { symbol: "square-open", size: 8, color: color("fg"), line: { width: 1.5 } };
      const x = [...cells].map((cell) => cell % this.columns + 0.5);
      const y = [...cells].map((cell) => bottom + Math.floor(cell / this.columns) * height);
      return { type: "scatter", mode: "markers", x, y, marker, hoverinfo: "none" };
    }
    /** Hear what Plotly says: it forgets who listens when a plot is taken away. */
    listen() {
      const { plot, view } = this;
      plot.on("plotly_relayout", () => {
        const [low, high] = plot._fullLayout.yaxis.range.map((at) => at * this.page.figure.unit[0]);
        view.show({ low: Math.round(low), high: Math.round(high) });
      });
      plot.on("plotly_doubleclick", () => view.back());
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
      return { columns: ["from byte", "to byte", "what it holds"], rows };
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

  // src/unpack.ts
  var KINDS = {
    u1: Uint8Array,
    u2: Uint16Array,
    u4: Uint32Array,
    i4: Int32Array,
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
  var COLUMNS2 = ["tree", "kind", "condition", "level", "offset", "size", "records", "xid", "fill", "cost"];
  async function nodesOf(packed) {
    const columns = await unpackAll(packed, COLUMNS2);
    const { trees, classes, kinds, conditions, total } = packed;
    const [id, first, last] = await Promise.all([packed.id, packed.first, packed.last].map(idsOf));
    const { change, other } = packed;
    const moves = change && other ? await unpackAll({ change, other }, ["change", "other"]) : null;
    return { ...columns, moves, trees, classes, kinds, conditions, total, id, first, last };
  }

  // src/files.ts
  var ROOT = 2;
  var ZERO = "\0";
  var SLICE_MS = 8;
  var lower = (text) => text.normalize("NFC").toLowerCase();
  var Names = class {
    constructor(text) {
      this.text = text;
      this.lower = lower(text);
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
    /** The next name from one on that holds a text; -1: none does. */
    next(from, wanted) {
      if (from >= this.length) return -1;
      const { lower: lower2, lowerStarts: starts } = this;
      const found2 = lower2.indexOf(wanted, starts[from]);
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
    name(entry) {
      return this.names[Math.floor(entry / this.block)].at(entry % this.block);
    }
    pathOf(entry) {
      const { above } = this.columns;
      const parts = [];
      const passed = /* @__PURE__ */ new Set();
      let [at, topmost] = [entry, entry];
      for (; at >= 0 && !passed.has(at) && !this.isRoot(at); at = above[at]) {
        parts.unshift(this.name(at));
        passed.add(at);
        topmost = at;
      }
      const lost = at < 0 ? this.lostOf(topmost) : passed.has(at) ? "in itself" : "";
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
    /**
     * Files whose path holds a text to the end of a name, in upper or lower case, or whose number it is: the first of
     * them. Undefined where another search began before this one was done.
     */
    async find(text, most) {
      const turn = ++this.asked;
      await this.whole;
      const found2 = this.numbered(text);
      const wanted = lower(text);
      const cut2 = wanted.lastIndexOf("/");
      const [folder, last] = [wanted.slice(0, Math.max(0, cut2)), wanted.slice(cut2 + 1)];
      const isIn = (names, i, entry) => {
        if (cut2 < 0) return true;
        const path = names.begins(i, last) ? lower(this.pathOf(entry)) : "";
        const above = path.slice(0, path.lastIndexOf("/"));
        return path !== "" && (wanted.startsWith("/") ? above === folder : above.endsWith(folder));
      };
      let began = performance.now();
      search: for (const [k, names] of this.names.entries())
        for (let from = 0; from < names.length; ) {
          const i = names.next(from, last);
          from = i < 0 ? names.length : i + 1;
          const entry = k * this.block + i;
          if (i >= 0 && !found2.includes(entry) && isIn(names, i, entry)) found2.push(entry);
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
    }
    disk;
    nodes;
    files;
    unpacked = /* @__PURE__ */ new Map();
    parts = null;
    isWide = true;
    asked = 0;
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
    /** Free space has no runs: it is what the others leave of a cell. */
    rest(shares, from, width, cells) {
      const out = new Float64Array(cells);
      for (let c = 0; c < cells; c++) out[c] = Math.max(0, Math.min(width, this.size - from - c * width));
      shares.forEach((of, k) => {
        if (k !== this.free) for (let c = 0; c < cells; c++) out[c] -= of[c];
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
      return new _Drawn(disk, pyramid, owners, new Selection(owners.nodes));
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
      const { start: start2, size, classes, damage } = this.disk;
      const end = Math.min(high, size);
      if (low >= end) return ["past the end of this disk"];
      const told = this.pyramid.held(low, end - low, 1).map((held, k) => ({ label: classes[k].label, bytes: held[0] })).filter(({ bytes }) => bytes >= 1).sort((a, b) => b.bytes - a.bytes).map(({ label, bytes }) => `${label} ${shareText(bytes / (end - low))}`);
      const more = told.length > TOLD2 ? [`${told.length - TOLD2} more`] : [];
      return [
        `bytes ${counted(start2 + low)} to ${counted(start2 + end)}, ${bytesText(end - low)}`,
        [...told.slice(0, TOLD2), ...more].join(" · "),
        ...damage.filter(({ at }) => at >= start2 + low && at < start2 + end).map(({ text }) => text),
        ...this.owners.lines(start2 + low, start2 + end)
      ];
    }
    /** Say what one of the reads is. */
    readLines(i) {
      const { time, place, length, tree } = this.reads;
      const at = this.disk.start + place[i];
      const { offset, size } = this.owners.nodes;
      const node = offset.findIndex((from, k) => from < at + length[i] && from + size[k] > at);
      const lines = [`read at ${secondsText(time[i])}: ${tree[i]}, ${bytesText(length[i])} at byte ${counted(at)}`];
      if (node >= 0) lines.push(this.owners.nodeText(node));
      return lines;
    }
  };

  // src/figure.ts
  var NEAR = 9;
  var TURN = 200;
  var LABEL_TURNS = 0.38;
  var LETTER = 6.6;
  var Figure = class {
    constructor(page, disks, view, holder) {
      this.page = page;
      this.disks = disks;
      this.view = view;
      this.made = { ...page.figure, data: [...page.figure.data, ...disks.flatMap((_, i) => found(page.figure, i))] };
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
    plot;
    made;
    tip = new Tip();
    turned = 1;
    fingers = /* @__PURE__ */ new Map();
    /** Draw, and listen once there is something to listen to. */
    async start() {
      await this.draw();
      const { plot, view } = this;
      plot.on("plotly_relayout", () => this.dragged());
      plot.on("plotly_doubleclick", () => view.back());
      plot.addEventListener("wheel", (e) => this.wheel(e), { passive: false, capture: true });
      for (const type of ["pointerdown", "pointermove", "pointerup", "pointercancel"])
        plot.addEventListener(type, (e) => this.pinch(e));
      plot.addEventListener("keydown", (e) => this.press(e));
      this.tip.follow(plot, (e) => this.point(e));
    }
    async draw() {
      this.tip.hide();
      const { range } = this.view;
      const [unit] = this.made.unit;
      const filled = this.disks.map((drawn) => this.values(drawn, range));
      const data = this.made.data.map((trace) => {
        const { disk, part, role } = trace.meta;
        const values = filled[disk](part, role, unit);
        if (part === "marks") values.x = values.y.map(() => this.leftOf(String(trace.xaxis)) / 2);
        return { ...themed(trace), ...values };
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
    layout() {
      const [unit] = this.made.unit;
      const { low, high, from, to } = this.view.range;
      const { ends: ends2 } = this.page.drives[this.view.drive] ?? { ends: [] };
      const width = this.plot.clientWidth;
      const isNarrow = width < NARROW;
      const layout = { ...this.made.layout, width };
      for (const key of Object.keys(layout)) {
        const axis = layout[key];
        if (key.startsWith("yaxis")) layout[key] = { ...axis, range: [low / unit, high / unit] };
        else if (/^xaxis\d*[02468]$/.test(key))
          layout[key] = { ...axis, range: [from, to], ...timeTicks(this.made.times, [from, to], isNarrow, !!axis.title) };
        else if (key.startsWith("xaxis") && isNarrow) layout[key] = { ...axis, tickvals: [0], title: { text: "" } };
      }
      const most = Math.floor((width - 70) / LETTER);
      const captions = this.made.layout.annotations.filter(({ name }) => name === "caption");
      const labels = ends2.map(({ label }) => {
        const x = Math.min(Math.max(Number(label.x), from), to);
        return { ...label, x, xanchor: (x - from) / (to - from) > LABEL_TURNS ? "right" : "left" };
      });
      layout.annotations = [...captions.map((one) => ({ ...one, text: cut(String(one.text), most) })), ...labels];
      layout.shapes = ends2.map(({ shape }) => shape);
      return plotLayout(layout);
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
      this.zoomSoon(2 ** (e.deltaY / TURN), e);
    }
    /** Two fingers zoom around the last of them that moved. */
    pinch(e) {
      if (e.pointerType !== "touch") return;
      const { fingers } = this;
      const apart = () => {
        const [one, other] = [...fingers.values()];
        return one && other ? Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) : 0;
      };
      const before = apart();
      if (/up|cancel/.test(e.type)) fingers.delete(e.pointerId);
      else if (e.type === "pointerdown" || fingers.has(e.pointerId)) fingers.set(e.pointerId, e);
      if (before && apart()) this.zoomSoon(before / apart(), e);
    }
    /** Zoom with the next picture: events come faster. */
    zoomSoon(factor, e) {
      const at = this.place(e)?.byte;
      const isFirst = this.turned === 1;
      this.turned *= factor;
      if (!isFirst) return;
      requestAnimationFrame(() => {
        const all = this.turned;
        this.turned = 1;
        this.view.zoom(all, at);
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
    return [{ type: "scatter", mode: "markers", meta: { disk, part: "found", role: "fg" }, marker, ...on }];
  }
  function ends(seen2) {
    return seen2.length ? [Math.max(0, seen2[0] - 1), seen2[seen2.length - 1] + 2] : [0, 0];
  }
  function cut(text, most) {
    const letters = text.match(/&\w+;|./gu) ?? [];
    return letters.length > most ? `${letters.slice(0, Math.max(1, most - 1)).join("")}…` : text;
  }
  function timeTicks(units, [from, to], isNarrow, isTitled) {
    const [, length, name] = units.find(([least]) => to - from >= least);
    const title = isTitled ? { title: { text: isNarrow ? name : `${name} since the start of the listing` } } : {};
    if (length === 1) return { tickmode: "auto", ...title };
    const rough = (to - from) / length / (isNarrow ? 5 : 8);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((one) => one * power >= rough);
    const first = Math.ceil(from / length / step);
    const numbers = Array.from({ length: Math.floor(to / length / step) - first + 1 }, (_, i) => (first + i) * step);
    return {
      tickmode: "array",
      tickvals: numbers.map((one) => one * length),
      ticktext: numbers.map((one) => String(Number(one.toPrecision(6)))),
      ...title
    };
  }

  // src/link.ts
  var MARK = "#v=";
  var WHOLE = ["low", "high", "drive", "disk"];
  function written({ low, high, from, to, drive, disk }) {
    const places = [low, high].map(Math.round);
    const times = [from, to].map((time) => +time.toPrecision(9));
    return MARK + [...places, ...times, drive, disk].join(",");
  }
  function read(hash) {
    if (!hash.startsWith(MARK)) return null;
    const [low, high, from, to, drive, disk] = hash.slice(MARK.length).split(",").map(Number);
    const shown2 = { low, high, from, to, drive, disk };
    if (![from, to].every(Number.isFinite)) return null;
    if (!WHOLE.every((key) => Number.isInteger(shown2[key]) && shown2[key] >= 0)) return null;
    return shown2.high > shown2.low && shown2.to > shown2.from ? shown2 : null;
  }

  // src/panels.ts
  var muted2 = (text) => element("p", { class: "muted" }, text);
  function drawCharts(holder, charts) {
    if (!charts.length) holder.append(muted2("There is nothing to draw here."));
    for (const { title, note, height, data, layout, table: table2 } of charts) {
      holder.append(element("h3", {}, title), ...note ? [muted2(note)] : []);
      plotIn(
        holder,
        `${height}px`,
        title,
        (plot) => plotly().react(plot, data.map(themed), plotLayout(layout), { ...CONFIG, doubleClick: "reset" })
      );
      if (table2) holder.append(textTable(title, () => table2).box);
    }
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
  function fillWhenOpened({ charts }) {
    for (const folded of document.querySelectorAll("section.scripted > details"))
      folded.addEventListener("toggle", async () => {
        if (!folded.open || folded.dataset.filled) return;
        folded.dataset.filled = "yes";
        const part = folded.parentElement.id;
        for (const [i, card] of [...folded.querySelectorAll(".card")].entries()) {
          const of = JSON.parse(await inflateText(charts[i]));
          drawCharts(card, of[part] ?? []);
        }
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
      return view.changed();
    };
    const names = drives.map(({ drive }) => drive);
    const box = list("drive", names, choose);
    if (names.length > 1) byId("drive")?.replaceChildren(box);
    return choose;
  }
  async function start(page) {
    const disks = await Promise.all(page.disks.map((disk) => Drawn.of(disk)));
    const seconds = (drive) => 1.02 * (page.drives[drive]?.seconds || 1);
    const whole = () => ({ low: 0, high: page.figure.span, from: 0, to: seconds(view.drive) });
    const limits = () => ({
      most: Math.max(page.figure.span, ...page.disks.map(({ size }) => size)),
      least: LEAST_CELLS * Math.min(...disks.map(({ pyramid }) => pyramid.cell)),
      seconds: seconds(view.drive)
    });
    const view = new View({ low: 0, high: page.figure.span, from: 0, to: seconds(0) }, whole, limits);
    const holder = byId("figure");
    if (page.drives[0]) await Promise.all(disks.map((drawn) => drawn.choose(page.drives[0].drive)));
    const figure = new Figure(page, disks, view, holder);
    await figure.start();
    holder.classList.add("alive");
    performance.mark("figure");
    const detail = new Detail(page, disks, view, byId("map"));
    const choose = driveList(page, view, disks);
    fillWhenOpened(page);
    window.layoutscope = { page, figure, detail, view };
    byId("map").append(tools(figure));
    await followAddress(view, detail, choose);
    followTheme(() => view.changed());
    await detail.draw();
    document.documentElement.dataset.ready = "yes";
    performance.mark("ready");
  }
  function tools(figure) {
    const help = document.querySelector(".help");
    document.addEventListener("keydown", (e) => {
      if (e.key === "?" && !(e.target instanceof HTMLInputElement)) help.open = !help.open;
    });
    const keep = button("save picture", "keep the figure as SVG", () => figure.keep());
    return element("div", { class: "bar tools" }, keep, help);
  }
  var shown = (view, { number }) => ({ ...view.range, drive: view.drive, disk: number });
  async function followAddress(view, detail, choose) {
    const { page } = window.layoutscope;
    const go = async () => {
      const asked = read(location.hash);
      if (asked) {
        if (asked.drive !== view.drive && page.drives[asked.drive]) await choose(asked.drive);
        await detail.turnTo(Math.min(asked.disk, page.disks.length - 1));
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
  start(JSON.parse(byId("payload").textContent));
})();
