// What the page is given: the JSON that layoutscope/report/map/page.py writes.

import { counted } from "./words";

export interface PackedArray {
  type: "u1" | "u2" | "u4" | "i4" | "f4" | "f8";
  n: number;
  delta: boolean;
  data: string;
}

export interface MapClass {
  key: string;
  label: string;
  group: "metadata" | "data" | "free" | "unknown";
  light: string;
  dark: string;
  bytes: number;
  pieces: number;
}

export interface PackedCells {
  gap: PackedArray;
  count: PackedArray;
  held: PackedArray;
}

export interface Tile {
  from: number;
  to: number;
  start: PackedArray;
  length: PackedArray;
  owner: PackedArray;
}

export interface PackedIds {
  low: PackedArray;
  high: PackedArray;
}

export interface PackedNodes {
  trees: string[];
  classes: number[];
  kinds: string[];
  conditions: string[];
  tree: PackedArray;
  kind: PackedArray;
  condition: PackedArray;
  level: PackedArray;
  offset: PackedArray;
  size: PackedArray;
  records: PackedArray;
  xid: PackedArray;
  rank: PackedArray;
  fill: PackedArray;
  cost: PackedArray;
  id: PackedIds;
  first: PackedIds;
  last: PackedIds;
  total: number;
  /** Where two states are set against each other: what happened to each node, and its address in the other state. */
  change?: PackedArray;
  other?: PackedArray;
}

/** Whose data the owners are: volume and number of each file. */
export interface PackedFiles extends PackedIds {
  volume: PackedArray;
}

/** The directories of all volumes, by volume and number: what each entry is called, and in which node its inode lies. */
export interface PackedEntries {
  volume: PackedArray;
  node: PackedArray;
  id: PackedIds;
  /** The first entry of the directory that each lies in; -1 where none names it. */
  above: PackedArray;
  /** The numbers of those directories, one for each -1. */
  orphan: PackedIds;
  /** So many names are in each of the packed texts, each behind a zero. */
  block: number;
  names: string[];
}

/** What is known of the entries; where the page has none of them, how many there are, and why. */
export interface Entries {
  total: number;
  withheld: boolean;
  packed: PackedEntries | null;
}

/** Reads of a walk. */
export interface Reads {
  offset: PackedArray;
  length: PackedArray;
  tree: PackedArray;
}

export interface Walk extends Partial<Reads> {
  label: string;
  /** The volume, where its disk has several. */
  name: string;
  order: string;
  /** The drive alone, without the volume. */
  drive: string;
  /** First and last byte that are read; null where nothing is. */
  reach: [number, number] | null;
  total_s: number;
  reads: number;
  step: number;
  trees: string[];
  /** So many are a second of the times. */
  ticks: number;
  time: PackedArray;
  /** Which walk's reads these are. */
  reads_of: number;
  rates: { width: number; seeks: number[]; bytes: number[] };
}

export interface Cost {
  drive: string;
  order: string;
  causes: Record<string, number>;
  best_s: number | null;
  best: string;
  interval_s: [number, number] | null;
}

export interface Picture {
  x: [number, number];
  y: [number, number];
  columns: number;
  rows: number;
  counts: PackedArray;
}

export interface Histogram {
  touching: number;
  first_power: number;
  counts: number[];
  total: number;
}

/** In which bin each read is that the page draws; 0 is what touches, the next one the first power's. */
export interface ReadDistances extends Histogram {
  reads: PackedArray;
}

/** Of each file with data, the place of the node with its inode, and its bin. */
export interface FileDistances extends Histogram {
  node: PackedArray;
  bin: PackedArray;
}

/** A volume, or what they share: its name, where its disk has several, and which of the nodes are its own. */
export interface Volume {
  name: string;
  nodes: [number, number];
}

/** Leaves of a tree in key order, of one of the volumes. */
export interface KeyOrder {
  volume: number;
  tree: string;
  total: number;
  picture: Picture;
}

export type Unit = "seconds" | "entries" | "bytes";

export interface Directories extends Record<Unit, number[]> {
  id: string[];
  parent: (string | null)[];
  name: string[];
  whole: Record<Unit, number>;
  shown: number;
  total: number;
}

export interface History {
  low: number;
  high: number;
  picture: Picture;
  states: { label: string; xid: number }[];
}

export interface Disk {
  title: string;
  start: number;
  size: number;
  used: number;
  block: number;
  volumes: Volume[];
  classes: MapClass[];
  pyramid: { unit: number; cell: number; cells: PackedCells[] };
  owners: Tile[];
  tells_files: boolean;
  nodes: PackedNodes;
  files: PackedFiles;
  entries: Entries;
  walks: Walk[];
  costs: Cost[];
  /** Packed, until the page is started. */
  directories: Directories | string | null;
  distances: {
    seek: ReadDistances | null;
    to_data: FileDistances;
    key_order: KeyOrder[];
  };
  history: History | null;
  /** So many volumes are of the later state, or of the only one; the others are of the earlier. */
  earlier: number;
}

/** The same for all disks, so that they are drawn on one scale: bytes of the largest, bytes of interest. */
export interface Scale {
  span: number;
  used: number;
  /** Bytes that pictures of places of nodes span. */
  reach: number;
}

/** Between which bytes of a disk, from its start, what the pictures of order and walk show lies. */
export function spreadOf(disk: Disk): [number, number] {
  const reads = disk.walks.map(({ reach }) => (reach ?? []).map((place) => place - disk.start));
  const leaves = disk.distances.key_order.map(({ picture }) => picture.y.map((place) => place * 2 ** 20));
  const places = [...reads, ...leaves].flat();
  return places.length ? [Math.min(...places), Math.max(...places)] : [0, disk.used || disk.size];
}

/** The widest of these spans. */
export function reachOf(disks: Disk[]): number {
  return Math.max(...disks.map(spreadOf).map(([low, high]) => high - low));
}

/** The same span for every disk, about where its nodes lie: an axis of places, in MiB. */
export function placeRange(disk: Disk, scale: Scale): [number, number] {
  const low = Math.max(0, Math.min(spreadOf(disk)[0], disk.size - scale.reach)); // a disk ends where it ends
  return [(low - 0.04 * scale.reach) / 2 ** 20, (low + 1.04 * scale.reach) / 2 ** 20];
}

/** The name of a volume before what is told of it, where its disk has several. */
export function ofVolume({ volumes }: Pick<Disk, "volumes">, place: number): string {
  const name = volumes[place]?.name;
  return name ? `${name}: ` : "";
}

/** What an axis of places says. */
export const PLACES = "place on disk, MiB";

/** From where places on a disk count, where that is not the start of the image, as in a partition. */
export function startText({ start }: Pick<Disk, "start">): string {
  return start ? `Places count from byte ${counted(start)}, where this disk begins.` : "";
}

/** A tree as the legend calls it. */
export function labelOf(disk: Disk, tree: string): string {
  return disk.classes.find(({ key }) => key === tree)?.label ?? tree;
}

export interface Payload {
  disks: Disk[];
  scale: Omit<Scale, "reach">;
}
