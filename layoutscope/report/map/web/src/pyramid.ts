// What cells hold, exactly: the page carries the narrowest level, each wider one is the sum of pairs of cells.

import type { Disk, PackedCells } from "./payload";
import { unpackAll } from "./unpack";

/** At least so many cells of a level make one cell of the picture, where there are so narrow ones. */
const SOME = 8;

/** Runs of cells that hold equally many units of a class, ascending; cells that hold none are in no run. */
export interface Runs {
  first: Float64Array;
  count: Float64Array;
  held: Float64Array;
}

/** Cells of the picture: `bytes` wide, each of some whole cells, `step` wide, of level `number`. */
export interface Width {
  bytes: number;
  step: number;
  number: number;
}

async function runsOf(packed: PackedCells): Promise<Runs> {
  const { gap, count, held } = await unpackAll(packed, ["gap", "count", "held"]);
  const first = new Float64Array(gap.length);
  for (let i = 0, at = 0; i < gap.length; i++) {
    at += gap[i]!;
    first[i] = at;
    at += count[i]! + 1;
  }
  return { first, count: Float64Array.from(count, (n) => n + 1), held: Float64Array.from(held) };
}

/** Takes runs in ascending order; what falls into the same cell twice is added up. */
class RunWriter {
  private readonly runs: Runs;
  private n = 0;

  constructor(most: number) {
    this.runs = { first: new Float64Array(most), count: new Float64Array(most), held: new Float64Array(most) };
  }

  put(first: number, count: number, held: number): void {
    const { runs, n } = this;
    if (n && first === runs.first[n - 1]! + runs.count[n - 1]! - 1) runs.held[n - 1]! += held;
    else {
      runs.first[n] = first;
      runs.count[n] = count;
      runs.held[n] = held;
      this.n++;
    }
  }

  done(): Runs {
    const { runs, n } = this;
    return { first: runs.first.slice(0, n), count: runs.count.slice(0, n), held: runs.held.slice(0, n) };
  }
}

/** The same in cells twice as wide. */
export function halved(runs: Runs): Runs {
  const out = new RunWriter(3 * runs.first.length);
  for (let i = 0; i < runs.first.length; i++) {
    let first = runs.first[i]!;
    const end = first + runs.count[i]!;
    const held = runs.held[i]!;
    if (first % 2) out.put((first++ - 1) / 2, 1, held);
    const pairs = Math.floor((end - first) / 2);
    if (pairs > 0) out.put(first / 2, pairs, 2 * held);
    if (first < end && (end - first) % 2) out.put((end - 1) / 2, 1, held);
  }
  return out.done();
}

/** The first run that ends behind a cell. */
function firstRun(runs: Runs, cell: number): number {
  let low = 0;
  let high = runs.first.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (runs.first[middle]! + runs.count[middle]! <= cell) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class Pyramid {
  readonly cell: number;
  readonly free: number;
  readonly levels: Runs[][];
  private readonly unit: number;
  private readonly size: number;

  constructor(disk: Disk, finest: Runs[]) {
    this.unit = disk.pyramid.unit;
    this.cell = disk.pyramid.cell;
    this.size = disk.size;
    this.free = disk.classes.findIndex((c) => c.group === "free");
    this.levels = [finest];
  }

  static async of(disk: Disk): Promise<Pyramid> {
    return new Pyramid(disk, await Promise.all(disk.pyramid.cells.map(runsOf)));
  }

  level(number: number): Runs[] {
    while (this.levels.length <= number) this.levels.push(this.levels[this.levels.length - 1]!.map(halved));
    return this.levels[number]!;
  }

  /** The narrowest cells, at least as wide as asked for, that are sums of whole cells of some level. */
  widthFor(bytes: number): Width {
    let number = 0;
    while (this.cell * 2 ** (number + 1) * SOME <= bytes) number++;
    const step = this.cell * 2 ** number;
    return { step, number, bytes: Math.max(step, Math.ceil(bytes / step) * step) };
  }

  /** Bytes of each class in each of some cells; `from` counts from the disk's start, in whole steps of the width. */
  held(from: number, width: Width, cells: number): Float64Array[] {
    const low = Math.round(from / width.step);
    const many = Math.round(width.bytes / width.step);
    const shares = this.level(width.number).map((runs) => this.heldBy(runs, low, many, cells));
    if (this.free >= 0) shares[this.free] = this.rest(shares, from, width, cells);
    return shares;
  }

  private heldBy(runs: Runs, low: number, many: number, cells: number): Float64Array {
    const out = new Float64Array(cells);
    const high = low + many * cells;
    for (let i = firstRun(runs, low); i < runs.first.length && runs.first[i]! < high; i++) {
      let at = Math.max(runs.first[i]!, low);
      const end = Math.min(runs.first[i]! + runs.count[i]!, high);
      const held = runs.held[i]! * this.unit;
      while (at < end) {
        const cell = Math.floor((at - low) / many);
        const stop = Math.min(end, low + (cell + 1) * many);
        out[cell]! += (stop - at) * held;
        at = stop;
      }
    }
    return out;
  }

  /** Free space has no runs: it is what the others leave of a cell. */
  private rest(shares: Float64Array[], from: number, width: Width, cells: number): Float64Array {
    const out = new Float64Array(cells);
    for (let c = 0; c < cells; c++) out[c] = Math.max(0, Math.min(width.bytes, this.size - from - c * width.bytes));
    shares.forEach((of, k) => {
      if (k !== this.free) for (let c = 0; c < cells; c++) out[c]! -= of[c]!;
    });
    return out;
  }
}
