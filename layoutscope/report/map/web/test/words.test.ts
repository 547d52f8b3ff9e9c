import assert from "node:assert/strict";
import test from "node:test";
import { subtreeTotals, topmost, withOthers } from "../src/tree";
import { bytesText, escaped, placesText, plural, secondsText, shareText } from "../src/words";

test("numbers read as in the report", () => {
  assert.deepEqual([0, 512, 4096, 3 * 2 ** 30, 1020 * 2 ** 30].map(bytesText), [
    "0 B",
    "512 B",
    "4.00 KiB",
    "3.00 GiB",
    "1,020 GiB",
  ]);
  assert.deepEqual([0, 2e-5, 0.05, 37.7, 482, 481.6, 12480].map(secondsText), [
    "0 s",
    "20 us",
    "50 ms",
    "37.7 s",
    "8 min 02 s",
    "8 min 02 s",
    "3 h 28 min",
  ]);
  assert.equal(plural(1, "piece"), "1 piece");
  assert.equal(plural(2000, "piece"), "2,000 pieces");
});

test("two places are told apart however near they are", () => {
  const [mib, gib, tib] = [20, 30, 40].map((power) => 2 ** power) as [number, number, number];
  assert.equal(placesText(0, 4.5 * gib), "0 B to 4.50 GiB");
  assert.equal(placesText(29 * mib, 57 * mib), "29.0 to 57.0 MiB");
  assert.equal(placesText(1000 * gib, 1000 * gib + 64 * mib), "1,000.000 to 1,000.063 GiB");
  assert.equal(placesText(0, tib), "0 B to 1.00 TiB");
  assert.equal(placesText(0, 512), "0 B to 512 B");
  assert.equal(placesText(20480, 16 * mib), "20.0 KiB to 16.0 MiB");
});

test("a share is whole only where nothing is missing", () => {
  assert.deepEqual([1, 0.99999, 0.5, 1e-6].map(shareText), ["100 %", "over 99.9 %", "50.0 %", "under 0.01 %"]);
});

const TREE = {
  id: ["2", "5", "7"],
  parent: [null, "2", "5"],
  name: ["/", "a", "b"],
  seconds: [1, 2, 4],
  entries: [1, 1, 1],
  bytes: [0, 0, 0],
  whole: { seconds: 10, entries: 3, bytes: 0 },
  shown: 3,
  total: 9,
};

test("a directory has what lies below it, others are one box, and one box is around all", () => {
  const tree = withOthers(TREE, "seconds");
  assert.deepEqual(tree.id, ["all", "2", "5", "7", "others"]);
  assert.deepEqual(subtreeTotals(tree), [10, 7, 6, 4, 3]);
  assert.deepEqual(tree.parent, [null, "all", "2", "5", "all"]);
  assert.equal(tree.name[4], "6 other directories");
  assert.equal(withOthers(TREE, "bytes").id.length, 4);
});

test("circles of a damaged tree end", () => {
  const circle = { id: ["1", "2"], parent: ["2", "1"], name: ["a", "b"], own: [1, 2] };
  assert.deepEqual(subtreeTotals(circle), [3, 3]);
});

test("the topmost box is the first with several worth a look inside", () => {
  const tree = {
    id: ["all", "2", "5", "7", "8"],
    parent: [null, "all", "2", "5", "5"],
    name: ["all", "/", "Users", "a", "b"],
    own: [0, 0, 0, 5, 5],
  };
  assert.equal(topmost(tree, subtreeTotals(tree)), "5");
  assert.equal(topmost({ ...tree, own: [0, 5, 0, 5, 5] }, [15, 15, 10, 5, 5]), "2");
});

test("what reorders or hides text is shown, as Python shows it", () => {
  assert.equal(escaped("/\u202egnp.exe"), "/\\u202egnp.exe");
  assert.equal(escaped("a\nb\u{e0041}\ud800"), "a\\u000ab\\U000e0041\\ud800");
  assert.equal(escaped("Übung – 日本語 \uf8ff"), "Übung – 日本語 \uf8ff");
});
