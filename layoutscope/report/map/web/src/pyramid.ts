// What cells hold, exactly: the page carries the narrowest cells as runs; what wider ones hold is the difference of two
// sums of runs from the disk's start.

import type { Disk, PackedCells } from "./payload";
import { firstWhere, unpackAll } from "./unpack";

/** A cell of the picture begins at a whole number of steps, of which it has at least so many, where they are so narrow. */
const SOME = 8;

/**
 * Runs of cells that hold equally many units of a class, ascending; cells that hold none are in no run. `before` has the
 * units of all runs before each.
 */
export interface Runs {
  first: Float64Array;
  count: Float64Array;
  held: Float64Array;
  before: Float64Array;
}

/** Cells of the picture: `bytes` wide, a whole number of steps, which are the narrowest cells or 2, 4, 8… of them. */
export interface Width {
  bytes: number;
  step: number;
}

/** Runs as they are packed: the cells between one and the next, the cells of each but one, and what these hold. */
export function runsOf(gap: ArrayLike<number>, more: ArrayLike<number>, held: ArrayLike<number>): Runs {
  const [first, count, before] = Array.from({ length: 3 }, () => new Float64Array(gap.length));
  for (let i = 0, at = 0, units = 0; i < gap.length; i++) {
    at += gap[i]!;
    first![i] = at;
    count![i] = more[i]! + 1;
    before![i] = units;
    at += count![i]!;
    units += count![i]! * held[i]!;
  }
  return { first: first!, count: count!, held: Float64Array.from(held), before: before! };
}

async function unpacked(packed: PackedCells): Promise<Runs> {
  const { gap, count, held } = await unpackAll(packed, ["gap", "count", "held"]);
  return runsOf(gap, count, held);
}

export class Pyramid {
  readonly cell: number;
  readonly free: number;
  private readonly unit: number;
  private readonly size: number;

  constructor(
    disk: Disk,
    readonly finest: Runs[],
  ) {
    this.unit = disk.pyramid.unit;
    this.cell = disk.pyramid.cell;
    this.size = disk.size;
    this.free = disk.classes.findIndex((c) => !c.role);
  }

  static async of(disk: Disk): Promise<Pyramid> {
    return new Pyramid(disk, await Promise.all(disk.pyramid.cells.map(unpacked)));
  }

  /** The narrowest cells, at least as wide as asked for, that are whole steps. */
  widthFor(bytes: number): Width {
    let step = this.cell;
    while (step * 2 * SOME <= bytes) step *= 2;
    return { step, bytes: Math.max(step, Math.ceil(bytes / step) * step) };
  }

  /**
   * Bytes of each class in each of some stretches of a width, from a byte of the disk on: exact where both are whole
   * numbers of the narrowest cells, which are taken as evenly filled elsewhere.
   */
  held(from: number, width: number, cells: number): Float64Array[] {
    const [low, many] = [from / this.cell, width / this.cell];
    const shares = this.finest.map((runs) => this.heldBy(runs, low, many, cells));
    if (this.free >= 0) shares[this.free] = this.rest(shares, from, width, cells);
    return shares;
  }

  private heldBy({ first, count, held, before }: Runs, low: number, many: number, cells: number): Float64Array {
    const runs = first.length;
    let next = firstWhere(0, runs, (i) => first[i]! >= low); // the first run that begins at the edge or behind it
    const out = new Float64Array(cells);
    let below = 0;
    for (let c = -1; c < cells; c++) {
      const edge = low + (c + 1) * many;
      while (next < runs && first[next]! < edge) next++;
      const last = next - 1;
      const units = last < 0 ? 0 : before[last]! + Math.min(edge - first[last]!, count[last]!) * held[last]!;
      if (c >= 0) out[c] = (units - below) * this.unit;
      below = units;
      if (next === runs && last >= 0 && edge >= first[last]! + count[last]!) break; // nothing lies behind
    }
    return out;
  }

  /** Free space has no runs: it is what the others leave of a cell. */
  private rest(shares: Float64Array[], from: number, width: number, cells: number): Float64Array {
    const out = new Float64Array(cells);
    for (let c = 0; c < cells; c++) out[c] = Math.max(0, Math.min(width, this.size - from - c * width));
    shares.forEach((of, k) => {
      if (k !== this.free) for (let c = 0; c < cells; c++) out[c]! -= of[c]!;
    });
    return out;
  }
}
