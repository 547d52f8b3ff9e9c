import assert from "node:assert/strict";
import test from "node:test";
import { NodePlaces } from "../src/places";

/** Offsets that are whole sectors, that are not, and that are too far for one number with their place. */
for (const [what, unit, start] of [
  ["sectors", 512, 0],
  ["any bytes", 100, 0],
  ["far bytes", 512, 2 ** 62],
] as const)
  test(`nodes are found by their addresses, those of another disk never: ${what}`, () => {
    const offset = Float64Array.of(8, -1, 4, 0, -513, 4, 2).map((n) => (n < 0 ? n : start + n * unit * 2));
    const size = Float64Array.of(1, 1, 2, 1, 512, 1, 1).map((n) => n * unit * 2);
    const places = new NodePlaces({ offset, size });
    assert.deepEqual([...places.ordered], [3, 6, 2, 5, 0]);
    const at = (n: number) => start + n * unit * 2;
    assert.deepEqual([...places.near(at(8), at(9))], [0]);
    const seen: number[] = [];
    const look = (low: number, high: number, isEnough = () => false) => {
      seen.length = 0;
      return places.some(low, high, (i) => seen.push(i) > 0 && isEnough());
    };
    assert.equal(look(at(5), at(8)), false);
    assert.deepEqual(seen, [2]); // it begins before, and is wider than the others
    assert.equal(
      look(at(0), at(9), () => true),
      true,
    );
    assert.deepEqual(seen, [3]);
  });
