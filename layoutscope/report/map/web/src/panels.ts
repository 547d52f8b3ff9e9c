// What is folded below the figure: directories, history, distances, order on disk. Each is drawn where it is seen.

import { element, isDark, list } from "./dom";
import type { Drawn } from "./drawn";
import { hueOf } from "./figure";
import { type Directories, type Histogram, ofVolume, type Payload, type Picture, type Unit } from "./payload";
import { CONFIG, colour, type Fields, type Plot, plain, plotIn, plotLayout, plotly, redraw } from "./plots";
import { partsOf, spanOf, textTable } from "./tables";
import { subtreeTotals, topmost, withOthers } from "./tree";
import { unpack, unpackAll } from "./unpack";
import { bytesText, counted, plural, secondsText } from "./words";

const MIB = 2 ** 20;
const muted = (text: string) => element("p", { class: "muted" }, text);
const placeOf = (mib: number) => bytesText(Math.max(0, Math.round(mib * MIB)));

/** So many points are drawn one by one; of more, one for each spot of a few pixels, which looks the same. */
export const MOST_POINTS = 4000;
const [SPOTS_WIDE, SPOTS_HIGH] = [240, 90];

/** Leaves in the order of their keys against their positions. */
export function orderPanel(page: Payload, drawn: Drawn, holder: HTMLElement): void {
  const { disk, selection } = drawn;
  const orders = disk.distances.key_order;
  if (!orders.length) holder.append(muted("No tree here has leaves to compare."));
  for (const order of orders) {
    const { nodes } = disk.volumes[order.volume]!;
    const { all } = selection;
    const leaves: number[] = [];
    const [tree, leaf] = [all.trees.indexOf(order.tree), all.kinds.indexOf("leaf")];
    for (let i = nodes[0]; i < Math.min(nodes[1], all.offset.length); i++)
      if (all.tree[i] === tree && all.kind[i] === leaf && all.rank[i]! >= 0 && all.offset[i]! >= 0) leaves.push(i);
    const title = `${ofVolume(disk, order.volume)}${order.label}: ${plural(order.total, "leaf").replace("leafs", "leaves")}`;
    const left = order.total - leaves.length;
    const notes = left > 0 ? [muted(`The page carries the positions of ${counted(leaves.length)} of them.`)] : [];
    holder.append(element("h3", {}, title), ...notes);
    const y = (i: number) => (all.offset[i]! - disk.start) / MIB;
    const role = disk.classes.find(({ key }) => key === order.tree)?.role ?? "other";
    const shown = spots(leaves, (i) => all.rank[i]!, y);
    const plot = plotIn(holder, "260px", title, async (self) => {
      const points = (own: number[], marker: Fields): Fields => ({
        ...{ type: "scatter", mode: "markers", x: own.map((i) => all.rank[i]!), y: own.map(y), marker },
        hovertemplate: "leaf %{x:,.0f} in key order<br>%{y:,.1f} MiB<extra></extra>",
      });
      const chosen = shown.filter((i) => selection.isChosen[i] === 1);
      const ring = { size: 7, symbol: "circle-open", color: colour("--fg") };
      const traces = [points(shown, { size: 4, color: hueOf(page.figure.roles, role) }), points(chosen, ring)];
      const layout = plotLayout({
        xaxis: { title: { text: "order of keys" } },
        yaxis: { title: { text: "position, MiB" }, range: [0, Math.max(disk.used, page.figure.span) / MIB] },
        dragmode: false,
      });
      await plotly().react(self, traces, layout, CONFIG);
    });
    selection.whenChosen(() => redraw(plot));
    const note = "Equal parts of the order of keys.";
    const columns = ["order of keys", "leaves", "lowest position", "highest position"];
    holder.append(textTable(title, () => ({ columns, rows: orderRows(leaves, (i) => all.rank[i]!, y), note })).box);
  }
}

interface Clicked {
  points: { curveNumber: number; pointNumber: number }[];
}

/** Hear of an event once for each plot, however often it is drawn. */
function listen<Event>(plot: Plot, event: string, act: (event: Event) => void): void {
  const own = plot as Plot & { removeAllListeners(event: string): void };
  own.removeAllListeners(event);
  own.on(event, act as (data: never) => void);
}

function spots(own: number[], x: (i: number) => number, y: (i: number) => number): number[] {
  if (own.length <= MOST_POINTS) return own;
  const edge = (of: (i: number) => number) =>
    own.reduce(([a, b], i) => [Math.min(a!, of(i)), Math.max(b!, of(i))], [Infinity, -Infinity]);
  const [[x0, x1], [y0, y1]] = [edge(x), edge(y)] as [[number, number], [number, number]];
  const taken = new Set<number>();
  return own.filter((i) => {
    const column = Math.floor(((x(i) - x0) / (x1 - x0 || 1)) * SPOTS_WIDE);
    const spot = column * SPOTS_HIGH + Math.floor(((y(i) - y0) / (y1 - y0 || 1)) * SPOTS_HIGH);
    return !taken.has(spot) && taken.add(spot);
  });
}

const ROWS = 16;

