// Finds a path, a file's number or a byte, and shows where it lies.

import { element } from "./dom";
import type { File } from "./files";
import type { Owners } from "./owners";
import { type Disk, ofVolume } from "./payload";
import { bytesText, counted, plural } from "./words";

const MOST = 12;
const TOLD = 3;

/** What is searched, and shows what was found. */
export interface Searched {
  readonly disk: Disk;
  readonly owners: Owners;
  readonly gone: AbortController;
  readonly info: HTMLElement;
  readonly view: { readonly size: number };
  /** The bytes on the screen, from the first to behind the last, and those of a cell. */
  readonly from: number;
  readonly to: number;
  readonly cellSize: number;
  /** As many bytes as hold all that is in use. */
  readonly used: number;
  show(from: number, size: number): Promise<void>;
  mark(marks: number[], head: number | null): unknown;
  describe(cell: number): void;
}

/** A field above the map and what was found below it; "/" leads there from anywhere. */
export function searchField(map: Searched): HTMLElement {
  const hint = map.disk.entries.packed ? "path, file number or byte" : "byte";
  const field = element("input", { type: "search", placeholder: `${hint} ( / )`, "aria-label": `find a ${hint}` });
  const found = element("div", { class: "bar found", role: "status" });
  field.addEventListener("keydown", (e) => e.stopPropagation());
  field.addEventListener("input", async () => {
    const { total, readNames } = map.owners.files;
    if (readNames < total) found.replaceChildren(muted(`reading ${counted(total)} names…`));
    const shown = await results(map, field.value.trim());
    if (shown) found.replaceChildren(...shown);
  });
  const called = (e: KeyboardEvent) => {
    if (e.key !== "/" || e.target instanceof HTMLInputElement) return;
    e.preventDefault();
    field.focus();
  };
  document.addEventListener("keydown", called, { signal: map.gone.signal });
  return element("div", { class: "search" }, field, found);
}

const muted = (text: string) => element("span", { class: "muted" }, text);

/** What is found, as buttons; undefined where the next search has begun before. */
async function results(map: Searched, text: string): Promise<HTMLElement[] | undefined> {
  const files = await map.owners.files.find(text, text ? MOST : 0);
  if (!files) return undefined;
  if (!text) {
    map.mark([], null);
    return [];
  }
  const buttons = files.map((file) =>
    button(
      `${ofVolume(map.disk, file.volume)}${file.path} (file ${file.id})${file.volume < map.disk.earlier ? "" : ", as it was"}`,
      () => showFile(map, file),
    ),
  );
  const byte = Number(text.replaceAll(",", ""));
  const { start, size } = map.disk;
  if (Number.isInteger(byte) && byte >= start && byte < start + size)
    buttons.push(button(`byte ${counted(byte)}`, () => showByte(map, byte)));
  if (files.length === MOST) buttons.push(muted(`the first ${MOST}`));
  const unsaid = unsearched(map.disk);
  if (unsaid) buttons.push(muted(unsaid));
  return buttons.length ? buttons : [muted("nothing of that name or number on this page")];
}

/** What cannot be found here, and why; nothing where the page has all names. */
function unsearched({ entries: { total, withheld, packed } }: Disk): string {
  if (packed || !total) return "";
  if (withheld) return "files cannot be found here: the page was made without names";
  return `files cannot be found here: the page carries none of the disk's ${counted(total)} paths (--all-paths does)`;
}

function button(text: string, action: () => unknown): HTMLElement {
  return element("button", { type: "button", onclick: action }, text);
}

async function showByte(map: Searched, byte: number): Promise<void> {
  const size = map.view.size / 16;
  await map.show(byte - size / 2, size);
  await map.mark([byte], byte);
  map.describe(Math.floor((byte - map.from) / map.cellSize));
}

async function showFile(map: Searched, file: File): Promise<void> {
  const extents = await map.owners.extentsOf(file);
  const bytes = extents.reduce((sum, [, length]) => sum + length, 0);
  const node = file.node < 0 ? undefined : map.owners.nodes.offset[file.node];
  const places = extents.flatMap(([start, length]) => steps(start, length, map.cellSize));
  if (node !== undefined) places.push(node);
  if (!places.some((place) => place >= map.from && place < map.to)) await map.show(map.disk.start, map.used);
  await map.mark(places, node ?? null);
  const data = map.disk.tells_files
    ? `${bytesText(bytes)} of data in ${plural(extents.length, "piece")}`
    : "where its data lies is not on this page: the disk has more extents than it carries";
  const first = extents.slice(0, TOLD).map(([start, length]) => `${bytesText(length)} at byte ${counted(start)}`);
  if (extents.length > TOLD) first.push(`and ${counted(extents.length - TOLD)} more`);
  map.info.textContent = [
    `${ofVolume(map.disk, file.volume)}${file.path}, file ${file.id}: ${data}`,
    ...(first.length ? [first.join(" · ")] : []),
    ...(node === undefined ? [] : [`its inode, where the larger ring is: ${map.owners.nodeText(file.node)}`]),
  ].join("\n");
}

/** A place in each cell that a stretch touches. */
function steps(start: number, length: number, cell: number): number[] {
  return Array.from({ length: Math.min(256, Math.ceil(length / cell)) }, (_, i) => start + i * cell);
}
