// Plotly, as far as the page uses it.

import { element } from "./dom";

export type Fields = Record<string, unknown>;

export interface Axis {
  range: [number, number];
  _offset: number;
  _length: number;
}

export interface Plot extends HTMLDivElement {
  on(event: string, listener: (data: never) => void): void;
  _fullLayout: Record<string, Axis>;
  data: Fields[];
}

interface PlotlyModule {
  react(plot: HTMLElement, traces: Fields[], layout: Fields, config: Fields): Promise<unknown>;
  restyle(plot: HTMLElement, changes: Fields, traces: number[]): Promise<unknown>;
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

/** Plotly reads a little markup in labels; names from the image must not bring any. */
export function plain(text: string): string {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

/** Colours that were looked up, until others hold: each look makes the browser work out the page's style anew. */
const known = new Map<string, string>();

/** A colour of the page's style as red, green and blue, system colours among them. */
export function colour(name: string): string {
  const before = known.get(name);
  if (before) return before;
  const probe = element("span", {});
  probe.style.cssText = `color: var(${name}); forced-color-adjust: none; display: none`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  known.set(name, found);
  return found;
}

export function plotLayout(extra: Fields): Fields {
  const [fg, line] = [colour("--fg"), colour("--line")];
  const layout: Fields = {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: fg, size: 12, family: "system-ui, sans-serif" },
    margin: { l: 64, r: 12, t: 8, b: 44 },
    hovermode: "closest",
    hoverlabel: { bgcolor: colour("--panel"), bordercolor: line, font: { color: fg } },
    showlegend: false,
    ...extra,
  };
  const axis = { gridcolor: line, zeroline: false, linecolor: line };
  for (const key of Object.keys(layout))
    if (/^[xy]axis/.test(key)) layout[key] = { ...axis, ...(layout[key] as Fields) };
  return layout;
}

/** What draws a plot anew where it is seen, in other colours or another width. */
const seen = new Map<HTMLElement, () => unknown>();

/** Forget colours: others hold now. */
export const forgetColours = () => known.clear();

export const redrawAll = () => Promise.all([...seen.values()].map((draw) => draw()));

/** A plot of a height that is drawn when it comes into view, and taken away when it leaves. */
export function plotIn(
  holder: HTMLElement,
  height: string,
  label: string,
  draw: (plot: Plot) => Promise<unknown>,
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

/** Draw a plot anew, if it is seen. */
export const redraw = (plot: Plot) => seen.get(plot)?.();
