import assert from "node:assert/strict";
import test from "node:test";
import type { Disk } from "../src/payload";
import { Pyramid, type Runs, runsOf } from "../src/pyramid";

const runs = (...rows: [number, number, number][]): Runs =>
  runsOf(
    rows.map(([first], i) => first - (i ? rows[i - 1]![0] + rows[i - 1]![1] : 0)),
    rows.map(([, count]) => count - 1),
    rows.map(([, , held]) => held),
  );

/** A random number generator with a seed (Lehmer's). */
function draws(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 48271) % 2147483647;
    return state % below;
  };
}

function diskOf(cells: number): Disk {
  const classes = ["main", "data", ""].map((role) => ({ key: role, label: role, role }));
  return { size: cells * 8, pyramid: { unit: 1, cell: 8, cells: [] }, classes } as unknown as Disk;
}

test("runs are where the gaps between them put them, with what lies before each", () => {
  const { first, count, held, before } = runsOf([1, 0, 2], [1, 3, 0], [3, 8, 5]);
  assert.deepEqual([...first], [1, 3, 9]);
  assert.deepEqual([...count], [2, 4, 1]);
  assert.deepEqual([...held], [3, 8, 5]);
  assert.deepEqual([...before], [0, 6, 38]);
});

test("at every width the picture's cells are what one counts cell by cell", () => {
  const draw = draws(7);
  const cells = 4096;
  const dense = [0, 1].map(() => new Float64Array(cells));
  const classes = dense.map((of, k) => {
    const rows: [number, number, number][] = [];
    for (let at = draw(9); at < cells; ) {
      const count = Math.min(cells - at, 1 + draw(draw(20) ? 3 : 200));
      const held = 1 + draw(4);
      rows.push([at, count, held]);
      of.fill(held, at, at + count);
      at += count + 1 + draw(12) + k;
    }
    return runs(...rows);
  });
  const pyramid = new Pyramid(diskOf(cells), [...classes, runs()]);
  for (const wanted of [8, 40, 64, 200, 1000, 4000]) {
    const width = pyramid.widthFor(wanted);
    assert.ok(width.bytes >= wanted && width.bytes % width.step === 0);
    const from = width.step * draw(Math.floor((cells * 4) / width.step));
    const held = pyramid.held(from, width.bytes, 16);
    for (let c = 0; c < 16; c++) {
      const [low, high] = [c, c + 1].map((n) => (from + n * width.bytes) / 8) as [number, number];
      const sums = dense.map((of) => of.slice(low, high).reduce((a, b) => a + b, 0));
      const capacity = Math.max(0, Math.min(high, cells) - low) * 8;
      assert.deepEqual([held[0]![c], held[1]![c]], sums);
      assert.equal(held[2]![c], capacity - sums[0]! - sums[1]!);
    }
  }
});