function orderRows(leaves: number[], rank: (i: number) => number, y: (i: number) => number): string[][] {
  const sorted = [...leaves].sort((a, b) => rank(a) - rank(b));
  const parts = Math.min(ROWS, sorted.length);
  return Array.from({ length: parts }, (_, part) => {
    const own = sorted.slice(
      Math.round((part * sorted.length) / parts),
      Math.round(((part + 1) * sorted.length) / parts),
    );
    const [first, last] = [rank(own[0]!), rank(own[own.length - 1]!)];
    const places = own.map(y);
    const span = last > first ? `${counted(first)} to ${counted(last)}` : counted(first);
    return [span, counted(own.length), placeOf(Math.min(...places)), placeOf(Math.max(...places))];
  });
}

/** When nodes were written, over the address space. */
export function historyPanel(page: Payload, drawn: Drawn, holder: HTMLElement): void {
  const h = drawn.disk.history;
  if (!h) {
    holder.append(muted("No metadata here says when it was written, or all of it says the same."));
    return;
  }
  const title = "Transaction that wrote each block of metadata, by position";
  holder.append(element("h3", {}, drawn.disk.title));
  if (h.states.length)
    holder.append(
      muted(`States that can be read: ${h.states.map(({ label, xid }) => `${label} (${counted(xid)})`).join(", ")}.`),
    );
  plotIn(holder, "280px", title, async (self) => {
    const trace = await density(h.picture, hueOf(page.figure.roles, "main"));
    const axes = { xaxis: { title: { text: "position, MiB" } }, yaxis: { title: { text: "transaction" } } };
    return plotly().react(self, [trace], plotLayout(axes), CONFIG);
  });
  const columns = ["positions", "blocks", "oldest transaction", "youngest transaction"];
  const note = "Equal parts of the stretch with metadata; transactions to a step of the picture.";
  const rows = () => partsOf(h.picture, spanOf(placeOf), (xid) => counted(Math.round(xid)));
  holder.append(textTable(title, async () => ({ columns, rows: await rows(), note })).box);
}

/** How many points fall into each cell of a picture, faint to strong. */
async function density(picture: Picture, hue: string): Promise<Fields> {
  const counts = await unpack(picture.counts);
  const middles = ([low, high]: [number, number], n: number) =>
    Array.from({ length: n }, (_, i) => low + ((i + 0.5) * (high - low)) / n);
  const row = (r: number) =>
    Array.from(counts.subarray(r * picture.columns, (r + 1) * picture.columns), (n) => (n ? 1 + Math.log10(n) : null));
  return {
    ...{ type: "heatmap", x: middles(picture.x, picture.columns), y: middles(picture.y, picture.rows) },
    z: Array.from({ length: picture.rows }, (_, r) => row(r)),
    ...{ zmin: 0, showscale: false, hoverongaps: false },
    colorscale: [
      [0, colour("--line")],
      [1, hue],
    ],
    hovertemplate: "%{x:,.1f} MiB<br>transaction %{y:,.0f}<extra></extra>",
  };
}

/** The powers of two that any disk's distances have: one axis for all. */
function powersOf(page: Payload): [number, number] {
  const all = page.disks.flatMap(({ distances: { seek, to_data } }) => [seek, to_data]).filter((h) => h?.counts.length);
  const lows = all.map((h) => h!.first_power);
  const highs = all.map((h) => h!.first_power + h!.counts.length);
  return all.length ? [Math.min(...lows), Math.max(...highs)] : [0, 0];
}

export async function distancePanel(page: Payload, drawn: Drawn, holder: HTMLElement): Promise<void> {
  const { disk, selection } = drawn;
  const { seek, to_data } = disk.distances;
  const [walk] = disk.walks;
  if (!seek?.total && !to_data.total)
    holder.append(muted("Nothing here has a distance: no walk, and no file with data."));
  if (seek?.total && walk) {
    const reads = await unpackAll(walk as Required<typeof walk>, ["offset"]);
    const bins = await unpack(seek.reads);
    const title = `From the end of one read to the start of the next${walk.name ? `: ${walk.name}` : ""}`;
    histogram(page, holder, title, "reads", seek, (bin, words) =>
      selection.at(
        Array.from(reads.offset).filter((_, i) => bins[i] === bin),
        `read ${words} from the read before`,
      ),
    );
  }
  if (to_data.total) {
    const { node, bin: bins } = await unpackAll(to_data, ["node", "bin"]);
    histogram(page, holder, "From a file's inode to its first data", "files", to_data, (bin, words) =>
      selection.choose(
        [...new Set(Array.from(node).filter((_, i) => bins[i] === bin))],
        `with inodes ${words} from their data`,
      ),
    );
  }
}

