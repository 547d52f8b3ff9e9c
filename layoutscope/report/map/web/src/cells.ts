// How addresses run through the picture, and which colour a cell has.

import { type Hue, hueOf, isDark, shade } from "./dom";
import type { MapClass } from "./payload";

export const CELLS = 16384;

export const ORDERS = ["linear", "snake", "hilbert"] as const;
export type Order = (typeof ORDERS)[number];

export interface Places {
  columns: number;
  rows: number;
  column: Uint16Array;
  row: Uint16Array;
  cell: Int32Array;
}

export function hilbert(side: number, distance: number): [number, number] {
  let [x, y, d] = [0, 0, distance];
  for (let s = 1; s < side; s *= 2) {
    const rx = 1 & (d / 2);
    const ry = 1 & (d ^ rx);
    if (ry === 0) {
      if (rx === 1) [x, y] = [s - 1 - x, s - 1 - y];
      [x, y] = [y, x];
    }
    x += s * rx;
    y += s * ry;
    d = Math.floor(d / 4);
  }
  return [x, y];
}

export function cellPlaces(order: Order): Places {
  const [columns, rows] = order === "hilbert" ? [128, 128] : [256, 64];
  const places = {
    columns,
    rows,
    column: new Uint16Array(CELLS),
    row: new Uint16Array(CELLS),
    cell: new Int32Array(CELLS),
  };
  for (let i = 0; i < CELLS; i++) {
    let [x, y] = order === "hilbert" ? hilbert(columns, i) : [i % columns, Math.floor(i / columns)];
    if (order === "snake" && y % 2) x = columns - 1 - x;
    places.column[i] = x;
    places.row[i] = y;
    places.cell[y * columns + x] = i;
  }
  return places;
}

/** Least share of metadata in a cell for each shade, strongest first, and how much of its colour the shade has. */
export const SHADES: [number, number][] = [
  [0.5, 1],
  [0.2, 0.85],
  [0.05, 0.68],
  [0.02, 0.52],
  [0.005, 0.38],
  [0, 0.25],
];

/** What the legend or the slider hides is neither free nor unknown. */
export const HIDDEN = { light: "#E6E0F0", dark: "#332E40" };

/** What is chosen has a colour of its own, too. */
export const CHOSEN = { light: "#e000c8", dark: "#ff7bf0" };

const LEAST = SHADES.map(([least]) => least);

export function shadeOf(share: number): number {
  let shade = 0;
  while (share < LEAST[shade]!) shade++;
  return shade;
}

/** What has no colour of its own among those of a scale. */
export const NO_NUMBER = { light: "#d4d7db", dark: "#3a4049" };

/** A cell's colour, and that of the lines over it where it must be told from all else without its colour. */
export interface Ink {
  hue: string;
  hatch?: string;
}

/** What must be told from all else without its colour. */
export const HATCHED = new Set(["damaged", "unclaimed", "unread", "not-told"]);

/** Lines that are seen on a colour. */
export const hatchOn = (c: Hue): Ink => ({ hue: hueOf(c), hatch: isDark() ? "#000000" : "#ffffff" });

/** Metadata of which a cell is marked wherever it holds some: a node among many would leave no trace in the shade. */
const MARKED = "damaged";

/** How many colours there are of cells of which nothing is marked. */
export const numPlain = (classes: MapClass[]): number => classes.length * SHADES.length + 2;

/** The colours of all cells: nothing, each class in each shade, hidden; then the same with lines for what is marked. */
export function palette(classes: MapClass[]): Ink[] {
  const shades = classes.flatMap((c) =>
    SHADES.map(([, strength]) => ({
      ...(HATCHED.has(c.key) ? hatchOn(c) : {}),
      hue: shade(hueOf(c), strength),
    })),
  );
  const plain: Ink[] = [{ hue: isDark() ? "#14171b" : "#ffffff" }, ...shades, { hue: hueOf(HIDDEN) }];
  const marked = classes.find(({ key }) => key === MARKED);
  return marked ? [...plain, ...plain.map(({ hue }) => ({ hue, hatch: hueOf(marked) }))] : plain;
}

/** The cells' colours with another one for all metadata, whatever its shade. */
export function withoutMetadata(picked: Uint16Array, classes: MapClass[], instead: number): void {
  const isMetadata = classes.map(({ group }) => group === "metadata");
  const plain = numPlain(classes);
  for (let c = 0; c < picked.length; c++)
    if (isMetadata[Math.floor(((picked[c]! % plain) - 1) / SHADES.length)]) picked[c] = instead;
}

/**
 * Choose each cell's colour, as a place in the palette. Metadata shows through whatever shares its cell, in a shade by
 * its share; else the cell is of what fills most of it, hidden things included. Where it holds damaged metadata among
 * other things, lines over it say so.
 */
export function colours(
  classes: MapClass[],
  held: Float64Array[],
  hidden: Float64Array,
  cellSize: number,
): Uint16Array {
  const cells = hidden.length;
  const other = Float64Array.from(hidden);
  const most = new Float64Array(cells);
  const metadata = new Float64Array(cells);
  const out = Uint16Array.from(hidden, (bytes) => (bytes > 0 ? 1 + classes.length * SHADES.length : 0));
  held.forEach((of, k) => {
    const colour = 1 + k * SHADES.length;
    if (classes[k]!.group !== "metadata") mark(of, other, out, colour, most);
    else {
      mark(of, most, out, colour);
      for (let c = 0; c < cells; c++) metadata[c]! += of[c]!;
    }
  });
  for (let c = 0; c < cells; c++) if (most[c]) out[c]! += shadeOf(metadata[c]! / cellSize);
  const damaged = classes.findIndex(({ key }) => key === MARKED);
  if (damaged >= 0) markAll(held[damaged]!, out, 1 + damaged * SHADES.length, numPlain(classes));
  return out;
}

/** What holds most of each cell's metadata, what is marked before all, and the share of all of it, as in the bands. */
export function mostOf(
  classes: MapClass[],
  held: Float64Array[],
  metadata: number[],
  cellSize: number,
): { most: number; share: number }[] {
  const marked = metadata.find((k) => classes[k]!.key === MARKED);
  return Array.from(held[0] ?? [], (_, i) => {
    const own = metadata.map((k) => held[k]![i]!);
    const worst = marked !== undefined && held[marked]![i]! > 0 ? marked : metadata[own.indexOf(Math.max(...own))];
    return { most: worst ?? 0, share: own.reduce((sum, bytes) => sum + bytes, 0) / cellSize };
  });
}

/** Give every cell that holds some of a class, and has not its colour already, the colour with lines. */
function markAll(of: Float64Array, out: Uint16Array, colour: number, plain: number): void {
  for (let c = 0; c < of.length; c++)
    if (of[c]! > 0 && !(out[c]! >= colour && out[c]! < colour + SHADES.length)) out[c]! += plain;
}

/** Colour the cells of which a class holds more than any before it, but for those that something stands over. */
function mark(of: Float64Array, most: Float64Array, out: Uint16Array, colour: number, over?: Float64Array): void {
  for (let c = 0; c < of.length; c++) {
    if (!(of[c]! > most[c]!)) continue;
    most[c] = of[c]!;
    if (!over?.[c]) out[c] = colour;
  }
}
