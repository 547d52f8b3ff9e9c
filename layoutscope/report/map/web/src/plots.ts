// Plotly, as far as the page uses it, in the colors of the page's theme.

import { byId, element } from "./dom";

export type Fields = Record<string, unknown>;

export interface Axis {
  range: [number, number];
  _offset: number;
  _length: number;
}

export interface Plot extends HTMLDivElement {
  on(event: string, listener: () => void): void;
  _fullLayout: Record<string, Axis>;
  data: Fields[];
}

interface PlotlyModule {
  react(plot: HTMLElement, traces: Fields[], layout: Fields, config: Fields): Promise<unknown>;
  toImage(plot: HTMLElement, options: Fields): Promise<string>;
  purge(plot: HTMLElement): void;
}

declare const Plotly: PlotlyModule;

export const plotly = (): PlotlyModule => Plotly;

/** Nothing leaves the page: no chart is sent to a cloud; no button is invisible until somebody points at it. */
export const CONFIG: Fields = {
  displayModeBar: false,
  showTips: false,
  doubleClick: false,
  plotlyServerURL: "",
};

/** Holders that are less wide, in CSS pixels, are those of a phone. */
export const NARROW = 560;

export const isTouch = () => matchMedia("(hover: none)").matches;

/** Colors that were looked up, until others hold: each look makes the browser work out the page's style again. */
const known = new Map<string, string>();

/** A color of the page's style as red, green and blue, system colors among them. */
export function color(name: string): string {
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

/** Give a trace the color of its role; boxes are colored by their numbers, from faint to strong. */
export function themed(trace: Fields): Fields {
  const role = (trace.meta as Fields | undefined)?.role;
  if (!role) return trace;
  const hue = color(String(role));
  const marker = trace.marker as Fields | undefined;
  const scale = [
    [0, color("line")],
    [1, hue],
  ];
  const shades = { colorscale: scale, line: { width: 1, color: color("bg") } };
  return {
    ...trace,
    ...(marker && { marker: { ...marker, ...(marker.colors ? shades : { color: hue }) } }),
    ...(trace.line ? { line: { ...trace.line, color: hue } } : {}),
    ...(trace.fill ? { fillcolor: hue } : {}),
  };
}

export function plotLayout(extra: Fields): Fields {
  const [fg, line] = [color("fg"), color("line")];
  const layout: Fields = {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 64, r: 12, t: 8, b: 44 },
    hovermode: "closest",
    hoverlabel: { bgcolor: color("panel"), bordercolor: line, font: { color: fg } },
    showlegend: false,
    ...extra,
    font: { color: fg, size: 12, family: "system-ui, sans-serif" },
  };
  const axis = { gridcolor: line, zeroline: false, linecolor: line };
  for (const key of Object.keys(layout))
    if (/^[xy]axis/.test(key)) layout[key] = { ...axis, ...(layout[key] as Fields) };
  layout.dragmode = isTouch() ? false : "zoom";
  layout.shapes = ((layout.shapes ?? []) as Fields[]).map((shape) => ({ ...shape, line: { width: 1.5, color: fg } }));
  return layout;
}

/** What draws a plot again where it is seen, in other colors or another width. */
const seen = new Map<HTMLElement, () => unknown>();

/** A plot of a height that is drawn when it comes into view, and taken away, with its listeners, when it leaves. */
export function plotIn(
  holder: HTMLElement,
  height: string,
  label: string,
  draw: (plot: Plot) => Promise<unknown>,
  listen: (plot: Plot) => void = () => {},
): Plot {
  const plot = element("div", { class: "plot", role: "figure", "aria-label": label }) as unknown as Plot;
  plot.style.height = height;
  holder.append(plot);
  const go = async () => {
    plot.dataset.drawn = "begun";
    await draw(plot);
    plot.dataset.drawn = "yes";
  };
  const sight = (entries: IntersectionObserverEntry[]) => {
    const isSeen = entries[entries.length - 1]!.isIntersecting;
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

/** Draw a plot again, if it is seen. */
export const redraw = (plot: Plot) => seen.get(plot)?.();

/** Draw everything again, in other colors and in another width. */
export function followTheme(draw: () => unknown): void {
  const again = () => {
    known.clear();
    return Promise.all([draw(), ...[...seen.values()].map((one) => one())]);
  };
  const isDark = matchMedia("(prefers-color-scheme: dark)");
  byId("theme")!.addEventListener("click", () => {
    const { dataset } = document.documentElement;
    dataset.theme = (dataset.theme || (isDark.matches ? "dark" : "light")) === "dark" ? "light" : "dark";
    return again();
  });
  for (const media of [isDark, matchMedia("(forced-colors: active)")]) media.addEventListener("change", again);
  // Paper is light, and as wide as a sheet.
  const { classList, dataset } = document.documentElement;
  let theme: string | undefined;
  const print = (isPrinted: boolean) => () => {
    if (isPrinted) theme = dataset.theme;
    dataset.theme = isPrinted ? "light" : (theme ?? "");
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
