// Plotly, as far as the page uses it.

import { element, isDark, swatch } from "./dom";
import type { Picture } from "./payload";
import { unpack } from "./unpack";

export type Fields = Record<string, unknown>;

export interface Axis {
  range: [number, number];
  _offset: number;
  _length: number;
}

export interface Plot extends HTMLDivElement {
  on(event: string, listener: (data: never) => void): void;
  _fullLayout: { xaxis: Axis; yaxis: Axis };
  data: Fields[];
  layout: Fields;
}

interface PlotlyModule {
  newPlot(plot: HTMLElement, traces: Fields[], layout: Fields, config: Fields): Promise<unknown>;
  react(plot: HTMLElement, traces: Fields[], layout: Fields, config: Fields): Promise<unknown>;
  restyle(plot: HTMLElement, changes: Fields, traces: number[]): Promise<unknown>;
  relayout(plot: HTMLElement, changes: Fields): Promise<unknown>;
  toImage(figure: Fields, options: Fields): Promise<string>;
  purge(plot: HTMLElement): void;
}

declare const Plotly: PlotlyModule;

export const plotly = (): PlotlyModule => Plotly;

/** Nothing leaves the page: no chart is sent to a cloud, no tip lies over the picture. */
export const CONFIG: Fields = {
  displaylogo: false,
  responsive: true,
  showSendToCloud: false,
  showEditInChartStudio: false,
  plotlyServerURL: "",
  showTips: false,
  modeBarButtonsToRemove: ["lasso2d", "select2d", "sendDataToCloud", "editInChartStudio"],
};

/** Holders that are less wide, in CSS pixels, are those of a phone. */
export const NARROW = 560;

export const HUES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A6BBE", "#7A5C3E"] as const;

/** Plotly reads a little markup in labels; names from the image must not bring any. */
export function plain(text: string): string {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

/** A colour of the page's style as red, green and blue, system colours among them. */
export function colour(name: string): string {
  const probe = element("span", {});
  probe.style.cssText = `color: var(${name}); forced-color-adjust: none; display: none`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

export function plotLayout(extra: Fields): Fields {
  const [fg, line] = [colour("--fg"), colour("--line")];
  const layout: Fields = {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: fg, size: 12 },
    margin: { l: 60, r: 12, t: 26, b: 42 },
    hovermode: "closest",
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--muted"), activecolor: fg },
    ...extra,
  };
  const axis = { gridcolor: line, zerolinecolor: line, linecolor: line };
  for (const key of Object.keys(layout))
    if (/^[xy]axis/.test(key)) layout[key] = { ...axis, ...(layout[key] as Fields) };
  return layout;
}

export function plotIn(holder: HTMLElement, height: number, label: string): Plot {
  const plot = element("div", { class: "plot", role: "figure", "aria-label": label });
  plot.style.height = `${height}px`;
  holder.append(plot);
  return plot as unknown as Plot;
}

/** What the colours of a plot mean, above it, where it never lies over the picture; a kept picture has Plotly's own. */
export function legendOf(plot: Plot, entries: { text: string; hue: string }[]): HTMLElement {
  plot.dataset.legend = "yes";
  const parts = entries.map(({ text, hue }) => element("span", { class: "entry" }, swatch(hue), text));
  return element("div", { class: "bar legend", role: "group", "aria-label": "what the colours mean" }, ...parts);
}

/** A span with room at its ends, so that a box can be drawn around what lies there. */
export function padded([low, high]: [number, number]): [number, number] {
  const room = 0.04 * (high - low || 1);
  return [low - room, high + room];
}

/** A density picture: how many points fall into each cell, faint to strong, nothing where there is none. */
export async function pictureTrace(picture: Picture, unit: string): Promise<Fields> {
  const counts = await unpack(picture.counts);
  const middles = ([low, high]: [number, number], n: number) =>
    Array.from({ length: n }, (_, i) => low + ((i + 0.5) * (high - low)) / n);
  const row = (r: number) =>
    Array.from(counts.subarray(r * picture.columns, (r + 1) * picture.columns), (n) => (n ? Math.log10(n) : null));
  const scale = isDark() ? ["#2f6b99", "#cfe8ff"] : ["#8fbfe0", "#003a5c"];
  return {
    type: "heatmap",
    x: middles(picture.x, picture.columns),
    y: middles(picture.y, picture.rows),
    z: Array.from({ length: picture.rows }, (_, r) => row(r)),
    zmin: 0,
    showscale: false,
    colorscale: scale.map((colour, i) => [i, colour]),
    hoverongaps: false,
    hovertemplate: `${unit}<extra></extra>`,
  };
}
