// How far apart lies what belongs together.

import { brushed, count, MOST_POINTS } from "./brush";
import { CHOSEN } from "./cells";
import { element, hueOf } from "./dom";
import {
  type Disk,
  type FileDistances,
  type Histogram,
  labelOf,
  PLACES,
  placeRange,
  type ReadDistances,
  type Scale,
  startText,
} from "./payload";
import { CONFIG, type Fields, HUES, type Plot, padded, pictureTrace, plotIn, plotLayout, plotly } from "./plots";
import { readsOf } from "./reads";
import type { Selection } from "./selection";
import { partsOf, textTable } from "./tables";
import { pause } from "./turns";
import { unpack, unpackAll } from "./unpack";
import { bytesText, counted } from "./words";

interface Filtered {
  selection: Selection;
  onFilter: (() => void)[];
  showsTree(tree: string): boolean;
}

export async function orderPanel(disk: Disk, holder: HTMLElement, map: Filtered, scale: Scale): Promise<void> {
  const { selection } = map;
  const orders = disk.distances.key_order;
  if (!orders.length) holder.append(element("p", { class: "muted" }, "No tree here has leaves to compare."));
  if (orders.length && disk.start) holder.append(element("p", { class: "muted" }, startText(disk)));
  for (const { volume, tree, total, picture } of orders) {
    const { name: ofVolume, nodes } = disk.volumes[volume]!;
    const called = `${ofVolume ? `${ofVolume}, ` : ""}${labelOf(disk, tree)}`;
    const title = `${called}: ${counted(total)} leaves`;
    const layout = {
      xaxis: { title: { text: "place in key order" }, range: padded(picture.x) },
      yaxis: { title: { text: PLACES }, range: placeRange(disk, scale) },
    };
    const { all } = selection;
    const own = all.trees.indexOf(tree);
    const leaf = all.kinds.indexOf("leaf");
    const placing = {
      // Ranks of another volume are of another tree; what lies on another drive of a set has no place here.
      has: (i: number) =>
        i >= nodes[0] &&
        i < nodes[1] &&
        all.tree[i] === own &&
        all.kind[i] === leaf &&
        all.rank[i]! >= 0 &&
        all.offset[i]! >= 0,
      x: (i: number) => all.rank[i]!,
      y: (i: number) => (all.offset[i]! - disk.start) / 2 ** 20,
    };
    const told = "leaf %{x:,.0f} in key order<br>%{y:,.1f} MiB";
    const carried = count(all.offset.keys(), placing.has);
    // A page carries so many nodes; past that the tree's picture, of all of them, is coarser.
    const trace = carried === total ? pointsTrace(told, treeHue(disk, tree)) : await pictureTrace(picture, told);
    const name =
      carried === total && total > MOST_POINTS ? `${title}; where several share a spot, one is drawn` : title;
    const heading = element("h3", {}, name);
    holder.append(heading);
    const plot = plotIn(holder, 260, title);
    const columns = ["places in key order", "leaves", "lowest place on disk", "highest place on disk"];
    const note = `Equal parts of the key order; places are told to ${bytesText(step(picture.y, picture.rows))}.`;
    const words = textTable(`order of ${title}`, async () => ({
      columns,
      rows: await partsOf(picture, ranksBetween, undefined, total),
      note,
    }));
    holder.append(words.box);
    const about = `chosen in key order of ${called}`;
    await brushed(plot, trace, layout, selection, placing, about);
    const follow = () => {
      const visible = map.showsTree(tree);
      heading.textContent = visible ? name : `${title}, hidden by the legend of the map`;
      plotly().restyle(plot, { visible }, [0]);
    };
    map.onFilter.push(follow);
    if (!map.showsTree(tree)) follow();
    await pause();
  }
}

/** The whole numbers from one place on and before another. */
function ranksBetween(low: number, high: number, isLast: boolean): string {
  const [first, last] = [Math.ceil(low), isLast ? Math.floor(high) : Math.ceil(high) - 1];
  return last > first ? `${counted(first)} to ${counted(last)}` : counted(first);
}

/** How much of a place in MiB a row of a picture spans, in bytes. */
const step = ([low, high]: [number, number], rows: number) => Math.round(((high - low) / rows) * 2 ** 20);

function treeHue({ classes }: Disk, tree: string): string {
  const known = classes.find(({ key }) => key === tree);
  return known ? hueOf(known) : HUES[0];
}

function pointsTrace(told: string, color: string): Fields {
  const marker = { size: 3, color, opacity: 0.6 };
  return { type: "scattergl", mode: "markers", x: [], y: [], marker, hovertemplate: `${told}<extra></extra>` };
}

export async function distancePanel(disk: Disk, holder: HTMLElement, selection: Selection): Promise<void> {
  const { seek, to_data } = disk.distances;
  const before = holder.childElementCount;
  if (seek?.total) await seeks(disk, seek, holder, selection);
  if (to_data.total) await toData(to_data, holder, selection);
  if (holder.childElementCount === before)
    holder.append(element("p", { class: "muted" }, "Nothing here has a distance: no walk, and no file with data."));
}

