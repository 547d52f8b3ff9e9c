// Unpacking: digits of base 85, deflate, byte planes, differences.

import type { PackedArray, PackedIds, PackedNodes } from "./payload";

const KINDS = {
  u1: Uint8Array,
  u2: Uint16Array,
  u4: Uint32Array,
  i4: Int32Array,
  f8: Float64Array,
};

export type Numbers = Uint8Array | Uint16Array | Uint32Array | Int32Array | Float64Array;

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

/** Identifiers of 64 bits, which doubles cannot hold whole, by place. */
export class Ids {
  constructor(
    readonly low: ArrayLike<number>,
    readonly high: ArrayLike<number>,
  ) {}

  get length(): number {
    return this.low.length;
  }

  text(i: number): string {
    return this.high[i] ? ((BigInt(this.high[i]!) << 32n) | BigInt(this.low[i]!)).toString() : String(this.low[i]!);
  }

  /** Where an identifier stands for the first time from a place on, before another, as far as they rise; -1: nowhere. */
  find(id: string, from = 0, to = this.length): number {
    const [high, low] = halves(id);
    const isBelow = (i: number) => this.high[i]! < high || (this.high[i] === high && this.low[i]! < low);
    const at = firstWhere(from, to, (i) => !isBelow(i));
    return at < to && this.high[at] === high && this.low[at] === low ? at : -1;
  }
}

/** An identifier's two halves; of what is no identifier, such as no other has. */
function halves(id: string): [number, number] {
  if (!/^\d{1,20}$/.test(id)) return [-1, -1];
  const whole = BigInt(id);
  return [Number(whole >> 32n), Number(whole & 0xffffffffn)];
}

/** The first of some places from which on something holds; the end where it never does. */
export function firstWhere(from: number, to: number, holds: (i: number) => boolean): number {
  let [low, high] = [from, to];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

export async function idsOf(packed: PackedIds): Promise<Ids> {
  const { low, high } = await unpackAll(packed, ["low", "high"]);
  return new Ids(low, high);
}

const COLUMNS = ["tree", "kind", "condition", "level", "offset", "size", "records", "xid", "fill", "cost"] as const;

export type NodeColumn = (typeof COLUMNS)[number];

export type Nodes = Record<NodeColumn, Numbers> &
  Pick<PackedNodes, "trees" | "classes" | "kinds" | "conditions" | "total"> &
  Record<"id" | "first" | "last", Ids> & {
    moves: Record<"change" | "other", Numbers> | null;
  };

export async function nodesOf(packed: PackedNodes): Promise<Nodes> {
  const columns = await unpackAll(packed, COLUMNS);
  const { trees, classes, kinds, conditions, total } = packed;
  const [id, first, last] = await Promise.all([packed.id, packed.first, packed.last].map(idsOf));
  const { change, other } = packed;
  const moves = change && other ? await unpackAll({ change, other }, ["change", "other"]) : null;
  return { ...columns, moves, trees, classes, kinds, conditions, total, id: id!, first: first!, last: last! };
}
