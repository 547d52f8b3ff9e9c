// Panels of nodes over two scales: a box drawn there chooses nodes, and chosen nodes are points there.

import { CHOSEN } from "./cells";
import { hueOf } from "./dom";
import { type Axis, CONFIG, type Fields, type Plot, plotLayout, plotly } from "./plots";
import type { Selection } from "./selection";

/** Where nodes stand in a panel, and which of them do. */
export interface Placing {
  has(i: number): boolean;
  x(i: number): number;
  y(i: number): number;
}

interface Chosen {
  range?: { x: [number, number]; y: [number, number] };
}

/** So many points are drawn one by one; of more one for each spot, a few pixels wide, which looks the same. */
export const MOST_POINTS = 20_000;
const SPOT = 3;

type Points = { x: number[]; y: number[] };

/** A trace for the chosen nodes, over whatever else the panel shows. */
export const chosenTrace = (): Fields => ({
  ...{ type: "scattergl", mode: "markers", x: [], y: [], hoverinfo: "skip", showlegend: false },
  marker: { size: 4, color: hueOf(CHOSEN) },
});

/** The points of some nodes, all or those that can be told apart between the ends of two axes. */
export function pointsOf(nodes: Iterable<number>, { has, x, y }: Placing, axes: Axis[]): Points {
  const own = Array.from(nodes).filter(has); // what is given may be gone through once only
  const points: Points = { x: [], y: [] };
  const taken = new Set<number>();
  const [across, up] = axes.map(({ range, _length }) => ({ low: range[0], pixel: (range[1] - range[0]) / _length }));
  const [wide, high] = axes.map(({ _length }) => Math.ceil(_length / SPOT));
  const isDense = own.length > MOST_POINTS;
  for (const i of own) {
    if (isDense) {
      const column = Math.floor((x(i) - across!.low) / across!.pixel / SPOT);
      const row = Math.floor((y(i) - up!.low) / up!.pixel / SPOT);
      if (column < 0 || column >= wide! || row < 0 || row >= high!) continue;
      const spot = row * wide! + column;
      if (taken.has(spot)) continue;
      taken.add(spot);
    }
    points.x.push(x(i));
    points.y.push(y(i));
  }
  return points;
}

export function count(nodes: Iterable<number>, has: (i: number) => boolean): number {
  let many = 0;
  for (const i of nodes) if (has(i)) many++;
  return many;
}

const axesOf = ({ _fullLayout: { xaxis, yaxis } }: Plot): Axis[] => [xaxis, yaxis];

/** A panel in which nodes are chosen by a box: a picture of their density, or the nodes themselves as points. */
export async function brushed(
  plot: Plot,
  first: Fields,
  layout: Fields,
  selection: Selection,
  placing: Placing,
  about: string,
): Promise<void> {
  const config = { ...CONFIG, modeBarButtonsToRemove: ["lasso2d", "sendDataToCloud", "editInChartStudio"] };
  // Only points are chosen by a box: one that nobody sees lets the panel have one.
  const traces = [first, chosenTrace()];
  await plotly().newPlot(plot, traces, plotLayout({ ...layout, dragmode: "select", showlegend: false }), config);
  const show = (nodes: Iterable<number>, trace: number) => {
    const { x, y } = pointsOf(nodes, placing, axesOf(plot));
    return plotly().restyle(plot, { x: [x], y: [y] }, [trace]);
  };
  const showAll = () => (first.type === "scattergl" ? show(selection.all.offset.keys(), 0) : undefined);
  let many = 0;
  selection.afterChosen(() => {
    const before = many;
    many = selection.nodes.length;
    return before || many ? show(selection.nodes, 1) : undefined;
  });
  await showAll();
  plot.on("plotly_relayout", async (change: Fields) => {
    // Other points can be told apart now.
    if (!Object.keys(change).some((key) => /^[xy]axis/.test(key))) return;
    if (count(selection.all.offset.keys(), placing.has) > MOST_POINTS) await showAll();
    if (many > MOST_POINTS) await show(selection.nodes, 1);
  });
  plot.on("plotly_selected", (event: Chosen | undefined) => {
    if (!event?.range) return;
    const [[left, right], [low, high]] = [sorted(event.range.x), sorted(event.range.y)];
    const { has, x, y } = placing;
    selection.where((i) => has(i) && x(i) >= left && x(i) <= right && y(i) >= low && y(i) <= high, about);
  });
}

const sorted = ([a, b]: [number, number]): [number, number] => (a < b ? [a, b] : [b, a]);
