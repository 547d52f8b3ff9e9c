import assert from "node:assert/strict";
import test from "node:test";
import {
  CELLS,
  cellPlaces,
  colours,
  hilbert,
  mostOf,
  numPlain,
  ORDERS,
  SHADES,
  shadeOf,
  withoutMetadata,
} from "../src/cells";
import type { MapClass } from "../src/payload";

test("a Hilbert curve goes from neighbour to neighbour and to each place once", () => {
  const seen = new Set<string>();
  let [x, y] = hilbert(16, 0);
  for (let d = 0; d < 256; d++) {
    const [u, v] = hilbert(16, d);
    assert.equal(Math.abs(u - x) + Math.abs(v - y), d ? 1 : 0);
    seen.add(`${u},${v}`);
    [x, y] = [u, v];
  }
  assert.equal(seen.size, 256);
});

for (const order of ORDERS)
  test(`${order}: each cell has one place, and each place one cell`, () => {
    const { columns, row, column, cell } = cellPlaces(order);
    for (let i = 0; i < CELLS; i++) assert.equal(cell[row[i]! * columns + column[i]!], i);
  });

const CLASSES = ["metadata", "metadata", "data", "free"].map((group) => ({ group })) as MapClass[];
const colourOf = (held: number[], hidden = 0) =>
  colours(
    CLASSES,
    held.map((bytes) => Float64Array.of(bytes)),
    Float64Array.of(hidden),
    100,
  )[0];
const place = (k: number, share: number) => 1 + k * SHADES.length + shadeOf(share);

test("metadata shows through, in a shade by the share of all metadata", () => {
  assert.equal(colourOf([3, 1, 96, 0]), place(0, 0.04));
  assert.equal(colourOf([30, 40, 0, 30]), place(1, 0.7));
});

test("a strip has the class of most metadata, whichever comes last, and damage before all", () => {
  const classes = ["main", "omap", "damaged"].map((key) => ({ key, group: "metadata" })) as MapClass[];
  const held = [
    [60, 3, 0],
    [5, 9, 0],
    [0, 1, 0],
  ].map((of) => Float64Array.from(of));
  const found = (which: number[]) => mostOf(classes, held, which, 100);
  assert.deepEqual(found([0, 1, 2]), [
    { most: 0, share: 0.65 },
    { most: 2, share: 0.13 },
    { most: 0, share: 0 },
  ]);
  assert.deepEqual(found([0, 1])[1], { most: 1, share: 0.12 });
  assert.ok(found([]).every(({ share }) => share === 0));
});

test("without metadata a cell is of what fills most of it", () => {
  assert.equal(colourOf([0, 0, 60, 40]), place(2, 1));
  assert.equal(colourOf([0, 0, 40, 60]), place(3, 1));
});

test("what is hidden is a colour of its own where it fills most, and never unknown or free", () => {
  const hidden = 1 + CLASSES.length * SHADES.length;
  assert.equal(colourOf([0, 0, 0, 0], 100), hidden);
  assert.equal(colourOf([0, 0, 30, 0], 70), hidden);
  assert.equal(colourOf([0, 0, 70, 0], 30), place(2, 1));
  assert.equal(colourOf([0, 0, 0, 0], 0), 0);
});

test("a damaged node among many sound ones is marked, and one that fills most of its cell is drawn", () => {
  const classes = [
    { key: "file list", group: "metadata" },
    { key: "damaged", group: "metadata" },
    { key: "data", group: "data" },
  ] as MapClass[];
  const colour = (held: number[]) =>
    colours(
      classes,
      held.map((bytes) => Float64Array.of(bytes)),
      Float64Array.of(0),
      100,
    )[0];
  assert.equal(colour([50, 1, 0]), place(0, 0.51) + numPlain(classes));
  assert.equal(colour([0, 1, 99]), place(1, 0.01));
  assert.equal(colour([50, 0, 0]), place(0, 0.5));
  const picked = Uint16Array.of(place(0, 0.51) + numPlain(classes), place(2, 1));
  withoutMetadata(picked, classes, 99);
  assert.deepEqual([...picked], [99, place(2, 1)]);
});
