import assert from "node:assert/strict";
import test from "node:test";
import { gridOf, MOST_COLUMNS, paint } from "../src/cells";
import type { MapClass } from "../src/payload";

const ROLES = ["damaged", "main", "data"];
const CLASSES = ["damaged", "main", "data", ""].map((role) => ({ role })) as MapClass[];
const held = (...of: number[][]) => of.map((bytes) => Float64Array.from(bytes));
const count = (painted: Int8Array, role: number) => painted.filter((one) => one === role).length;

test("a role has as many cells as its bytes fill, however thinly they lie", () => {
  const cells = 1000;
  const even = (bytes: number) => Array.from({ length: cells }, () => bytes);
  const painted = paint(CLASSES, held(even(0), even(1.7), even(69.3), even(29)), ROLES, 100);
  assert.ok(Math.abs(count(painted, 1) - 17) <= 1);
  assert.ok(Math.abs(count(painted, 2) - 693) <= 1);
  assert.ok(Math.abs(count(painted, -1) - 290) <= 1);
});

test("a cell has only a role of which it holds some", () => {
  const painted = paint(CLASSES, held([0, 0, 0], [90, 0, 0], [10, 100, 0], [0, 0, 100]), ROLES, 100);
  assert.deepEqual([...painted], [1, 2, -1]);
});

test("a cell that holds anything damaged is damaged", () => {
  const painted = paint(CLASSES, held([1, 0], [99, 100], [0, 0], [0, 0]), ROLES, 100);
  assert.deepEqual([...painted], [0, 1]);
});

test("few cells are as many columns as they need", () => {
  assert.deepEqual(gridOf(64), { columns: 16, rows: 4 });
  assert.deepEqual(gridOf(256 * 64), { columns: MOST_COLUMNS, rows: 64 });
  assert.equal(gridOf(1).rows, 1);
});
