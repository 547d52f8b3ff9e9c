import assert from "node:assert/strict";
import test from "node:test";
import { Files } from "../src/files";

const entry = (volume: number, parent: string, id: string, name: string) => ({ volume, parent, id, name, node: +id });
const OWNERS = { volume: Uint8Array.of(0, 1), id: () => "20" };

const files = new Files(
  [
    entry(0, "1", "2", "Root"),
    entry(0, "2", "16", "Users"),
    entry(0, "16", "20", "Letter.txt"),
    entry(1, "1", "2", "Other"),
    entry(1, "2", "20", "Sums"),
    entry(1, "31", "30", "ring"),
    entry(1, "30", "31", "of"),
  ],
  OWNERS,
);

test("paths begin below the volume, and each volume has its own numbers", () => {
  assert.equal(files.path(0, "20"), "/Users/Letter.txt");
  assert.equal(files.path(1, "20"), "/Sums");
  assert.equal(files.path(0, "99"), undefined);
});

test("a directory that is its own ancestor ends", () => {
  assert.match(files.path(1, "30")!, /ring/);
});

test("files are found by part of a path in either case, and by number", () => {
  assert.deepEqual(
    files.find("users/LET", 9).map((file) => file.path),
    ["/Users/Letter.txt"],
  );
  assert.deepEqual(
    files.find("20", 9).map((file) => file.volume),
    [0, 1],
  );
  assert.equal(files.find("nowhere", 9).length, 0);
  assert.equal(files.find("", 3).length, 3);
});

test("a directory's nodes are those of its entries and its own, each once, and of its own volume", () => {
  assert.deepEqual(files.nodesOf("0:16"), [16, 20]);
  assert.deepEqual(files.nodesOf("0:2"), [2, 16]);
  assert.deepEqual(files.nodesOf("1:2"), [2, 20]);
  assert.deepEqual(files.nodesOf("1:99"), []);
});

test("an owner is the file of its own volume", () => {
  const file = { volume: 1, id: "20", path: "/Sums", node: 20 };
  assert.deepEqual([files.owns(0, file), files.owns(1, file)], [false, true]);
});
