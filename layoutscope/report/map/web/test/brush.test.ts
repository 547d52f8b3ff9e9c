import assert from "node:assert/strict";
import test from "node:test";
import { MOST_POINTS, pointsOf } from "../src/brush";

const AXES = [
  { _offset: 0, _length: 300, range: [0, 100] as [number, number] },
  { _offset: 0, _length: 30, range: [0, 10] as [number, number] },
];

test("few points are all there, wherever they lie", () => {
  const placing = { has: (i: number) => i !== 1, x: (i: number) => 50 * i, y: () => 5 };
  assert.deepEqual(pointsOf([0, 1, 2, 3], placing, AXES), { x: [0, 100, 150], y: [5, 5, 5] });
});

test("nodes that can be gone through once only are all there", () => {
  const placing = { has: () => true, x: (i: number) => i, y: () => 5 };
  assert.deepEqual(pointsOf(new Float64Array(3).keys(), placing, AXES), { x: [0, 1, 2], y: [5, 5, 5] });
});

test("of many points each spot has one, and none is outside of the axes", () => {
  const many = Array.from({ length: 4 * MOST_POINTS }, (_, i) => i);
  const placing = { has: () => true, x: (i: number) => (i % 1000) / 5, y: (i: number) => (i % 7) + 0.5 };
  const { x, y } = pointsOf(many, placing, AXES);
  const spots = new Set(x.map((at, k) => `${Math.floor(at)},${Math.floor(y[k]!)}`)); // three pixels are 1 on both
  assert.equal(spots.size, 100 * 7);
  assert.equal(x.length, spots.size);
  assert.ok(Math.max(...x) < 100);
});
