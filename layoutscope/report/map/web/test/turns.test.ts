import assert from "node:assert/strict";
import test from "node:test";
import { pause, Turns } from "../src/turns";

test("what is begun anew is done once, and who waits for the first time waits for the last", async () => {
  const turns = new Turns();
  const done: string[] = [];
  turns.add(() => done.push("one"));
  turns.add(() => done.push("two"));
  turns.begin();
  const first = turns.done;
  await pause();
  turns.begin();
  await first;
  assert.deepEqual(done, ["one", "one", "two"]);
});
