// Where the head is while the files are enumerated.

import { type Band, TRAIL } from "./band";
import { chosenTrace } from "./brush";
import { element, hueOf } from "./dom";
import { type Disk, labelOf, PLACES, placeRange, type Reads, type Scale, startText, type Walk } from "./payload";
import { CONFIG, type Fields, HUES, legendOf, plain, plotIn, plotLayout, plotly } from "./plots";
import type { Player } from "./race";
import { readsOf } from "./reads";
import type { Selection } from "./selection";
import { PARTS, type Told, textTable } from "./tables";
import { type Numbers, unpackAll } from "./unpack";
import { bytesText, counted, secondsText } from "./words";

const MOST_PLACES = 3000;

interface Marked {
  selection: Selection;
  onFilter: (() => void)[];
  showsTree(tree: string): boolean;
  mark(offsets: number[], head: number | null): unknown;
}

/** One choice of a drive for all disks: their walks are drawn on one scale of time. */
export class Drives {
  private readonly listeners: ((walk: Walk) => unknown)[] = [];

  constructor(private readonly disks: Disk[]) {}

  /** The most that something is of the walks on a drive. */
  most(drive: string, of: (walk: Walk) => number): number {
    const walks = this.disks.flatMap((disk) => disk.walks).filter((walk) => walk.drive === drive);
    return Math.max(0, ...walks.map(of));
  }

  choose(walk: Walk): void {
    for (const listener of this.listeners) listener(walk);
  }

  whenChosen(listener: (walk: Walk) => unknown): void {
    this.listeners.push(listener);
  }
}

type Unpacked = Record<"time" | "offset" | "length" | "tree", Numbers>;

interface Relayout {
  "xaxis.range"?: [number, number];
  "xaxis.range[0]"?: number;
  "xaxis.range[1]"?: number;
  "xaxis.autorange"?: boolean;
}

