// Whose nodes and files lie in a stretch of disk, and the text about each of them.

import { type File, Files } from "./files";
import { type Disk, ofVolume, type Tile } from "./payload";
import { pause } from "./turns";
import { type Nodes, type Numbers, nodesOf, unpackAll } from "./unpack";
import { bytesText, counted, plural, secondsText } from "./words";

/** So many tiles are unpacked for one view. */
const NAMED_TILES = 12;

/** A view that lasts so many milliseconds is looked at. */
const REST_MS = 60;

/** Nodes and files of which some are told by name. */
const TOLD_NODES = 3;
const TOLD_FILES = 4;

type Part = Record<"start" | "length" | "owner", Numbers>;

/** What is told first of a node that is not sound. */
const CONDITIONS: Record<string, string[]> = {
  damaged: ["damaged metadata block"],
  unread: ["metadata block that could not be read"],
  locked: ["locked metadata block"],
};
/** Kinds of nodes of whose contents nothing is known. */
const UNKNOWN = ["locked", "unreadable"];

export class Owners {
  private readonly unpacked = new Map<Tile, Part>();
  private parts: Part[] | null = null;
  private isWide = true;
  private asked = 0;

  private constructor(
    private readonly disk: Disk,
    readonly nodes: Nodes,
    readonly files: Files,
  ) {}

  static async of(disk: Disk): Promise<Owners> {
    return new Owners(disk, await nodesOf(disk.nodes), await Files.of(disk));
  }

  /** Make ready to tell of a view, where it is narrow enough to name what lies there. */
  async look(from: number, to: number): Promise<void> {
    this.parts = null;
    const turn = ++this.asked;
    const wanted = this.disk.owners.filter((tile) => tile.to > from && tile.from < to);
    this.isWide = wanted.length > NAMED_TILES;
    if (this.isWide) return;
    await pause(REST_MS); // of many views in a row the last one counts
    if (turn !== this.asked) return;
    const parts = await Promise.all(wanted.map((tile) => this.part(tile)));
    if (turn === this.asked) this.parts = parts; // else a newer view is looked at
    if (this.unpacked.size > 4 * NAMED_TILES) this.unpacked.clear();
  }

  private async part(tile: Tile): Promise<Part> {
    const known = this.unpacked.get(tile);
    if (known) return known;
    const part = await unpackAll(tile, ["start", "length", "owner"]);
    this.unpacked.set(tile, part);
    return part;
  }

  /** Say in lines what lies between two bytes. */
  lines(low: number, high: number): string[] {
    if (this.isWide) return ["zoom in to see whose nodes and files these are"];
    if (!this.parts) return ["whose nodes and files these are is being read"];
    const { nodes, files } = this.between(low, high, this.parts);
    const lines = nodes.slice(0, TOLD_NODES).map((i) => this.nodeText(i));
    if (nodes.length > TOLD_NODES) lines.push(`and ${plural(nodes.length - TOLD_NODES, "more node")}`);
    if (files.length) {
      const more = files.length > TOLD_FILES ? ` and ${plural(files.length - TOLD_FILES, "more file")}` : "";
      const told = files.slice(0, TOLD_FILES).map((i) => this.fileText(i));
      lines.push(`data of ${told.join(", ")}${more}`);
    }
    if (this.nodes.total > this.nodes.offset.length)
      lines.push(
        `of the disk's ${counted(this.nodes.total)} nodes ${counted(this.nodes.offset.length)} are named here`,
      );
    if (!this.disk.tells_files) lines.push("files are not named here: the disk has more extents than a page carries");
    return lines;
  }

  private between(low: number, high: number, parts: Part[]): { nodes: number[]; files: number[] } {
    const nodes = new Set<number>();
    const files = new Set<number>();
    for (const { start, length, owner } of parts)
      for (let i = 0; i < start.length; i++)
        if (start[i]! < high && start[i]! + length[i]! > low) {
          if (owner[i]! > 0) nodes.add(owner[i]! - 1);
          else files.add(-1 - owner[i]!);
        }
    return { nodes: [...nodes], files: [...files] };
  }

  /** Where all data of a file lies, in ascending order: first byte and length of each piece. */
  async extentsOf(file: File): Promise<[number, number][]> {
    const found: [number, number][] = [];
    const number = this.files.ownerOf(file);
    if (number < 0) return found;
    for (const tile of this.disk.owners) {
      const { start, length, owner } = await this.part(tile);
      for (let i = 0; i < start.length; i++) if (owner[i] === -1 - number) found.push([start[i]!, length[i]!]);
    }
    return found;
  }

  private fileText(i: number): string {
    const { volume, id } = this.files.owner(i);
    const path = this.files.path(volume, id);
    const when = volume < this.disk.earlier ? "" : " as it was";
    return (
      ofVolume(this.disk, volume) + (path === undefined ? `file ${id}` : `file ${id} “\u2068${path}\u2069”`) + when
    );
  }

  /** What happened to a node between two states. */
  private movesOf(i: number): string[] {
    const { moves } = this.nodes;
    if (!moves) return [];
    const other = `byte ${counted(moves.other[i]!)}`;
    return [["stayed", `moved here from ${other}`, "came", `moved away to ${other}`, "went"][moves.change[i]!]!];
  }

  nodeText(i: number): string {
    const n = this.nodes;
    if (i >= n.tree.length) return "a node past the page's budget of details";
    const volume = this.disk.volumes.findIndex(({ nodes }) => i < nodes[1]);
    const kind = n.kinds[n.kind[i]!]!;
    const isKnown = !UNKNOWN.includes(kind);
    return [
      ...(CONDITIONS[n.conditions[n.condition[i]!]!] ?? []),
      `${ofVolume(this.disk, volume)}${n.trees[n.tree[i]!]} ${isKnown ? `${kind} ` : ""}node ${n.id.text(i)}`,
      ...(n.level[i] === 255 ? [] : [`level ${n.level[i]}`]),
      ...(n.xid[i] ? [`xid ${n.xid[i]}`] : []),
      ...this.movesOf(i),
      ...(isKnown ? [`${n.records[i]} records`] : []),
      ...(n.fill[i] === 255 ? [] : [`${n.fill[i]} % full`]),
      ...(n.cost[i] ? [`${secondsText(n.cost[i]! / 1e6)} to read`] : []),
      ...(isKnown ? [`keys of ${n.first.text(i)} to ${n.last.text(i)}`] : []),
      n.offset[i]! < 0 ? "not on this disk" : `${bytesText(n.size[i]!)} at byte ${counted(n.offset[i]!)}`,
    ].join(" · ");
  }
}
