import assert from "node:assert/strict";
import test from "node:test";
import { CELLS, withoutMetadata } from "../src/cells";
import { paintSteps, Scale } from "../src/colouring";
import type { MapClass } from "../src/payload";
import type { Nodes } from "../src/unpack";

const NODES = {
  offset: Float64Array.of(0, 4096, 8192, 4096),
  size: Float64Array.of(4096, 4096, 8192, 4096),
  level: Uint8Array.of(0, 1, 255, 0),
  xid: Float64Array.of(10, 80, 0, 20),
  cost: Float64Array.of(100, 0, 12800, 400),
  fill: Uint8Array.of(0, 50, 255, 100),
} as unknown as Nodes;

test("what has no number has no step, and the others have the steps of their share of the span", () => {
  assert.deepEqual([...new Scale(NODES, "age", "").steps], [0, 7, -1, 1]);
  // how full a node is has the same scale on every disk, from empty to full
  assert.deepEqual([...new Scale(NODES, "fill", "").steps], [0, 4, -1, 7]);
  // costs have steps of equal ratio: from 100 to 12,800 is 128 times, each of 8 steps 1.83 times
  assert.deepEqual([...new Scale(NODES, "cost", "").steps], [0, -1, 7, 2]);
});

test("of several nodes in a cell the highest step counts, in whatever order they come", () => {
  for (const which of [
    [0, 1, 3],
    [3, 1, 0],
  ]) {
    const picked = new Uint16Array(CELLS);
    paintSteps(picked, NODES, which, Int8Array.of(0, 7, -1, 1), 20, { from: 0, cellSize: 4096 });
    assert.deepEqual([...picked.slice(0, 3)], [20, 27, 0]);
  }
});

test("nodes before and behind the picture paint nothing", () => {
  const picked = new Uint16Array(CELLS);
  paintSteps(picked, NODES, [0, 1, 2], Int8Array.of(3, 3, 3, 3), 20, { from: 12288, cellSize: 4096 });
  assert.deepEqual([picked[0], picked[1]], [23, 0]);
});

test("under a scale no metadata keeps the colour of its tree, and all else keeps its own", () => {
  const classes = ["metadata", "data"].map((group) => ({ group })) as MapClass[];
  const picked = Uint16Array.of(0, 1, 6, 7, 12, 13);
  withoutMetadata(picked, classes, 99);
  assert.deepEqual([...picked], [0, 99, 99, 7, 12, 13]);
});
