// A disk as the page draws it: what its cells hold, whose they are, and the reads of its walks.

import { Owners } from "./owners";
import type { Disk, Reads as Packed, Walk } from "./payload";
import { Pyramid } from "./pyramid";
import { Selection } from "./selection";
import { unpackAll } from "./unpack";
import { bytesText, counted, secondsText, shareText } from "./words";

/** The reads of a disk on a drive, one volume after the other; places are bytes from the disk's start. */
export interface Reads {
  time: number[];
  place: number[];
  length: number[];
  role: string[];
  tree: string[];
  /** One in so many is here. */
  step: number;
}

const NONE: Reads = { time: [], place: [], length: [], role: [], tree: [], step: 1 };

/** Kinds of content that are told of a stretch. */
const TOLD = 5;

export class Drawn {
  reads: Reads = NONE;
  /** First bytes that somebody searched for, from the start of the image. */
  marks: number[] = [];

  private constructor(
    readonly disk: Disk,
    readonly pyramid: Pyramid,
    readonly owners: Owners,
    readonly selection: Selection,
  ) {}

  static async of(disk: Disk): Promise<Drawn> {
    const [pyramid, owners] = await Promise.all([Pyramid.of(disk), Owners.of(disk)]);
    return new Drawn(disk, pyramid, owners, new Selection(owners.nodes));
  }

  /** Take the walks on a drive. */
  async choose(drive: string): Promise<void> {
    const { walks, start } = this.disk;
    const own = walks.filter((walk) => walk.drive === drive && walk.order === walks[0]!.order);
    const reads: Reads = { time: [], place: [], length: [], role: [], tree: [], step: 1 };
    let before = 0;
    for (const walk of own) {
      const packed = { ...(walks[walk.reads_of] as Walk & Packed), time: walk.time };
      const { time, offset, length, tree } = await unpackAll(packed, ["time", "offset", "length", "tree"]);
      for (let i = 0; i < time.length; i++) {
        reads.time.push(before + time[i]! / walk.ticks);
        reads.place.push(offset[i]! - start);
        reads.length.push(length[i]!);
        reads.role.push(walk.roles[tree[i]!]!);
        reads.tree.push(walk.trees[tree[i]!]!);
      }
      reads.step = Math.max(reads.step, walk.step);
      before += walk.total_s;
    }
    this.reads = reads;
  }

  /** What a stretch holds by role, as shares of it, in equal bins. */
  bins(low: number, high: number, count: number): Map<string, Float64Array> {
    const width = (high - low) / count;
    const shares = new Map<string, Float64Array>();
    this.pyramid.held(low, width, count).forEach((held, k) => {
      const { role } = this.disk.classes[k]!;
      if (!role) return;
      const sum = shares.get(role) ?? new Float64Array(count);
      for (let i = 0; i < count; i++) sum[i]! += held[i]! / width;
      shares.set(role, sum);
    });
    return shares;
  }

  /** Say what lies in a stretch, in lines. */
  lines(low: number, high: number): string[] {
    const { start, size, classes, damage } = this.disk;
    const end = Math.min(high, size);
    if (low >= end) return ["past the end of this disk"];
    const told = this.pyramid
      .held(low, end - low, 1)
      .map((held, k) => ({ label: classes[k]!.label, bytes: held[0]! }))
      .filter(({ bytes }) => bytes >= 1)
      .sort((a, b) => b.bytes - a.bytes)
      .map(({ label, bytes }) => `${label} ${shareText(bytes / (end - low))}`);
    const more = told.length > TOLD ? [`${told.length - TOLD} more`] : [];
    return [
      `bytes ${counted(start + low)} to ${counted(start + end)}, ${bytesText(end - low)}`,
      [...told.slice(0, TOLD), ...more].join(" · "),
      ...damage.filter(({ at }) => at >= start + low && at < start + end).map(({ text }) => text),
      ...this.owners.lines(start + low, start + end),
    ];
  }

  /** Say what one of the reads is. */
  readLines(i: number): string[] {
    const { time, place, length, tree } = this.reads;
    const at = this.disk.start + place[i]!;
    const { offset, size } = this.owners.nodes;
    const node = offset.findIndex((from, k) => from < at + length[i]! && from + size[k]! > at);
    const lines = [`read at ${secondsText(time[i]!)}: ${tree[i]}, ${bytesText(length[i]!)} at byte ${counted(at)}`];
    if (node >= 0) lines.push(this.owners.nodeText(node));
    return lines;
  }
}
