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
  var byId = (id) => document.getElementById(id);
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
    const found = getComputedStyle(probe).color;
    probe.remove();
    known.set(name, found);
    return found;
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

  // src/panels.ts
  var muted = (text) => element("p", { class: "muted" }, text);
  function drawCharts(holder, charts) {
    if (!charts.length) holder.append(muted("There is nothing to draw here."));
    for (const { title, note, height, data, layout, table: table2 } of charts) {
      holder.append(element("h3", {}, title), ...note ? [muted(note)] : []);
      plotIn(
        holder,
        `${height}px`,
        title,
        (plot) => plotly().react(plot, data.map(themed), plotLayout(layout), { ...CONFIG, doubleClick: "reset" })
      );
      if (table2) holder.append(textTable(title, () => table2).box);
    }
  }

  // src/unpack.ts
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

  // src/curves.ts
  async function drawFigure({ figure }) {
    const holder = byId("figure");
    if (!holder || !figure) return;
    const isWide = holder.clientWidth >= NARROW;
    holder.classList.toggle("alive", isWide);
    if (!isWide) return;
    const plot = holder.querySelector(".plot") ?? holder.appendChild(element("div", { class: "plot" }));
    const layout = { ...figure.layout, width: holder.clientWidth };
    const config = { ...CONFIG, doubleClick: "reset" };
    await plotly().react(plot, figure.data.map(themed), plotLayout(layout), config);
  }
  async function start(made) {
    await drawFigure(made);
    for (const [place, card] of [...document.querySelectorAll(".charts > .card")].entries())
      drawCharts(card, [made.charts[place]]);
    followTheme(() => drawFigure(made));
    document.documentElement.dataset.ready = "yes";
  }
  inflateText(JSON.parse(byId("payload").textContent).packed).then((text) => start(JSON.parse(text)));
})();