/** Draw a walk; returns what plays it, or null where there is none. */
export async function walkPanel(
  disk: Disk,
  holder: HTMLElement,
  map: Marked,
  band: Band,
  scale: Scale,
  drives: Drives,
): Promise<Player | null> {
  if (!disk.walks.length) {
    holder.append(element("p", { class: "muted" }, "No walk reads anything here."));
    return null;
  }
  const options = disk.walks.map((walk, i) => element("option", { value: i }, walk.label));
  const choose = element("select", { title: "drive" }, ...options);
  const note = element("span", { class: "muted" });
  holder.append(element("div", { class: "bar" }, choose, note));
  const key = element("div", {});
  holder.append(key);
  const plot = plotIn(holder, 460, `the walk of ${disk.title}: place on disk over time`);
  let walk = disk.walks[0]!;
  let reads: Unpacked;
  let last = 0;
  let isShown = false;
  const words = textTable(`the walk of ${disk.title}`, () => walkRows(disk, walk, reads));
  holder.append(words.box);
  const draw = async () => {
    walk = disk.walks[+choose.value]!;
    const { ticks, time, reads_of } = walk;
    const made = { time, ...(disk.walks[reads_of] as Reads) };
    reads = await unpackAll({ ...made, time }, ["time", "offset", "length", "tree"]);
    reads.time = reads.time.map((tick) => tick / ticks);
    note.textContent = `${walk.order}: ${told(walk)}; select a span of time to see its places in the map above. ${startText(disk)}`;
    map.mark([], null);
    const traces = [...walkTraces(disk, walk, reads), chosenTrace()];
    last = traces.length - 1;
    const layout = walkLayout(disk, scale, drives, walk.drive);
    await plotly().react(plot, traces, layout, CONFIG);
    key.replaceChildren(legendOf(plot, treeHues(traces)));
    showTrees();
    showReads();
    words.refresh();
  };
  const showTrees = () => {
    const trees = plot.data.flatMap(({ meta }, trace) => (typeof meta === "string" ? [{ meta, trace }] : []));
    if (!trees.length) return;
    const visible = trees.map(({ meta }) => map.showsTree(meta));
    plotly().restyle(
      plot,
      { visible },
      trees.map(({ trace }) => trace),
    );
  };
  const showReads = () => {
    const touched = readsOf(map.selection, reads);
    isShown = touched.length > 0;
    const x = touched.map((i) => reads.time[i]!);
    const y = touched.map((i) => (reads.offset[i]! - disk.start) / 2 ** 20);
    return plotly().restyle(plot, { x: [x], y: [y] }, [last]);
  };
  await draw();
  choose.addEventListener("change", () => drives.choose(disk.walks[+choose.value]!));
  // The other disks follow, as far as they have a walk on that drive: this very walk, or their first one.
  drives.whenChosen((chosen) => {
    const own = disk.walks.indexOf(chosen);
    const at = own < 0 ? disk.walks.findIndex(({ drive }) => drive === chosen.drive) : own;
    if (at < 0 || (own < 0 && disk.walks[+choose.value]!.drive === chosen.drive)) return;
    choose.value = String(at);
    return draw();
  });
  map.onFilter.push(showTrees);
  map.selection.afterChosen(() => (isShown || map.selection.nodes.length ? showReads() : undefined));
  const show = (places: number[], about: string) => {
    map.mark(thinned(places), null);
    map.selection.at(places, about);
  };
  plot.on("plotly_relayout", (change: Relayout) => {
    const [from, to] = change["xaxis.range"] ?? [change["xaxis.range[0]"], change["xaxis.range[1]"]];
    if (from === undefined || to === undefined) {
      if (change["xaxis.autorange"]) show([], "");
    } else if (+from > 0 || +to < walk.total_s)
      show(placesBetween(reads, +from, +to), `read between ${secondsText(Math.max(0, +from))} and ${secondsText(+to)}`);
    else show([], "");
  });
  return {
    total: () => walk.total_s,
    rest: () => {
      band.rest(walk);
      return map.mark([], null);
    },
    at: (now) => {
      const at = lastBefore(reads.time, now);
      const trail = Array.from(reads.offset.slice(Math.max(0, at - TRAIL), at + 1));
      band.show(trail, now, walk);
      return map.mark(trail.slice(0, -1), trail[trail.length - 1] ?? null);
    },
  };
}

const treeHues = (traces: Fields[]) =>
  traces.flatMap(({ meta, name, marker }) =>
    meta ? [{ text: String(name), hue: String((marker as Fields).color) }] : [],
  );

/** A walk in equal spans of time: how many reads and bytes, and between which places. */
function walkRows(disk: Disk, { total_s, step, rates }: Walk, { time, offset, length }: Unpacked): Told {
  const place = (at: number) => bytesText(at - disk.start);
  const rows = Array.from({ length: total_s ? PARTS : 0 }, (_, part) => {
    const [low, high] = [part, part + 1].map((n) => (n * total_s) / PARTS) as [number, number];
    const reads = Array.from(time.keys()).filter((i) => time[i]! >= low && (time[i]! < high || part === PARTS - 1));
    const own = reads.map((i) => offset[i]!);
    const seeks = reads.filter((i) => !i || offset[i] !== offset[i - 1]! + length[i - 1]!).length;
    const bytes = reads.reduce((all, i) => all + length[i]!, 0);
    const sum = (of: number[]) =>
      of.reduce((all, each, i) => {
        const middle = (i + 0.5) * rates.width;
        return middle >= low && middle < high ? all + each * rates.width : all;
      }, 0);
    const ends = own.length ? [Math.min(...own), Math.max(...own)].map(place) : ["", ""];
    const span = `${secondsText(low)} to ${secondsText(high)}`;
    return [
      span,
      counted(own.length),
      counted(step > 1 ? Math.round(sum(rates.seeks)) : seeks),
      bytesText(step > 1 ? Math.round(sum(rates.bytes)) : bytes),
      ...ends,
    ];
  });
  const drawn = step > 1 ? ` Reads are one in ${step}, those that are drawn.` : "";
  const about = step > 1 ? ", about" : "";
  const columns = ["time", "reads", `seeks${about}`, `read${about}`, "lowest place", "highest place"];
  return { columns, rows, note: `Equal spans of time; places are bytes from the disk's start.${drawn}` };
}

