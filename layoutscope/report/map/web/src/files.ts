// Files by path and number.

import type { Disk } from "./payload";
import { identifiers, inflateText, type Numbers, unpackAll } from "./unpack";

/** A file of one of the volumes that share the disk; `node` is the place of its inode's node, or -1. */
export interface File {
  volume: number;
  id: string;
  path: string;
  node: number;
}

interface Entry {
  volume: number;
  id: string;
  parent: string;
  name: string;
  node: number;
}

const key = (volume: number, id: string) => `${volume}:${id}`;

export class Files {
  private readonly place = new Map<string, number>();

  constructor(
    private readonly entries: Entry[],
    private readonly owners: { volume: Numbers; id: (i: number) => string },
  ) {
    entries.forEach(({ volume, id }, i) => {
      if (!this.place.has(key(volume, id))) this.place.set(key(volume, id), i);
    });
  }

  static async of(disk: Disk): Promise<Files> {
    const { volume } = await unpackAll(disk.files, ["volume"]);
    const owners = { volume, id: await identifiers(disk.files) };
    if (!disk.entries) return new Files([], owners);
    const { id, parent, names, ...columns } = disk.entries;
    const [ids, parents] = await Promise.all([identifiers(id), identifiers(parent)]);
    const { volume: volumes, node } = await unpackAll(columns, ["volume", "node"]);
    const entries = (JSON.parse(await inflateText(names)) as string[]).map((name, i) => {
      return { volume: volumes[i]!, id: ids(i), parent: parents(i), name, node: node[i]! };
    });
    return new Files(entries, owners);
  }

  get areNamed(): boolean {
    return this.entries.length > 0;
  }

  /** The file that an owner of data is. */
  owner(i: number): { volume: number; id: string } {
    return { volume: this.owners.volume[i]!, id: this.owners.id(i) };
  }

  /** Whether an owner of data is a file. */
  owns(i: number, file: File): boolean {
    return this.owners.volume[i] === file.volume && this.owners.id(i) === file.id;
  }

  /** Where a file is in its volume; undefined where the page has no name of it. */
  path(volume: number, id: string): string | undefined {
    const at = this.place.get(key(volume, id));
    return at === undefined ? undefined : this.pathOf(at);
  }

  private pathOf(entry: number): string {
    const parts: string[] = [];
    const passed = new Set<number>(); // a damaged directory may be its own ancestor
    for (let at: number | undefined = entry; at !== undefined && !passed.has(at); ) {
      const { volume, parent, name } = this.entries[at]!;
      const above = this.place.get(key(volume, parent));
      if (above !== undefined || !parts.length) parts.unshift(name); // the topmost is the volume itself
      passed.add(at);
      at = above;
    }
    return `/${parts.join("/")}`;
  }

  /** Places of the nodes that hold the inodes of what lies in a directory, told by volume and number, and its own. */
  nodesOf(folder: string): number[] {
    const own = this.entries.filter(
      ({ volume, id, parent, node }) => node >= 0 && (key(volume, parent) === folder || key(volume, id) === folder),
    );
    return [...new Set(own.map(({ node }) => node))];
  }

  /** Files whose path holds a text, in upper or lower case, or whose number it is: the first of them. */
  find(text: string, most: number): File[] {
    const wanted = text.toLowerCase();
    const last = wanted.slice(wanted.lastIndexOf("/") + 1);
    const found: File[] = [];
    for (let i = 0; i < this.entries.length && found.length < most; i++) {
      const { volume, id, name, node } = this.entries[i]!;
      if (id !== text && !name.toLowerCase().includes(last)) continue;
      const path = this.pathOf(i);
      if (id === text || path.toLowerCase().includes(wanted)) found.push({ volume, id, path, node });
    }
    return found;
  }
}
