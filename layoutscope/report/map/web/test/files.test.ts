import assert from "node:assert/strict";
import test from "node:test";
import { Files } from "../src/files";
import { Ids } from "../src/unpack";

type Entry = { volume: number; parent: number; id: number; name: string };
const entry = (volume: number, parent: number, id: number, name: string): Entry => ({ volume, parent, id, name });
const idsOf = (ids: number[]) =>
  new Ids(
    ids,
    ids.map(() => 0),
  );

/** Files of entries that are sorted by volume and number, two names to a block; each inode lies in the node of its number. */
function filesOf(entries: Entry[]): Files {
  const above = entries.map(({ volume, parent }) => entries.findIndex((e) => e.volume === volume && e.id === parent));
  const columns = {
    volume: entries.map(({ volume }) => volume),
    node: entries.map(({ id }) => id),
    id: idsOf(entries.map(({ id }) => id)),
    above,
    orphan: idsOf(entries.filter((_, i) => above[i]! < 0).map(({ parent }) => parent)),
  };
  const files = new Files({ volume: [0, 1], id: idsOf([20, 20]) }, columns, 2);
  for (let i = 0; i < entries.length; i += 2)
    files.add(
      entries
        .slice(i, i + 2)
        .map(({ name }) => `\0${name}`)
        .join(""),
    );
  return files;
}

const files = filesOf([
  entry(0, 1, 2, "Root"),
  entry(0, 2, 16, "Users"),
  entry(0, 16, 20, "Letter.txt"),
  entry(1, 1, 2, "Other"),
  entry(1, 2, 20, "Sums"),
  entry(1, 31, 30, "ring"),
  entry(1, 30, 31, "of"),
  entry(1, 77, 40, "left"),
  entry(1, 40, 41, "over"),
]);
const paths = async (text: string, most = 9) => (await files.find(text, most))!.map(({ path }) => path);

test("paths begin below the volume, and each volume has its own numbers", () => {
  assert.equal(files.path(0, "20"), "/Users/Letter.txt");
  assert.equal(files.path(1, "20"), "/Sums");
  assert.equal(files.path(0, "2"), "/");
  assert.equal(files.path(0, "99"), undefined);
});

test("a directory that is its own ancestor ends", () => {
  assert.equal(files.path(1, "30"), "(in itself)/of/ring");
});

test("what lies in a directory that is lost is not said to lie in the root", async () => {
  assert.equal(files.path(1, "41"), "(directory 77)/left/over");
  assert.deepEqual(await paths("left/ov"), ["(directory 77)/left/over"]);
  const rootless = filesOf([entry(0, 2, 16, "Users"), entry(0, 16, 20, "mine")]);
  assert.equal(rootless.path(0, "20"), "/Users/mine");
});

test("files are found by part of a path in either case, and by number", async () => {
  assert.deepEqual(await paths("users/LET"), ["/Users/Letter.txt"]);
  assert.deepEqual(await paths("ETTER"), ["/Users/Letter.txt"]);
  assert.deepEqual(await paths("20"), ["/Users/Letter.txt", "/Sums"]);
  assert.deepEqual(await paths("nowhere"), []);
  assert.equal((await paths("", 3)).length, 3);
});

test("a path is searched from the end of one name to the beginning of another", async () => {
  assert.deepEqual(await paths("sers/l"), ["/Users/Letter.txt"]);
  assert.deepEqual(await paths("sers/etter"), []);
  assert.deepEqual(await paths("ser/l"), []);
  assert.deepEqual(await paths("/users"), ["/Users"]);
  assert.deepEqual(await paths("root/users"), []); // the topmost is the volume itself
  assert.deepEqual(await paths("Users/"), ["/Users/Letter.txt"]);
});

test("names are found however they are composed, and whatever becomes of them in lower case", async () => {
  const some = filesOf([
    entry(0, 1, 2, ""),
    entry(0, 2, 3, "\u0130I\u0130 cafe\u0301"),
    entry(0, 2, 4, "b\u00e9b\u00e9"),
  ]);
  const found = async (text: string) => (await some.find(text, 9))!.map(({ id }) => id);
  assert.deepEqual(await found("CAF\u00c9"), ["3"]);
  assert.deepEqual(await found("be\u0301B"), ["4"]);
  assert.equal(some.path(0, "3"), "/\u0130I\u0130 cafe\u0301");
});

test("a search ends when the next one begins", async () => {
  const [first, second] = await Promise.all([files.find("e", 9), files.find("sums", 9)]);
  assert.equal(first, undefined);
  assert.equal(second!.length, 1);
});

test("a path is not told before all names are there", () => {
  const some = new Files(
    { volume: [], id: idsOf([]) },
    { volume: [0], node: [-1], id: idsOf([5]), above: [-1], orphan: idsOf([2]) },
    2,
  );
  assert.equal(some.path(0, "5"), undefined);
  some.add("\0here");
  assert.equal(some.path(0, "5"), "/here");
});

test("identifiers of 64 bits are found whole", () => {
  const ids = new Ids([7, 7, 0], [0, 1, 2 ** 31]);
  const texts = ["7", "4294967303", "9223372036854775808"];
  assert.deepEqual(
    texts.map((text) => ids.find(text)),
    [0, 1, 2],
  );
  assert.deepEqual(
    texts.map((_, i) => ids.text(i)),
    texts,
  );
  assert.deepEqual(
    ["8", "", "-1", "x", "1e3"].map((text) => ids.find(text)),
    [-1, -1, -1, -1, -1],
  );
});

test("an owner is the file of its own volume", () => {
  assert.deepEqual(
    [0, 1, 2].map((volume) => files.ownerOf({ volume, id: "20" })),
    [0, 1, -1],
  );
  assert.deepEqual(files.owner(1), { volume: 1, id: "20" });
});
