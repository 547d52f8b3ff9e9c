import assert from "node:assert/strict";
import test from "node:test";
import { read, written } from "../src/link";

const SHOWN = { low: 4096, high: 1048576, from: 0.25, to: 4.5, drive: 1, disk: 0 };

test("what is written is read again", () => {
  assert.deepEqual(read(written(SHOWN)), SHOWN);
});

test("an address of something else changes nothing", () => {
  const bad = ["", "#map", "#v=", "#v=1,2", "#v=a,1,0,1,0,0", "#v=5,1,0,1,0,0", "#v=0,1,0,1,0,-1", "#v=0,1,2,1,0,0"];
  for (const hash of bad) assert.equal(read(hash), null, hash);
});
