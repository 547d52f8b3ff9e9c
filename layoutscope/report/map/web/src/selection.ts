// The metadata blocks that somebody lists: rings around their cells, and a table to read, copy and keep.

import { button, element, save, table } from "./dom";
import type { Nodes } from "./unpack";
import { bytesText, counted, plural } from "./words";

/** Rows that are shown; copies and files hold all. */
const SHOWN = 12;

export class Selection {
  /** Places in the disk's nodes. */
  nodes: number[] = [];
  private about = "";
  private readonly listeners: (() => unknown)[] = [];

  constructor(readonly all: Nodes) {}

  choose(nodes: number[], about = ""): void {
    this.nodes = nodes;
    this.about = about;
    for (const listener of this.listeners) listener();
  }

  /** Choose the nodes that overlap a stretch of disk. */
  between(low: number, high: number): void {
    const { offset, size } = this.all;
    const nodes = [...offset.keys()].filter((i) => offset[i]! < high && offset[i]! + size[i]! > low);
    this.choose(nodes, `between bytes ${counted(low)} and ${counted(high)}`);
  }

  whenChosen(listener: () => unknown): void {
    this.listeners.push(listener);
  }

  title(): string {
    const bytes = this.nodes.reduce((sum, i) => sum + this.all.size[i]!, 0);
    return this.nodes.length ? `${plural(this.nodes.length, "node")} ${this.about}, ${bytesText(bytes)}` : "";
  }
}

export function chosenTable(selection: Selection): HTMLElement {
  const box = element("div", { class: "chosen", role: "status" });
  selection.whenChosen(() => box.replaceChildren(...(selection.nodes.length ? content(selection) : [])));
  return box;
}

function content(selection: Selection): HTMLElement[] {
  const { nodes, all } = selection;
  const text = () => csv(selection);
  const keep = () => save(new Blob([text()], { type: "text/csv" }), "nodes.csv");
  const bar = element(
    "div",
    { class: "bar" },
    element("b", {}, selection.title()),
    button("copy", "copy the table as CSV", () => navigator.clipboard.writeText(text())),
    button("save as CSV", "keep the table as a file", keep),
    button("clear selection", "list none of them", () => selection.choose([])),
  );
  const shown = table({ columns: COLUMNS, rows: nodes.slice(0, SHOWN).map((i) => row(all, i)) });
  const left = nodes.length - SHOWN;
  return [bar, shown, ...(left > 0 ? [element("p", { class: "muted" }, `and ${counted(left)} more`)] : [])];
}

const COLUMNS = [
  ...["tree", "kind", "node", "byte", "size", "level", "records", "xid", "fill %", "ms to read"],
  ...["first key", "last key", "condition"],
];

function row(n: Nodes, i: number): string[] {
  return [
    n.trees[n.tree[i]!]!,
    n.kinds[n.kind[i]!]!,
    n.id.text(i),
    String(n.offset[i]!),
    String(n.size[i]!),
    n.level[i] === 255 ? "" : String(n.level[i]!),
    String(n.records[i]!),
    n.xid[i] ? String(n.xid[i]!) : "",
    n.fill[i] === 255 ? "" : String(n.fill[i]!),
    n.cost[i] ? String(n.cost[i]! / 1000) : "",
    n.first.text(i),
    n.last.text(i),
    n.conditions[n.condition[i]!]!,
  ];
}

/** All chosen nodes as CSV; no cell holds a text of the image. */
export function csv({ all, nodes }: Selection): string {
  return [COLUMNS, ...nodes.map((i) => row(all, i))].map((cells) => `${cells.join(",")}\r\n`).join("");
}
