// Files by path and number.

import type { Disk, PackedEntries } from "./payload";
import { pause } from "./turns";
import { firstWhere, Ids, idsOf, inflateText, unpackAll } from "./unpack";
import { escaped } from "./words";

/** A file of one of the volumes that share the disk; `node` is the place of its inode's node, or -1. */
export interface File {
  volume: number;
  id: string;
  path: string;
  node: number;
}

/** Number of the directory that is the volume itself. */
const ROOT = 2;
/** Before each name: none holds one. */
const ZERO = "\0";
/** So many milliseconds are worked before the page may do something else. */
const SLICE_MS = 8;

/** A text as it is searched: composed, in lower case. */
const lower = (text: string) => text.normalize("NFC").toLowerCase();

/** Names that were packed together, as they are and as they are searched: composed, in lower case. */
export class Names {
  private readonly starts: Uint32Array;
  private readonly lower: string;
  private readonly lowerStarts: Uint32Array;

  constructor(private readonly text: string) {
    this.lower = lower(text);
    this.starts = startsOf(text);
    this.lowerStarts = this.lower === text ? this.starts : startsOf(this.lower);
  }

  get length(): number {
    return this.starts.length - 1;
  }

  at(i: number): string {
    return this.text.slice(this.starts[i], this.starts[i + 1]! - 1);
  }

  /** The next name from one on that holds a text; -1: none does. */
  next(from: number, wanted: string): number {
    if (from >= this.length) return -1;
    const { lower, lowerStarts: starts } = this;
    const found = lower.indexOf(wanted, starts[from]!);
    return found < 0 ? -1 : firstWhere(from, this.length, (i) => starts[i + 1]! > found);
  }

  begins(i: number, wanted: string): boolean {
    return this.lower.startsWith(wanted, this.lowerStarts[i]!);
  }
}

/** Where each name begins, and behind the last where another one would. */
function startsOf(text: string): Uint32Array {
  const starts: number[] = [];
  for (let at = text.indexOf(ZERO); at >= 0; at = text.indexOf(ZERO, at + 1)) starts.push(at + 1);
  starts.push(text.length + 1);
  return Uint32Array.from(starts);
}

/** So many packed texts are read before the map is shown, more of them behind it. */
const FEW = 7;

/** What the page has of the entries, by volume and number. */
export interface Columns {
  volume: ArrayLike<number>;
  node: ArrayLike<number>;
  id: Ids;
  above: ArrayLike<number>;
  orphan: Ids;
}

const NO_COLUMNS: Columns = { volume: [], node: [], id: new Ids([], []), above: [], orphan: new Ids([], []) };

export class Files {
  private names: Names[] = [];
  /** All names are there. */
  whole: Promise<unknown> = Promise.resolve();
  private asked = 0;
  private orphans: Map<number, number> | null = null;

  constructor(
    private readonly owners: { volume: ArrayLike<number>; id: Ids },
    private readonly columns: Columns = NO_COLUMNS,
    private readonly block = 1,
  ) {}

  static async of(disk: Disk): Promise<Files> {
    const { volume } = await unpackAll(disk.files, ["volume"]);
    const owners = { volume, id: await idsOf(disk.files) };
    const { packed } = disk.entries;
    if (!packed) return new Files(owners);
    const { volume: volumes, node, above } = await unpackAll(packed, ["volume", "node", "above"]);
    const [id, orphan] = await Promise.all([idsOf(packed.id), idsOf(packed.orphan)]);
    const files = new Files(owners, { volume: volumes, node, id, above, orphan }, packed.block);
    files.whole = files.read(packed);
    if (packed.names.length <= FEW) await files.whole;
    return files;
  }

  /** Unpack the names, a few between two pictures. */
  private async read({ names }: PackedEntries): Promise<void> {
    for (const packed of names) {
      this.add(await inflateText(packed));
      await pause();
    }
  }

  /** Take the names of the next entries, each behind a zero. */
  add(text: string): void {
    this.names.push(new Names(text));
  }

  get total(): number {
    return this.columns.id.length;
  }

  /** How many of the names are there already. */
  get readNames(): number {
    return Math.min(this.total, this.names.length * this.block);
  }

  /** The file that an owner of data is. */
  owner(i: number): { volume: number; id: string } {
    return { volume: this.owners.volume[i]!, id: this.owners.id.text(i) };
  }

