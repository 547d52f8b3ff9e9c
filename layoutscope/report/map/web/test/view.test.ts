import assert from "node:assert/strict";
import test from "node:test";
import { possible, View, zoomed } from "../src/view";

const LIMITS = { most: 1000, least: 10, seconds: 5 };
const WHOLE = { low: 0, high: 1000, from: 0, to: 5 };

test("a zoom keeps the place under the pointer, and at a limit nothing moves", () => {
  const near = zoomed(WHOLE, 1 / 2, 250, LIMITS);
  assert.deepEqual([near.low, near.high], [125, 625]);
  let range = WHOLE;
  for (let i = 0; i < 40; i++) range = possible(zoomed(range, 1 / 2, 700, LIMITS), LIMITS);
  assert.equal(range.high - range.low, 10);
  assert.ok(range.low <= 700 && range.high >= 700);
  assert.equal(zoomed(range, 1 / 2, 705, LIMITS), range);
  assert.equal(zoomed(WHOLE, 2, 300, LIMITS), WHOLE);
});

test("what is asked for beyond the ends is moved there, and is never wider than all", () => {
  assert.deepEqual(possible({ low: -50, high: 50, from: 0, to: 9 }, LIMITS), { low: 0, high: 100, from: 0, to: 5 });
  assert.deepEqual(possible({ low: 990, high: 1090, from: 1, to: 2 }, LIMITS), {
    low: 900,
    high: 1000,
    from: 1,
    to: 2,
  });
});

test("each view is gone back to, and from the first one to everything", async () => {
  const view = new View(
    WHOLE,
    () => WHOLE,
    () => LIMITS,
  );
  let told = 0;
  view.whenChanged(() => told++);
  await view.show({ low: 100, high: 200 });
  await view.show({ low: 110, high: 150 });
  await view.show({ low: 110, high: 150 });
  await view.back();
  assert.deepEqual([view.range.low, view.range.high], [100, 200]);
  await view.back();
  assert.ok(view.isWhole);
  await view.back();
  assert.equal(told, 4);
});
