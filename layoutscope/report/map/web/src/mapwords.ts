// What a map shows, as rows: its stretch of disk in equal parts, and what each holds.

import { CELLS } from "./cells";
import type { Disk } from "./payload";
import { PARTS, type Told } from "./tables";
import { bytesText, counted, shareText } from "./words";

/** What stands in the map's cells. */
export interface Celled {
  readonly disk: Disk;
  readonly from: number;
  readonly cellSize: number;
  readonly current: Float64Array[];
  readonly hiddenBytes: Float64Array;
}

/** The cells of what is seen, summed up in equal parts; shares are of the part. */
export function mapWords({ disk, from, cellSize, current, hiddenBytes }: Celled): Told {
  const kinds = [
    ...disk.classes.map(({ label }, k) => ({ label, of: current[k]! })),
    { label: "hidden by the legend or the slider", of: hiddenBytes },
  ];
  const end = disk.start + disk.size;
  const rows: string[][] = [];
  const each = CELLS / PARTS;
  for (let part = 0; part < PARTS; part++) {
    const low = from + part * each * cellSize;
    const high = Math.min(low + each * cellSize, end);
    if (low >= high) break;
    const held = kinds
      .map(({ label, of }) => ({
        label,
        bytes: of.subarray(part * each, (part + 1) * each).reduce((a, b) => a + b, 0),
      }))
      .filter(({ bytes }) => bytes > 0)
      .sort((a, b) => b.bytes - a.bytes)
      .map(({ label, bytes }) => `${label} ${bytesText(bytes)} (${shareText(bytes / (high - low))})`);
    rows.push([counted(low), counted(high), held.join(", ")]);
  }
  const past = rows.length < PARTS ? ", without those past the end of the disk" : "";
  const note = `What is seen now, in ${PARTS} equal parts${past}; the table follows zoom, legend and slider.`;
  return { columns: ["from byte", "to byte", "what it holds"], rows, note };
}
