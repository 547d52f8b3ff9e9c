import assert from "node:assert/strict";
import test from "node:test";
import { bytesOf } from "../src/unpack";

test("digits of base 85 are bytes again, without what filled them up", () => {
  assert.deepEqual([...bytesOf("!")], []);
  assert.deepEqual([...bytesOf("!!!!!!")], [0, 0, 0, 0]);
  assert.deepEqual([...bytesOf("!!!!!$")], [0, 0, 0, 2]);
  // 85 ** 4 is 0x03 1C 84 B1; three of the four bytes were filled up.
  assert.deepEqual([...bytesOf("!#!!!!")], [0x03, 0x1c, 0x84, 0xb1]);
  assert.deepEqual([...bytesOf("%#!!!!")], [0x03]);
});
