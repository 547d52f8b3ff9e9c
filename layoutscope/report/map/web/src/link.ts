// What is looked at, in the page's address: who opens the link sees the same.

import type { Range } from "./view";

const MARK = "#v=";

export interface Shown extends Range {
  drive: number;
  /** Which disk's cells are shown. */
  disk: number;
}

const WHOLE = ["low", "high", "drive", "disk"] as const;

export function written({ low, high, from, to, drive, disk }: Shown): string {
  const places = [low, high].map(Math.round);
  const times = [from, to].map((time) => +time.toPrecision(9));
  return MARK + [...places, ...times, drive, disk].join(",");
}

/** What an address says is shown; null where it says something else. */
export function read(hash: string): Shown | null {
  if (!hash.startsWith(MARK)) return null;
  const [low, high, from, to, drive, disk] = hash.slice(MARK.length).split(",").map(Number);
  const shown = { low: low!, high: high!, from: from!, to: to!, drive: drive!, disk: disk! };
  if (![from, to].every(Number.isFinite)) return null;
  if (!WHOLE.every((key) => Number.isInteger(shown[key]) && shown[key] >= 0)) return null;
  return shown.high > shown.low && shown.to > shown.from ? shown : null;
}
