// Nodes coloured by a number of theirs instead of by their tree.

import { CELLS } from "./cells";
import { element, swatch } from "./dom";
import type { Nodes } from "./unpack";
import { counted } from "./words";

export const COLOURINGS = ["tree", "level", "age"] as const;
export type Colouring = (typeof COLOURINGS)[number];

/** Viridis, whose steps everybody sees rise, from low to high. */
const STEPS = ["#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725"];
const NO_LEVEL = 255;

/** A number of each node, and the range that the colours span. */
interface Measure {
  of: ArrayLike<number>;
  has: (value: number) => boolean;
  words: string;
}

function measureOf(nodes: Nodes, by: Colouring): Measure {
  if (by === "level") return { of: nodes.level, has: (level) => level !== NO_LEVEL, words: "level" };
  return { of: nodes.xid, has: (xid) => xid > 0, words: "transaction" };
}

export class Scale {
  private low = Infinity;
  private high = -Infinity;
  private readonly measure: Measure;

  constructor(nodes: Nodes, by: Colouring) {
    this.measure = measureOf(nodes, by);
    const { of, has } = this.measure;
    for (let i = 0; i < of.length; i++) {
      if (!has(of[i]!)) continue;
      this.low = Math.min(this.low, of[i]!);
      this.high = Math.max(this.high, of[i]!);
    }
  }

  get hues(): string[] {
    return STEPS;
  }

  /** Which of the hues a node has; -1 where it has no such number. */
  step(i: number): number {
    const { of, has } = this.measure;
    if (!has(of[i]!)) return -1;
    const share = this.high > this.low ? (of[i]! - this.low) / (this.high - this.low) : 0;
    return Math.min(STEPS.length - 1, Math.floor(share * STEPS.length));
  }

  /** What the hues mean, as a line of a legend. */
  key(): HTMLElement {
    const { words } = this.measure;
    const none = `no node has a ${words} here`;
    const key = element("div", { class: "bar legend muted" }, this.low > this.high ? none : `${words}: `);
    if (this.low <= this.high) key.append(counted(this.low), ...STEPS.map(swatch), counted(this.high));
    return key;
  }
}

/** Give the cells of some nodes a colour; cells between them keep theirs. */
export function overpaint(
  picked: Uint16Array,
  nodes: Nodes,
  which: Iterable<number>,
  colour: (i: number) => number,
  { from, cellSize }: { from: number; cellSize: number },
): void {
  const { offset, size } = nodes;
  for (const i of which) {
    const hue = colour(i);
    if (hue < 0) continue;
    const first = Math.max(0, Math.floor((offset[i]! - from) / cellSize));
    const last = Math.min(CELLS - 1, Math.floor((offset[i]! + size[i]! - 1 - from) / cellSize));
    picked.fill(hue, first, Math.max(first, last + 1));
  }
}
