// The pages of comparisons, series, forecasts and drives: a figure of disks, if there is one, and charts below it.

import { byId, element } from "./dom";
import { type Chart, drawCharts } from "./panels";
import { CONFIG, type Fields, followTheme, NARROW, type Plot, plotLayout, plotly, themed } from "./plots";
import { inflateText } from "./unpack";

interface Made {
  /** The figure of disks, if there is one. */
  figure: { data: Fields[]; layout: Fields } | null;
  charts: Chart[];
}

/** The figure can be zoomed; on a phone stays what stands there without a script. */
async function drawFigure({ figure }: Made): Promise<void> {
  const holder = byId("figure");
  if (!holder || !figure) return;
  const isWide = holder.clientWidth >= NARROW;
  holder.classList.toggle("alive", isWide);
  if (!isWide) return;
  const plot = holder.querySelector(".plot") ?? holder.appendChild(element("div", { class: "plot" }));
  const layout = { ...figure.layout, width: holder.clientWidth };
  const config = { ...CONFIG, doubleClick: "reset" };
  await plotly().react(plot as Plot, figure.data.map(themed), plotLayout(layout), config);
}

async function start(made: Made): Promise<void> {
  await drawFigure(made);
  for (const [place, card] of [...document.querySelectorAll<HTMLElement>(".charts > .card")].entries())
    drawCharts(card, [made.charts[place]!]);
  followTheme(() => drawFigure(made));
  document.documentElement.dataset.ready = "yes";
}

inflateText(JSON.parse(byId("payload")!.textContent!).packed).then((text) => start(JSON.parse(text)));
