// What the page is given: the JSON that layoutscope/report/map/page.py writes.

import type { NodeColumn } from "./unpack";

export interface PackedArray {
  type: "u1" | "u2" | "u4" | "i4" | "f8";
  n: number;
  delta: boolean;
  data: string;
}

export interface MapClass {
  key: string;
  label: string;
  /** Empty for free space. */
  role: string;
  bytes: number;
}

export type PackedCells = Record<"gap" | "count" | "held", PackedArray>;

export interface Tile extends Record<"start" | "length" | "owner", PackedArray> {
  from: number;
  to: number;
}

export type PackedIds = Record<"low" | "high", PackedArray>;

export interface PackedNodes extends Record<NodeColumn, PackedArray>, Record<"id" | "first" | "last", PackedIds> {
  trees: string[];
  classes: number[];
  kinds: string[];
  conditions: string[];
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
export type Reads = Record<"offset" | "length" | "tree", PackedArray>;

export interface Walk extends Partial<Reads> {
  /** The volume, where its disk has several. */
  name: string;
  order: string;
  drive: string;
  total_s: number;
  reads: number;
  step: number;
  /** What the trees are called, and the roles that they have. */
  trees: string[];
  roles: string[];
  /** So many are a second of the times. */
  ticks: number;
  time: PackedArray;
  /** Which walk's reads these are. */
  reads_of: number;
}

/** A volume, or what they share: its name, where its disk has several, and which of the nodes are its own. */
export interface Volume {
  name: string;
  nodes: [number, number];
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
  /** Blocks that are damaged, and of which no node is known: what is said of them. */
  damage: { at: number; text: string }[];
  /** So many volumes are of the later state, or of the only one; the others are of the earlier. */
  earlier: number;
}

/** The name of a volume before what is told of it, where its disk has several. */
export function ofVolume({ volumes }: Pick<Disk, "volumes">, place: number): string {
  const name = volumes[place]?.name;
  return name ? `${name}: ` : "";
}

/** A figure as Python makes it, without what its traces show. */
export interface FigureMade {
  data: Record<string, unknown>[];
  layout: Record<string, unknown>;
  /** Bytes of each disk that are first shown, and the unit of positions. */
  span: number;
  unit: [number, string];
  bins: number;
  dots: number;
  /** Units of the time axis: from how many seconds on, their length, their name. */
  times: [number, number, string][];
  /** What bytes are there for; the page has no other colors. */
  roles: string[];
}

/** What the first screen says of a drive. */
export interface DriveWords {
  drive: string;
  headline: string;
  why: string;
  seconds: number;
  ends: { shape: Record<string, unknown>; label: Record<string, unknown> }[];
}

export interface Payload {
  disks: Disk[];
  figure: FigureMade;
  drives: DriveWords[];
  /** The charts of each disk by the parts of the page, packed. */
  charts: string[];
}
