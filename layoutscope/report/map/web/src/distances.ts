// How far apart lies what belongs together.

import { element } from "./dom";
import type { Disk, Histogram, Scale } from "./payload";
import { addPlot, type Fields, HUES, pictureTrace } from "./plots";
import { bytesText, counted } from "./words";

export async function orderPanel(disk: Disk, holder: HTMLElement, scale: Scale): Promise<void> {
  const orders = disk.distances.key_order;
  if (!orders.length) holder.append(element("p", { class: "muted" }, "There are no leaves to compare."));
  for (const { tree, total, picture } of orders) {
    const trace = await pictureTrace(picture, "leaf %{x:,.0f} in key order<br>%{y:,.1f} MiB");
    await addPlot(holder, `${tree}: ${counted(total)} leaves`, 260, [trace], {
      xaxis: { title: { text: "place in key order" } },
      yaxis: { title: { text: "place on disk, MiB" }, range: [0, (1.02 * scale.used) / 2 ** 20] },
    });
  }
}

export async function distancePanel(disk: Disk, holder: HTMLElement): Promise<void> {
  const { seek, to_data } = disk.distances;
  await histogram(seek, "From the end of one read to the start of the next", holder);
  await histogram(to_data, "From a file's inode to its first data", holder);
}

async function histogram(h: Histogram | null, title: string, holder: HTMLElement): Promise<void> {
  if (!h?.total) return;
  await addPlot(holder, title, 250, [bars(h)], {
    xaxis: {
      title: { text: "distance: this up to twice as much", standoff: 8 },
      ...{ type: "category", nticks: 9, tickangle: 0, automargin: true },
    },
    yaxis: { title: { text: "count" } },
  });
}

function bars(h: Histogram): Fields {
  const x = ["0", ...h.counts.map((_, i) => bytesText(2 ** (h.first_power + i)))];
  const hovertemplate = "from %{x}: %{y:,}<extra></extra>";
  return { type: "bar", x, y: [h.touching, ...h.counts], marker: { color: HUES[0] }, hovertemplate };
}
