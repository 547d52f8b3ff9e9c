import assert from "node:assert/strict";
import test from "node:test";
import { csv, Selection } from "../src/selection";
import { Ids, type Nodes } from "../src/unpack";

const ALL = {
  trees: ["fs", "omap"],
  kinds: ["leaf", "index"],
  conditions: ["sound", "damaged"],
  tree: Uint8Array.of(0, 0, 1),
  kind: Uint8Array.of(0, 1, 0),
  condition: Uint8Array.of(0, 1, 0),
  level: Uint8Array.of(0, 1, 255),
  offset: Float64Array.of(0, 8192, 16384),
  size: Float64Array.of(4096, 8192, 4096),
  records: Uint8Array.of(3, 2, 1),
  xid: Uint8Array.of(5, 0, 7),
  fill: Uint8Array.of(80, 255, 0),
  cost: Float64Array.of(15000, 0, 120),
  id: new Ids([100, 101, 102], [0, 0, 0]),
  first: new Ids([1, 1, 1], [0, 0, 0]),
  last: new Ids([2, 2, 2], [0, 0, 0]),
} as unknown as Nodes;

test("a stretch holds the nodes that it overlaps, ends excluded", () => {
  const chosen = new Selection(ALL);
  chosen.between(4096, 8192);
  assert.deepEqual(chosen.nodes, []);
  chosen.between(4095, 8193);
  assert.deepEqual(chosen.nodes, [0, 1]);
  assert.equal(chosen.title(), "2 nodes between bytes 4,095 and 8,193, 12.0 KiB");
});

test("all that listen are told, and nothing chosen is told as nothing", () => {
  const chosen = new Selection(ALL);
  let times = 0;
  chosen.whenChosen(() => times++);
  chosen.choose([2], "here");
  chosen.choose([], "here");
  assert.deepEqual([times, chosen.title()], [2, ""]);
});

test("the file holds every chosen node, with empty cells for what it has not", () => {
  const chosen = new Selection(ALL);
  chosen.choose([0, 2], "");
  const [head, ...rows] = csv(chosen).trimEnd().split("\r\n");
  assert.equal(head, "tree,kind,node,byte,size,level,records,xid,fill %,ms to read,first key,last key,condition");
  assert.deepEqual(rows, [
    "fs,leaf,100,0,4096,0,3,5,80,15,1,2,sound",
    "omap,leaf,102,16384,4096,,1,7,0,0.12,1,2,sound",
  ]);
});
