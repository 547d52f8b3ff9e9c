import assert from "node:assert/strict";
import test from "node:test";
import { chosen, read, written } from "../src/link";

const VIEW = {
  view: { from: 4096, size: 1048576 },
  order: "hilbert" as const,
  maxXid: 33,
  hidden: new Set([0, 3]),
  by: "age" as const,
};

test("what is written is read again", () => {
  assert.deepEqual(read(written(VIEW), 4), VIEW);
  const all = { ...VIEW, maxXid: Infinity, hidden: new Set<number>() };
  assert.deepEqual(read(written(all), 4), all);
});

test("an address of something else, or of another page, changes nothing that is not there", () => {
  assert.deepEqual(chosen("#costs", [4, 4]), [null, null]);
  assert.deepEqual(chosen("", [4]), [null]);
  for (const bad of ["", "1,2", "a,1,linear,,,", "0,-1,linear,,,", "0,Infinity,linear,,,"])
    assert.equal(read(bad, 4), null, bad);
  assert.equal(read("0,1,spiral,,,", 4)!.order, "linear");
  assert.deepEqual(read("0,1,linear,x,1-9-z,size", 4), {
    view: { from: 0, size: 1 },
    order: "linear",
    maxXid: Infinity,
    hidden: new Set([1]),
    by: "tree",
  });
});
