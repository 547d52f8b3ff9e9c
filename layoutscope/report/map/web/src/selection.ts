// One choice of nodes for each disk: whoever makes it in one view, all views show it, and a table lists it.

import type { Nodes } from "./unpack";
import { bytesText, counted, plural } from "./words";

export class Selection {
  /** Places in the disk's nodes. */
  nodes: number[] = [];
  /** How it was chosen, as the table's title goes on. */
  about = "";
  private readonly listeners: (() => unknown)[] = [];

  constructor(readonly all: Nodes) {}

  choose(nodes: number[], about: string): void {
    this.nodes = nodes;
    this.about = nodes.length ? about : "";
    for (const listener of this.listeners) listener();
  }

  /** Choose the nodes for which something holds. */
  where(holds: (i: number) => boolean, about: string): void {
    const nodes: number[] = [];
    for (let i = 0; i < this.all.offset.length; i++) if (holds(i)) nodes.push(i);
    this.choose(nodes, about);
  }

  /** Choose the nodes that overlap a stretch of disk. */
  between(low: number, high: number): void {
    const { offset, size } = this.all;
    const about = `between bytes ${counted(low)} and ${counted(high)}`;
    this.where((i) => offset[i]! < high && offset[i]! + size[i]! > low, about);
  }

  /** Choose the nodes at some places of the disk. */
  at(places: Iterable<number>, about: string): void {
    const wanted = new Set(places);
    const { offset, size } = this.all;
    const block = 512;
    // A read may begin within a node that is larger than a page.
    this.where((i) => {
      for (let place = offset[i]!; place < offset[i]! + size[i]!; place += block) if (wanted.has(place)) return true;
      return false;
    }, about);
  }

  whenChosen(listener: () => unknown): void {
    this.listeners.push(listener);
  }

  told(): string {
    const bytes = this.nodes.reduce((sum, i) => sum + this.all.size[i]!, 0);
    return this.nodes.length ? `${plural(this.nodes.length, "node")} ${this.about}, ${bytesText(bytes)}` : "";
  }
}

export const COLUMNS = [
  "tree",
  "kind",
  "node",
  "byte",
  "size",
  "level",
  "records",
  "xid",
  "fill %",
  "ms to read",
  "first key",
  "last key",
];

/** A node as the table's cells. */
export function row(nodes: Nodes, i: number): string[] {
  return [
    nodes.trees[nodes.tree[i]!]!,
    nodes.kinds[nodes.kind[i]!]!,
    nodes.id(i),
    String(nodes.offset[i]!),
    String(nodes.size[i]!),
    nodes.level[i] === 255 ? "" : String(nodes.level[i]!),
    String(nodes.records[i]!),
    nodes.xid[i] ? String(nodes.xid[i]!) : "",
    nodes.fill[i] === 255 ? "" : String(nodes.fill[i]!),
    nodes.cost[i] ? String(nodes.cost[i]! / 1000) : "",
    nodes.first(i),
    nodes.last(i),
  ];
}

/** All chosen nodes as CSV; no cell holds a text of the image. */
export function csv({ all, nodes }: Selection): string {
  return [COLUMNS, ...nodes.map((i) => row(all, i))].map((cells) => `${cells.join(",")}\r\n`).join("");
}
