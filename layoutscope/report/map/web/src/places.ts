// Nodes by their addresses.

import { firstWhere, type Nodes } from "./unpack";

/** What nearly all addresses on disks are whole numbers of. */
const SECTOR = 512;

export class NodePlaces {
  private sorted: Uint32Array | null = null;
  private widest = 1;

  constructor(private readonly nodes: Pick<Nodes, "offset" | "size">) {}

  /** Places of the nodes that lie on this disk in the order of their addresses; sorted when they are asked for first. */
  get ordered(): Uint32Array {
    if (this.sorted) return this.sorted;
    const { offset, size } = this.nodes;
    for (let i = 0; i < size.length; i++) if (offset[i]! >= 0) this.widest = Math.max(this.widest, size[i]!);
    const many = offset.length;
    const isHere = (i: number) => offset[i]! >= 0;
    const isExact = (byte: number) => byte < 0 || (byte % SECTOR === 0 && (byte / SECTOR + 1) * many < 2 ** 53);
    if (offset.every(isExact)) {
      // Address and place in one number: numbers alone are sorted many times as fast.
      const keys = Float64Array.from(offset, (byte, i) => (byte < 0 ? -1 : (byte / SECTOR) * many + i)).sort();
      const here = keys.subarray(firstWhere(0, many, (k) => keys[k]! >= 0));
      this.sorted = Uint32Array.from(here, (key) => key % many);
    } else
      this.sorted = Uint32Array.from(offset.keys())
        .filter(isHere)
        .sort((a, b) => offset[a]! - offset[b]!);
    return this.sorted;
  }

  /** Places of the nodes that overlap a stretch of disk, and perhaps of some just before it, by their addresses. */
  near(low: number, high: number): Uint32Array {
    const { ordered } = this;
    const { offset } = this.nodes;
    const first = (byte: number) => firstWhere(0, ordered.length, (k) => offset[ordered[k]!]! >= byte);
    return ordered.subarray(first(low - this.widest + 1), first(high));
  }

  /** Give each node that overlaps a stretch to somebody, until he has seen enough. */
  some(low: number, high: number, isEnough: (i: number) => boolean): boolean {
    const { offset, size } = this.nodes;
    const { ordered } = this;
    const behind = low - this.widest + 1;
    for (let k = firstWhere(0, ordered.length, (at) => offset[ordered[at]!]! >= behind); k < ordered.length; k++) {
      const i = ordered[k]!;
      if (offset[i]! >= high) return false;
      if (offset[i]! + size[i]! > low && isEnough(i)) return true;
    }
    return false;
  }
}
