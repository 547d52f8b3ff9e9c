import assert from "node:assert/strict";
import test from "node:test";
import { type Disk, placeRange, reachOf, type Scale } from "../src/payload";

const MIB = 2 ** 20;

const disk = (start: number, size: number, reads: [number, number], leaves: [number, number]) =>
  ({
    start: start * MIB,
    size: size * MIB,
    walks: [{ reach: reads.map((place) => place * MIB) }],
    distances: { key_order: [{ picture: { y: leaves } }] },
  }) as unknown as Disk;

test("places of all disks span as much as the widest, and none lie before or behind a disk", () => {
  const wide = disk(0, 1000, [100, 500], [50, 400]);
  const late = disk(10, 1000, [910, 950], [890, 930]);
  const scale = { reach: reachOf([wide, late]) } as Scale;
  assert.equal(scale.reach, 450 * MIB);
  assert.deepEqual(placeRange(wide, scale), [50 - 18, 500 + 18]);
  assert.deepEqual(placeRange(late, scale), [550 - 18, 1000 + 18]);
  assert.deepEqual(placeRange(disk(0, 100, [20, 30], [20, 30]), scale), [-18, 450 + 18]);
});
