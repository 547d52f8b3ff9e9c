// What a stretch of disk looks like as cells of equal size: each has one role, and as many have it as its bytes fill.

import type { MapClass } from "./payload";

export const MOST_COLUMNS = 256;
/** Columns for each row. */
const SHAPE = 4;

export interface Grid {
  columns: number;
  rows: number;
}

/** The columns and rows for so many cells: four times as wide as high, up to what a screen can show. */
export function gridOf(cells: number): Grid {
  let columns = SHAPE;
  while (columns < MOST_COLUMNS && (columns * columns) / SHAPE < cells) columns *= 2;
  return { columns, rows: Math.ceil(cells / columns) };
}

/**
 * Choose a role for each cell, as a place among the roles, -1 for free space. What is due of each role is carried from
 * cell to cell in the order of addresses, so that a role has as many cells as it fills with its bytes, and only cells
 * that hold some of it. A cell that holds anything damaged is damaged.
 */
export function paint(
  classes: MapClass[],
  held: Float64Array[],
  roles: string[],
  width: number,
): Int8Array<ArrayBuffer> {
  const cells = held[0]?.length ?? 0;
  const shares = [...roles, ""].map(() => new Float64Array(cells));
  held.forEach((of, k) => {
    const to = shares[roles.indexOf(classes[k]!.role) < 0 ? roles.length : roles.indexOf(classes[k]!.role)]!;
    for (let c = 0; c < cells; c++) to[c]! += of[c]! / width;
  });
  const due = new Float64Array(shares.length);
  const out = new Int8Array(cells);
  const damaged = roles.indexOf("damaged");
  for (let c = 0; c < cells; c++) {
    let best = -1;
    for (let k = 0; k < shares.length; k++) {
      const share = shares[k]![c]!;
      due[k]! += share;
      if (share > 0 && (best < 0 || due[k]! > due[best]!)) best = k;
    }
    if (damaged >= 0 && shares[damaged]![c]! > 0) best = damaged;
    if (best >= 0) due[best]! -= 1;
    out[c] = best === roles.length ? -1 : best;
  }
  return out;
}