function told(walk: Walk): string {
  const drawn = walk.step > 1 ? `, of which one in ${walk.step} is drawn` : "";
  return `${counted(walk.reads)} reads in ${secondsText(walk.total_s)}${drawn}`;
}

function lastBefore(time: Numbers, now: number): number {
  let low = 0;
  let high = time.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (time[middle]! <= now) low = middle;
    else high = middle - 1;
  }
  return low;
}

function placesBetween(reads: Unpacked, from: number, to: number): number[] {
  return Array.from(reads.offset).filter((_, i) => reads.time[i]! >= from && reads.time[i]! <= to);
}

function thinned(places: number[]): number[] {
  const step = Math.max(1, Math.ceil(places.length / MOST_PLACES));
  return places.filter((_, i) => i % step === 0);
}

function walkTraces(disk: Disk, walk: Walk, reads: Unpacked): Fields[] {
  const points = walk.trees.map((name, tree) => {
    const own = Array.from(reads.tree.keys()).filter((i) => reads.tree[i] === tree);
    const known = disk.classes.find((c) => c.key === name);
    const x = own.map((i) => reads.time[i]!);
    return {
      type: "scattergl",
      mode: "markers",
      meta: name,
      name: plain(labelOf(disk, name)),
      x,
      y: own.map((i) => (reads.offset[i]! - disk.start) / 2 ** 20),
      marker: { size: 3, color: known ? hueOf(known) : HUES[tree % HUES.length] },
      hovertemplate: `%{x:.3f} s<br>%{y:,.1f} MiB<extra>${plain(labelOf(disk, name))}</extra>`,
    };
  });
  const { width, seeks, bytes } = walk.rates;
  const time = [...seeks.keys(), seeks.length].map((i) => i * width);
  // Steps: each rate is that of a whole span.
  const rate = (name: string, y: number[], yaxis: string, color: string): Fields => ({
    ...{ type: "scatter", mode: "lines", name, x: time, y: [...y, ...y.slice(-1)], yaxis, showlegend: false },
    line: { color, width: 1, shape: "hv" },
  });
  return [
    ...points.filter((trace) => trace.x.length),
    rate("seeks per second", seeks, "y2", HUES[1]),
    rate(
      "MB per second",
      bytes.map((b) => b / 1e6),
      "y3",
      HUES[2],
    ),
  ];
}

function walkLayout(disk: Disk, scale: Scale, drives: Drives, drive: string): Fields {
  const seconds = drives.most(drive, ({ total_s }) => total_s);
  const top = (of: "seeks" | "bytes") => 1.05 * drives.most(drive, ({ rates }) => Math.max(0, ...rates[of])) || 1;
  const rate = (most: number) => ({ range: [0, most], fixedrange: true });
  return plotLayout({
    xaxis: {
      title: { text: "seconds since the start of the walk" },
      range: [0, seconds || 1],
      anchor: "y3",
    },
    yaxis: { title: { text: PLACES }, domain: [0.42, 1], range: placeRange(disk, scale) },
    yaxis2: { title: { text: "seeks/s" }, domain: [0.22, 0.38], ...rate(top("seeks")) },
    yaxis3: { title: { text: "MB/s" }, domain: [0, 0.16], ...rate(top("bytes") / 1e6) },
    margin: { l: 70, r: 12, t: 8, b: 42 },
    dragmode: "zoom",
    showlegend: false,
  });
}