async function seeks(disk: Disk, h: ReadDistances, holder: HTMLElement, selection: Selection): Promise<void> {
  const { step, ...walk } = disk.walks[0]!;
  const reads = await unpackAll(walk as Required<typeof walk>, ["offset", "length"]);
  const bins = await unpack(h.reads);
  const drawn = step > 1 ? `, of one read in ${step}` : "";
  await histogram({
    ...{ h, holder, selection },
    title: `From the end of one read to the start of the next${walk.name ? `: ${walk.name}` : ""}`,
    of: `reads of the first walk${drawn}`,
    choose: (wanted, words) =>
      selection.at(
        Array.from(reads.offset).filter((_, i) => wanted.has(bins[i]!)),
        `read ${words} behind the read before${drawn}`,
      ),
    chosen: () => readsOf(selection, reads).map((i) => bins[i]!),
  });
}

async function toData(h: FileDistances, holder: HTMLElement, selection: Selection): Promise<void> {
  const { node, bin } = await unpackAll(h, ["node", "bin"]);
  const left = h.total > node.length ? `, of ${counted(node.length)} of ${counted(h.total)} files` : "";
  await histogram({
    ...{ h, holder, selection },
    title: "From a file's inode to its first data",
    of: `files${left}`,
    choose: (wanted, words) => {
      const nodes = new Set(Array.from(node).filter((_, i) => wanted.has(bin[i]!)));
      selection.choose([...nodes], `with inodes of files whose data begins ${words} away${left}`);
    },
    chosen: () => Array.from(bin).filter((_, i) => selection.isChosen[node[i]!] === 1),
  });
}

interface Shown {
  h: Histogram;
  holder: HTMLElement;
  selection: Selection;
  title: string;
  /** What is counted. */
  of: string;
  /** Choose what is in some bins, which are told in words. */
  choose(bins: Set<number>, words: string): void;
  /** The bins of all that is chosen. */
  chosen(): number[];
}

interface Brushed {
  points: { curveNumber: number; pointNumber: number }[];
}

/** Bars by powers of two: a span over them, or a click, chooses; what is chosen in any view stands before them. */
async function histogram(shown: Shown): Promise<void> {
  const { h, holder, selection, title } = shown;
  const names = binNames(h);
  holder.append(element("h3", {}, title));
  const plot = plotIn(holder, 250, title);
  holder.append(barWords(shown, names).box);
  const layout = plotLayout({
    xaxis: {
      title: { text: "distance: this up to twice as much", standoff: 8 },
      ...{ type: "category", nticks: 9, tickangle: 0, automargin: true },
    },
    yaxis: { title: { text: "count" } },
    ...{ barmode: "overlay", dragmode: "select", selectdirection: "h", showlegend: false },
  });
  const config = { ...CONFIG, modeBarButtonsToRemove: ["lasso2d", "sendDataToCloud", "editInChartStudio"] };
  await plotly().newPlot(plot, [bars(h, names), chosenBars(names, shown.of)], layout, config);
  const choose = (event: Brushed | undefined) => {
    const found = event?.points.filter(({ curveNumber }) => curveNumber === 0).map(({ pointNumber }) => pointNumber);
    if (found?.length) shown.choose(new Set(found), spanText(h, Math.min(...found), Math.max(...found)));
  };
  plot.on("plotly_selected", choose);
  plot.on("plotly_click", choose);
  const follow = () => showChosen(plot, shown, names);
  selection.afterChosen(follow);
  follow();
}

function showChosen(plot: Plot, { chosen, selection }: Shown, names: string[]): Promise<unknown> {
  const counts: (number | null)[] = names.map(() => null);
  if (selection.nodes.length) for (const bin of chosen()) if (bin < counts.length) counts[bin] = (counts[bin] ?? 0) + 1;
  return plotly().restyle(plot, { y: [counts] }, [1]);
}

// None of the names is a number: of few bars with one Plotly would make a scale of numbers, with no bar on it.
const binNames = (h: Histogram) => ["0 B", ...h.counts.map((_, i) => bytesText(2 ** (h.first_power + i)))];

/** From the first of some bins to the end of the last, in words. */
function spanText(h: Histogram, first: number, last: number): string {
  const low = first ? bytesText(2 ** (h.first_power + first - 1)) : "0 B";
  return last ? `${low} to ${bytesText(2 ** (h.first_power + last))}` : "nothing";
}

function barWords({ h, title, of, chosen, selection }: Shown, names: string[]) {
  return textTable(title, () => {
    const own = chosen();
    const counts = [h.touching, ...h.counts];
    const rows = names.map((_, bin) => [
      spanText(h, bin, bin),
      counted(counts[bin]!),
      selection.nodes.length ? counted(own.filter((other) => other === bin).length) : "",
    ]);
    return { columns: ["distance", "count", "of chosen nodes"], rows, note: `Chosen nodes are counted by ${of}.` };
  });
}

function bars(h: Histogram, x: string[]): Fields {
  const hovertemplate = "from %{x}: %{y:,}<extra></extra>";
  const looks = { marker: { color: HUES[0] }, unselected: { marker: { opacity: 1 } } };
  return { type: "bar", x, y: [h.touching, ...h.counts], ...looks, hovertemplate };
}

function chosenBars(x: string[], of: string): Fields {
  const hovertemplate = `from %{x}: %{y:,} of what is chosen, in ${of}<extra></extra>`;
  return { type: "bar", x, y: x.map(() => null), width: 0.4, marker: { color: hueOf(CHOSEN) }, hovertemplate };
}