/** Bars by powers of two; a click on one chooses. */
function histogram(
  page: Payload,
  holder: HTMLElement,
  title: string,
  unit: string,
  h: Histogram,
  choose: (bin: number, words: string) => void,
): void {
  const [low, high] = powersOf(page);
  const before = Array.from({ length: Math.max(0, h.first_power - low) }, () => 0);
  const counts = h.counts.length ? [...before, ...h.counts] : [];
  const all = [h.touching, ...counts, ...Array.from({ length: Math.max(0, high - low - counts.length) }, () => 0)];
  // None of the names is a number: of few bars with one Plotly would make a scale of numbers.
  const names = ["0 B", ...all.slice(1).map((_, i) => bytesText(2 ** (low + i)))];
  const words = (bin: number) => (bin ? `${names[bin]} to ${bytesText(2 ** (low + bin))}` : "nothing");
  holder.append(element("h3", {}, title));
  plotIn(holder, "220px", title, async (self) => {
    const layout = plotLayout({
      xaxis: {
        title: { text: "distance, powers of two" },
        type: "category",
        nticks: 9,
        tickangle: 0,
        fixedrange: true,
      },
      yaxis: { title: { text: unit }, fixedrange: true },
    });
    const hovertemplate = `%{x} and up to twice as much: %{y:,} ${unit}<extra></extra>`;
    const marker = { color: hueOf(page.figure.roles, "main") };
    await plotly().react(self, [{ type: "bar", x: names, y: all, marker, hovertemplate }], layout, CONFIG);
    listen(self, "plotly_click", ({ points: [bar] }: Clicked) => {
      const own = bar!.pointNumber ? bar!.pointNumber - before.length : 0;
      if (bar) choose(own, words(bar.pointNumber));
    });
  });
  const rows = all.flatMap((count, bin) => (count ? [[words(bin), counted(count)]] : []));
  holder.append(textTable(title, () => ({ columns: ["distance", unit], rows })).box);
}

const MOST_ROWS = 20;
const UNITS: Unit[] = ["seconds", "entries", "bytes"];
const TEXTS = { seconds: secondsText, entries: counted, bytes: bytesText };

export function directoryPanel(page: Payload, drawn: Drawn, holder: HTMLElement): void {
  const d = drawn.disk.directories as Directories | null;
  holder.hidden = !d;
  if (!d) return;
  let unit: Unit = "seconds";
  const choose = list(
    "what the boxes measure",
    UNITS.map((one) => `by ${one}`),
    (place) => {
      unit = UNITS[place]!;
      words.refresh();
      return redraw(plot);
    },
  );
  const all = `${counted(d.total)} directories`;
  const note = d.shown < d.total ? `the ${counted(d.shown)} most expensive of ${all}, the others in one box` : all;
  holder.append(
    element("h3", {}, drawn.disk.title),
    element("div", { class: "bar" }, choose, element("span", { class: "muted" }, note)),
  );
  const plot = plotIn(holder, "420px", `directories of ${drawn.disk.title}`, async (self) => {
    const layout = plotLayout({ margin: { l: 4, r: 4, t: 4, b: 4 } });
    await plotly().react(self, [treemap(d, unit, hueOf(page.figure.roles, "main"))], layout, CONFIG);
    // The boxes go deeper by themselves; what lies in the one that was clicked is chosen everywhere.
    listen(self, "plotly_treemapclick", ({ points: [box] }: { points: { id: string; label: string }[] }) => {
      const nodes = drawn.owners.files.nodesOf(box!.id);
      if (nodes.length) drawn.selection.choose(nodes, `with the entries of “${box!.label}”`);
    });
  });
  const words = textTable(`directories of ${drawn.disk.title}`, () => directoryRows(d, unit));
  holder.append(words.box);
}

function directoryRows(d: Directories, unit: Unit) {
  const text = TEXTS[unit];
  const tree = withOthers(d, unit);
  const totals = subtreeTotals(tree);
  const places = new Map(tree.id.map((id, i) => [id as string | null, i]));
  const above = (i: number) => tree.name[places.get(tree.parent[i]!) ?? -1] ?? "";
  const ranked = [...totals.keys()].sort((a, b) => totals[b]! - totals[a]!);
  const rows = ranked.slice(0, MOST_ROWS).map((i) => [tree.name[i]!, above(i), text(totals[i]!), text(tree.own[i]!)]);
  const left = ranked.length - rows.length;
  const note =
    left > 0 ? `The ${MOST_ROWS} largest; ${plural(left, "more box").replace("boxs", "boxes")} on the plot.` : "";
  return { columns: ["directory", "in", `${unit} in all`, "in itself"], rows, note };
}

function treemap(d: Directories, unit: Unit, hue: string): Fields {
  const text = TEXTS[unit];
  const tree = withOthers(d, unit);
  const totals = subtreeTotals(tree);
  return {
    ...{ type: "treemap", ids: tree.id, labels: tree.name.map(plain), values: totals, branchvalues: "total" },
    parents: tree.parent.map((parent) => parent ?? ""),
    level: topmost(tree, totals),
    text: totals.map(text),
    customdata: tree.own.map(text),
    textinfo: "label+text",
    hovertemplate: "%{label}<br>%{text} in all, %{customdata} in itself<extra></extra>",
    ...{ maxdepth: 4, tiling: { pad: 2 }, root: { color: "rgba(0,0,0,0)" } },
    marker: {
      colors: tree.own,
      colorscale: [
        [0, isDark() ? "#20262e" : "#eef1f5"],
        [1, hue],
      ],
      line: { width: 1, color: colour("--bg") },
    },
  };
}
