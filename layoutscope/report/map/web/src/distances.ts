// How far apart lies what belongs together.

import { brushed } from "./brush";
import { element } from "./dom";
import { type Disk, type Histogram, labelOf, placeRange, type Scale } from "./payload";
import { addPlot, type Fields, HUES, pictureTrace, plotIn } from "./plots";
import type { Selection } from "./selection";
import { bytesText, counted } from "./words";

export async function orderPanel(disk: Disk, holder: HTMLElement, selection: Selection, scale: Scale): Promise<void> {
  const orders = disk.distances.key_order;
  if (!orders.length) holder.append(element("p", { class: "muted" }, "There are no leaves to compare."));
  for (const { tree, total, picture } of orders) {
    const title = `${labelOf(disk, tree)}: ${counted(total)} leaves`;
    holder.append(element("h3", {}, title));
    const layout = {
      xaxis: { title: { text: "place in key order" } },
      yaxis: { title: { text: "place on disk, MiB" }, range: placeRange(disk, scale) },
    };
    const { all } = selection;
    const own = all.trees.indexOf(tree);
    const leaf = all.kinds.indexOf("leaf");
    const place = (i: number): [number, number] | null =>
      all.tree[i] === own && all.kind[i] === leaf && all.rank[i]! >= 0
        ? [all.rank[i]!, (all.offset[i]! - disk.start) / 2 ** 20]
        : null;
    const told = "leaf %{x:,.0f} in key order<br>%{y:,.1f} MiB";
    const points = Array.from(all.offset.keys(), place).filter((point) => point !== null);
    // A page carries so many nodes; past that the tree's picture, of all of them, is coarser.
    const trace = points.length === total ? pointsTrace(points, told) : await pictureTrace(picture, told);
    await brushed(
      plotIn(holder, 260, title),
      trace,
      layout,
      selection,
      place,
      `chosen in key order of ${labelOf(disk, tree)}`,
    );
  }
}

function pointsTrace(points: [number, number][], told: string): Fields {
  const [x, y] = [points.map(([at]) => at), points.map(([, at]) => at)];
  const marker = { size: 3, color: HUES[0], opacity: 0.6 };
  return { type: "scattergl", mode: "markers", x, y, marker, hovertemplate: `${told}<extra></extra>` };
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
