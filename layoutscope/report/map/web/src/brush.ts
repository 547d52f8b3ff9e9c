// Panels of nodes over two scales: a box drawn there chooses nodes, and chosen nodes are points there.

import { CHOSEN } from "./cells";
import { hueOf } from "./dom";
import { CONFIG, type Fields, type Plot, plotLayout, plotly } from "./plots";
import type { Selection } from "./selection";

/** Where a node stands in the panel; null where it is none of its nodes. */
export type Place = (i: number) => [number, number] | null;

interface Chosen {
  range?: { x: [number, number]; y: [number, number] };
}

/** A trace for the chosen nodes, over whatever else the panel shows. */
export const chosenTrace = (): Fields => ({
  ...{ type: "scattergl", mode: "markers", x: [], y: [], hoverinfo: "skip", showlegend: false },
  marker: { size: 4, color: hueOf(CHOSEN) },
});

/** Show the chosen nodes as points of a trace of the panel. */
export function showChosen(plot: Plot, trace: number, selection: Selection, place: Place): void {
  selection.whenChosen(() => {
    const points = selection.nodes.map(place).filter((point) => point !== null);
    plotly().restyle(plot, { x: [points.map(([x]) => x)], y: [points.map(([, y]) => y)] }, [trace]);
  });
}

/** A density picture in which nodes are chosen by a box, as a panel. */
export async function brushed(
  plot: Plot,
  picture: Fields,
  layout: Fields,
  selection: Selection,
  place: Place,
  about: string,
): Promise<void> {
  const config = { ...CONFIG, modeBarButtonsToRemove: ["lasso2d", "sendDataToCloud", "editInChartStudio"] };
  // Only points are chosen by a box: one that nobody sees lets the panel have one.
  const traces = [picture, chosenTrace()];
  await plotly().newPlot(plot, traces, plotLayout({ ...layout, dragmode: "select" }), config);
  showChosen(plot, 1, selection, place);
  plot.on("plotly_selected", (event: Chosen | undefined) => {
    if (!event?.range) return;
    const [[left, right], [low, high]] = [sorted(event.range.x), sorted(event.range.y)];
    selection.where((i) => {
      const point = place(i);
      return point !== null && point[0] >= left && point[0] <= right && point[1] >= low && point[1] <= high;
    }, about);
  });
}

const sorted = ([a, b]: [number, number]): [number, number] => (a < b ? [a, b] : [b, a]);
