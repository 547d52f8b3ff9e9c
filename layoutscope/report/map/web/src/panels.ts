// The charts that Python made, each drawn where it is seen.

import { element, textTable } from "./dom";
import { CONFIG, type Fields, plotIn, plotLayout, plotly, themed } from "./plots";

/** A figure, and the same as rows of text. */
export interface Chart {
  title: string;
  note: string;
  height: number;
  data: Fields[];
  layout: Fields;
  table: { columns: string[]; rows: string[][] } | null;
}

const muted = (text: string) => element("p", { class: "muted" }, text);

export function drawCharts(holder: HTMLElement, charts: Chart[]): void {
  if (!charts.length) holder.append(muted("There is nothing to draw here."));
  for (const { title, note, height, data, layout, table } of charts) {
    holder.append(element("h3", {}, title), ...(note ? [muted(note)] : []));
    plotIn(holder, `${height}px`, title, (plot) =>
      plotly().react(plot, data.map(themed), plotLayout(layout), { ...CONFIG, doubleClick: "reset" }),
    );
    if (table) holder.append(textTable(title, () => table).box);
  }
}
