// Nodes coloured by a number of theirs instead of by their tree.

import { CELLS, hatchOn, type Ink, NO_NUMBER } from "./cells";
import { element, hatchedSwatch, swatch } from "./dom";
import type { Nodes } from "./unpack";
import { counted, secondsText } from "./words";

export const COLOURINGS = ["tree", "level", "age", "cost", "fill"] as const;
export type Colouring = (typeof COLOURINGS)[number];

/** Viridis, whose steps everybody sees rise, from low to high. */
const STEPS = ["#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725"];
/** In place of a level, or of how full a node is. */
const NONE = 255;

/** A number of each node, how it is told, and the range that the colours span. */
interface Measure {
  of: ArrayLike<number>;
  has: (value: number) => boolean;
  told: (value: number) => string;
  words: string;
  none: string;
  /** Steps of equal ratio instead of equal width. */
  byRatio?: boolean;
  span?: [number, number];
}

const seconds = (micro: number) => secondsText(micro / 1e6);

function measureOf(nodes: Nodes, by: Exclude<Colouring, "tree">, walk: string): Measure {
  const numbered = { told: counted, has: (xid: number) => xid > 0 };
  const measures: Record<typeof by, Measure> = {
    level: {
      of: nodes.level,
      has: (level) => level !== NONE,
      told: counted,
      words: "level, 0 at the leaves",
      none: "no level",
    },
    age: { of: nodes.xid, ...numbered, words: "transaction that wrote it", none: "no transaction known" },
    cost: {
      of: nodes.cost,
      has: (micro) => micro > 0,
      told: seconds,
      words: walk ? `time to read the node on a walk, ${walk}` : "time to read the node on a walk",
      none: "not read by it",
      byRatio: true,
    },
    fill: {
      of: nodes.fill,
      has: (share) => share !== NONE,
      told: (share) => `${share} %`,
      words: "how full it is",
      none: "not known",
      span: [0, 100],
    },
  };
  return measures[by];
}

export class Scale {
  /** Which of the hues each node has; -1 where it has no such number. */
  readonly steps: Int8Array;
  private low = Infinity;
  private high = -Infinity;
  private readonly measure: Measure;

  constructor(
    private readonly nodes: Nodes,
    readonly by: Exclude<Colouring, "tree">,
    walk: string,
  ) {
    this.measure = measureOf(nodes, by, walk);
    const { of, has, span } = this.measure;
    for (let i = 0; i < of.length; i++) {
      if (!has(of[i]!)) continue;
      this.low = Math.min(this.low, of[i]!);
      this.high = Math.max(this.high, of[i]!);
    }
    if (span && this.low <= this.high) [this.low, this.high] = span;
    this.steps = Int8Array.from(of, (value) => (has(value) ? this.step(value) : -1));
  }

  /** The hues, low to high, behind that of what has no such number. */
  get inks(): Ink[] {
    return [hatchOn(NO_NUMBER), ...STEPS.map((hue) => ({ hue }))];
  }

  private step(value: number): number {
    const [low, high, at] = this.measure.byRatio
      ? [this.low, this.high, value].map(Math.log)
      : [this.low, this.high, value];
    const share = high! > low! ? (at! - low!) / (high! - low!) : 0;
    return Math.min(STEPS.length - 1, Math.floor(share * STEPS.length));
  }

  /** What the hues mean, as lines of a legend. */
  key(): HTMLElement {
    const { words, none, told, byRatio } = this.measure;
    const key = element("div", { class: "bar legend muted scale" });
    const hatched = [hatchedSwatch(NO_NUMBER), `metadata of which this is not told: ${none}`];
    if (this.low > this.high) {
      key.append(`no node has a ${this.by} here; `, ...hatched);
      return key;
    }
    const ratio = (this.high / this.low) ** (1 / STEPS.length);
    const each = byRatio && ratio > 1.005 ? `each step ${ratio.toPrecision(2)} times the one before; ` : "";
    const past = this.nodes.total - this.nodes.offset.length;
    const left = past > 0 ? `, and ${counted(past)} nodes past those that the page carries` : "";
    const span = element(
      "span",
      { class: "span" },
      `${words}: ${told(this.low)} `,
      ...STEPS.map(swatch),
      ` ${told(this.high)}`,
    );
    key.append(span, `${each}of several nodes in a cell, the highest; `, hatched[0]!, `${hatched[1]}${left}; `);
    key.append("trees have their colours in the strip alone");
    return key;
  }
}

interface Cut {
  from: number;
  cellSize: number;
}

/** Give the cells of some nodes a colour; cells between them keep theirs. */
export function overpaint(
  picked: Uint16Array,
  { offset, size }: Pick<Nodes, "offset" | "size">,
  which: ArrayLike<number>,
  hue: number,
  { from, cellSize }: Cut,
): void {
  for (let n = 0; n < which.length; n++) {
    const low = offset[which[n]!]! - from;
    const last = Math.min(CELLS - 1, Math.floor((low + size[which[n]!]! - 1) / cellSize));
    for (let c = Math.max(0, Math.floor(low / cellSize)); c <= last; c++) picked[c] = hue;
  }
}

/** Give the cells of nodes the highest of their colours, which stand in rising order from `base` on. */
export function paintSteps(
  picked: Uint16Array,
  { offset, size }: Pick<Nodes, "offset" | "size">,
  which: ArrayLike<number>,
  steps: Int8Array,
  base: number,
  cut: Cut,
): void {
  const { from, cellSize } = cut;
  for (let n = 0; n < which.length; n++) {
    const i = which[n]!;
    if (steps[i]! < 0) continue;
    const hue = base + steps[i]!;
    const last = Math.min(CELLS - 1, Math.floor((offset[i]! + size[i]! - 1 - from) / cellSize));
    for (let c = Math.max(0, Math.floor((offset[i]! - from) / cellSize)); c <= last; c++)
      if (picked[c]! < hue) picked[c] = hue;
  }
}
