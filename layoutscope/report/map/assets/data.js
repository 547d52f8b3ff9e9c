"use strict";
// Unpacking: base64, deflate, byte planes, differences.

const KINDS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, i4: Int32Array, f4: Float32Array, f8: Float64Array };

async function inflate(text) {
  const raw = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function unpack(packed) {
  if (!packed) return null;
  const planes = await inflate(packed.data);
  const kind = KINDS[packed.type];
  const width = kind.BYTES_PER_ELEMENT;
  const n = packed.n;
  const bytes = new Uint8Array(n * width);
  for (let p = 0; p < width; p++) for (let i = 0, at = p * n; i < n; i++) bytes[i * width + p] = planes[at + i];
  const values = new kind(bytes.buffer);
  if (!packed.delta) return values;
  const sums = new Float64Array(n);
  let sum = 0;
  for (let i = 0; i < n; i++) { sum += values[i]; sums[i] = sum; }
  return sums;
}

async function unpackAll(object, keys) {
  const arrays = await Promise.all(keys.map((key) => unpack(object[key])));
  return Object.fromEntries(keys.map((key, i) => [key, arrays[i]]));
}

async function identifiers(packed) {
  const { low, high } = await unpackAll(packed, ["low", "high"]);
  return (i) => ((BigInt(high[i]) << 32n) | BigInt(low[i])).toString();
}

async function nodesOf(packed) {
  const n = await unpackAll(packed, ["tree", "kind", "level", "offset", "size", "records", "xid", "rank"]);
  n.trees = packed.trees;
  n.kinds = packed.kinds;
  n.classes = packed.classes;
  n.total = packed.total;
  [n.id, n.first, n.last] = await Promise.all([packed.id, packed.first, packed.last].map(identifiers));
  return n;
}

function bytesText(n) {
  for (const [factor, unit] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]])
    if (Math.abs(n) >= factor) return `${n / factor < 1000 ? (n / factor).toPrecision(3) : Math.round(n / factor).toLocaleString("en")} ${unit}`;
  return `${n} B`;
}

function secondsText(s) {
  if (!s) return "0 s";
  if (s < 1e-3) return `${(s * 1e6).toPrecision(3)} µs`;
  if (s < 1) return `${(s * 1e3).toPrecision(3)} ms`;
  if (s < 120) return `${s.toPrecision(3)} s`;
  return `${Math.floor(Math.round(s) / 60)} min ${String(Math.round(s) % 60).padStart(2, "0")} s`;
}

// Every text from the image goes through textContent: nothing in a name can become markup.
function element(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value);
  }
  for (const child of children) node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  return node;
}

// Plotly reads a little markup in labels; names from the image must not bring any.
function plain(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

function isDark() {
  const forced = document.documentElement.dataset.theme;
  return forced ? forced === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function plotLayout(extra) {
  const style = getComputedStyle(document.documentElement);
  const [fg, line] = ["--fg", "--line"].map((name) => style.getPropertyValue(name).trim());
  const axis = { gridcolor: line, zerolinecolor: line, linecolor: line };
  const layout = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: fg, size: 12 },
    margin: { l: 60, r: 12, t: 26, b: 42 }, hovermode: "closest",
    modebar: { bgcolor: "rgba(0,0,0,0)", color: style.getPropertyValue("--muted").trim(), activecolor: fg }, ...extra,
  };
  for (const key of Object.keys(layout)) if (/^[xy]axis/.test(key)) layout[key] = { ...axis, ...layout[key] };
  return layout;
}

// A density picture: how many points fall into each cell, faint to strong, nothing where there is none.
async function pictureTrace(picture, unit) {
  const counts = await unpack(picture.counts);
  const middles = ([low, high], n) => Array.from({ length: n }, (_, i) => low + ((i + 0.5) * (high - low)) / n);
  const z = [];
  for (let r = 0; r < picture.rows; r++)
    z.push(Array.from(counts.subarray(r * picture.columns, (r + 1) * picture.columns), (n) => (n ? Math.log10(n) : null)));
  const scale = isDark() ? [[0, "#2f6b99"], [1, "#cfe8ff"]] : [[0, "#8fbfe0"], [1, "#003a5c"]];
  return { type: "heatmap", x: middles(picture.x, picture.columns), y: middles(picture.y, picture.rows), z, zmin: 0, showscale: false, colorscale: scale, hoverongaps: false, hovertemplate: unit + "<extra></extra>" };
}

// Nothing leaves the page: no chart is sent to a cloud, no tip lies over the picture.
const PLOT = {
  displaylogo: false, responsive: true, showSendToCloud: false, showEditInChartStudio: false, plotlyServerURL: "", showTips: false,
  modeBarButtonsToRemove: ["lasso2d", "select2d", "sendDataToCloud", "editInChartStudio"],
};
