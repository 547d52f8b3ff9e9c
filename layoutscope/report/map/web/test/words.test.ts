import assert from "node:assert/strict";
import test from "node:test";
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

test("what reorders or hides text is shown, as Python shows it", () => {
  assert.equal(escaped("/\u202egnp.exe"), "/\\u202egnp.exe");
  assert.equal(escaped("a\nb\u{e0041}\ud800"), "a\\u000ab\\U000e0041\\ud800");
  assert.equal(escaped("Übung – 日本語 \uf8ff"), "Übung – 日本語 \uf8ff");
});