  /** Which owner of data a file is; -1 where it has none on this disk. */
  ownerOf({ volume, id }: Pick<File, "volume" | "id">): number {
    const { volume: volumes, id: ids } = this.owners;
    return ids.find(id, ...within(volumes, volume));
  }

  /** Where a file is in its volume; undefined where the page has no name of it, or not yet. */
  path(volume: number, id: string): string | undefined {
    const at = this.place(volume, id);
    return at < 0 || this.readNames < this.total ? undefined : this.pathOf(at);
  }

  private place(volume: number, id: string): number {
    return this.columns.id.find(id, ...within(this.columns.volume, volume));
  }

  private name(entry: number): string {
    return this.names[Math.floor(entry / this.block)]!.at(entry % this.block);
  }

  private pathOf(entry: number): string {
    const { above } = this.columns;
    const parts: string[] = [];
    const passed = new Set<number>(); // a damaged directory may be its own ancestor
    let [at, topmost] = [entry, entry];
    for (; at >= 0 && !passed.has(at) && !this.isRoot(at); at = above[at]!) {
      parts.unshift(this.name(at));
      passed.add(at);
      topmost = at;
    }
    const lost = at < 0 ? this.lostOf(topmost) : passed.has(at) ? "in itself" : "";
    return `${lost && `(${lost})`}/${parts.map(escaped).join("/")}`;
  }

  /** The directory that an entry lies in, of which none is named so; nothing where that is the root. */
  private lostOf(entry: number): string {
    const { above, orphan } = this.columns;
    if (!this.orphans) {
      this.orphans = new Map();
      for (let i = 0; i < above.length; i++) if (above[i]! < 0) this.orphans.set(i, this.orphans.size);
    }
    const number = orphan.text(this.orphans.get(entry)!);
    return number === String(ROOT) ? "" : `directory ${number}`;
  }

  private isRoot(entry: number): boolean {
    const { id, above } = this.columns;
    return above[entry]! < 0 && id.low[entry] === ROOT && !id.high[entry];
  }

  private file(entry: number): File {
    const { volume, id, node } = this.columns;
    return { volume: volume[entry]!, id: id.text(entry), path: this.pathOf(entry), node: node[entry]! };
  }

  /**
   * Files whose path holds a text to the end of a name, in upper or lower case, or whose number it is: the first of
   * them. Undefined where another search began before this one was done.
   */
  async find(text: string, most: number): Promise<File[] | undefined> {
    const turn = ++this.asked;
    await this.whole;
    const found = this.numbered(text);
    const wanted = lower(text);
    const cut = wanted.lastIndexOf("/");
    const [folder, last] = [wanted.slice(0, Math.max(0, cut)), wanted.slice(cut + 1)];
    const isIn = (names: Names, i: number, entry: number) => {
      if (cut < 0) return true;
      const path = names.begins(i, last) ? lower(this.pathOf(entry)) : "";
      const above = path.slice(0, path.lastIndexOf("/"));
      return path !== "" && (wanted.startsWith("/") ? above === folder : above.endsWith(folder));
    };
    let began = performance.now();
    search: for (const [k, names] of this.names.entries())
      for (let from = 0; from < names.length; ) {
        const i = names.next(from, last);
        from = i < 0 ? names.length : i + 1;
        const entry = k * this.block + i;
        if (i >= 0 && !found.includes(entry) && isIn(names, i, entry)) found.push(entry);
        if (found.length >= most) break search;
        if (performance.now() - began < SLICE_MS) continue;
        await pause();
        if (turn !== this.asked) return undefined;
        began = performance.now();
      }
    return turn === this.asked ? found.slice(0, most).map((entry) => this.file(entry)) : undefined;
  }

  /** The entries of a number, of each volume. */
  private numbered(id: string): number[] {
    const { volume, id: ids } = this.columns;
    const volumes = this.total ? volume[this.total - 1]! + 1 : 0;
    return Array.from({ length: volumes }, (_, number) => ids.find(id, ...within(volume, number))).filter(
      (entry) => entry >= 0,
    );
  }
}

/** The places of a volume among entries or files, which are sorted by their volumes. */
function within(volumes: ArrayLike<number>, volume: number): [number, number] {
  const place = (least: number) => firstWhere(0, volumes.length, (i) => volumes[i]! >= least);
  return [place(volume), place(volume + 1)];
}
