// Unpacking: digits of base 85, deflate, byte planes, differences.

import type { PackedArray, PackedIds, PackedNodes, Payload } from "./payload";

const KINDS = {
  u1: Uint8Array,
  u2: Uint16Array,
  u4: Uint32Array,
  i4: Int32Array,
  f4: Float32Array,
  f8: Float64Array,
};

export type Numbers = Uint8Array | Uint16Array | Uint32Array | Int32Array | Float32Array | Float64Array;

const DIGITS = "!#$%()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_abcdefghijklmnopqrstuvwxyz{|";
const BASE = DIGITS.length;
const VALUES = new Uint8Array(128);
for (let i = 0; i < BASE; i++) VALUES[DIGITS.charCodeAt(i)] = i;

/** Four bytes of each five digits, the highest first; the very first digit says how many of the last do not count. */
export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const words = (text.length - 1) / 5;
  const view = new DataView(new ArrayBuffer(4 * words));
  for (let i = 0, at = 1; i < words; i++) {
    let word = 0;
    for (let k = 0; k < 5; k++) word = word * BASE + VALUES[text.charCodeAt(at++)]!;
    view.setUint32(4 * i, word);
  }
  return new Uint8Array(view.buffer, 0, 4 * words - VALUES[text.charCodeAt(0)]!);
}

export async function inflate(text: string): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export async function inflateText(text: string): Promise<string> {
  return new TextDecoder().decode(await inflate(text));
}

export async function unpack(packed: PackedArray): Promise<Numbers> {
  const planes = await inflate(packed.data);
  const kind = KINDS[packed.type];
  const width = kind.BYTES_PER_ELEMENT;
  const n = packed.n;
  const bytes = new Uint8Array(n * width);
  for (let p = 0; p < width; p++) for (let i = 0, at = p * n; i < n; i++) bytes[i * width + p] = planes[at + i]!;
  const values = new kind(bytes.buffer);
  return packed.delta ? sums(values) : values;
}

function sums(differences: Numbers): Float64Array {
  const out = new Float64Array(differences.length);
  let sum = 0;
  for (let i = 0; i < out.length; i++) {
    sum += differences[i]!;
    out[i] = sum;
  }
  return out;
}

export async function unpackAll<Key extends string>(
  object: { [key in Key]: PackedArray },
  keys: readonly Key[],
): Promise<Record<Key, Numbers>> {
  const arrays = await Promise.all(keys.map(async (key) => [key, await unpack(object[key])] as const));
  return Object.fromEntries(arrays) as Record<Key, Numbers>;
}

/** Identifiers of 64 bits, which doubles cannot hold whole, as decimal text by place. */
export async function identifiers(packed: PackedIds): Promise<(i: number) => string> {
  const { low, high } = await unpackAll(packed, ["low", "high"]);
  return (i) => ((BigInt(high[i]!) << 32n) | BigInt(low[i]!)).toString();
}

const COLUMNS = ["tree", "kind", "level", "offset", "size", "records", "xid", "rank", "fill", "cost"] as const;

export type Nodes = Record<(typeof COLUMNS)[number], Numbers> &
  Pick<PackedNodes, "trees" | "classes" | "kinds" | "total"> &
  Record<"id" | "first" | "last", (i: number) => string> & {
    moves: Record<"change" | "other", Numbers> | null;
  };

export async function nodesOf(packed: PackedNodes): Promise<Nodes> {
  const columns = await unpackAll(packed, COLUMNS);
  const { trees, classes, kinds, total } = packed;
  const [id, first, last] = await Promise.all([packed.id, packed.first, packed.last].map(identifiers));
  const { change, other } = packed;
  const moves = change && other ? await unpackAll({ change, other }, ["change", "other"]) : null;
  return { ...columns, moves, trees, classes, kinds, total, id: id!, first: first!, last: last! };
}

/** Unpack what is drawn of many small things. */
export async function unfold({ disks }: Payload): Promise<void> {
  for (const disk of disks)
    if (typeof disk.directories === "string") disk.directories = JSON.parse(await inflateText(disk.directories));
}
