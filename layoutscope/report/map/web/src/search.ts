// Finds a path, a file's number or a byte, and shows where it lies.

import type { Detail } from "./detail";
import { element } from "./dom";
import type { Drawn } from "./drawn";
import type { File } from "./files";
import { type Disk, ofVolume } from "./payload";
import { bytesText, counted, plural } from "./words";

const MOST = 12;
const TOLD = 3;
/** A byte is shown with so much around it. */
const AROUND = 1 << 22;

/** A field and what was found, below it; "/" leads there from anywhere. */
export function searchField(detail: Detail): HTMLElement {
  const hasNames = detail.disks.some(({ disk }) => disk.entries.packed);
  const hint = hasNames ? "path, file number or byte" : "byte";
  const field = element("input", { type: "search", placeholder: `${hint} ( / )`, "aria-label": `find a ${hint}` });
  const found = element("div", { class: "bar found", role: "status" });
  field.addEventListener("input", async () => {
    const text = field.value.trim();
    if (!text) mark(detail, detail.drawn, []);
    detail.info.textContent = "";
    const unread = detail.disks.filter(({ owners }) => owners.files.readNames < owners.files.total);
    if (text && unread.length) found.replaceChildren(muted("reading names…"));
    const shown = await Promise.all(detail.disks.map((_, number) => results(detail, number, text)));
    if (text !== field.value.trim() || shown.includes(undefined)) return;
    const all = shown.flat() as HTMLElement[];
    const nothing = text ? [muted("nothing of that name or number on this page")] : [];
    found.replaceChildren(...(all.length ? all : nothing));
  });
  document.addEventListener("keydown", (e) => {
    if (e.key !== "/" || e.target instanceof HTMLInputElement) return;
    e.preventDefault();
    field.focus();
  });
  return element("div", { class: "search" }, field, found);
}

const muted = (text: string) => element("span", { class: "muted" }, text);

/** What is found on a disk, as buttons; undefined where the next search has begun before. */
async function results(detail: Detail, number: number, text: string): Promise<HTMLElement[] | undefined> {
  const drawn = detail.disks[number]!;
  const { disk, owners } = drawn;
  const files = await owners.files.find(text, text ? MOST : 0);
  if (!files || !text) return files && [];
  const press = (act: () => Promise<unknown>) => async () => {
    detail.info.textContent = "looking…";
    await detail.turnTo(number);
    await act();
  };
  const of = detail.disks.length > 1 ? `${disk.title}: ` : "";
  const buttons: HTMLElement[] = files.map((file) => {
    const when = file.volume < disk.earlier ? "" : ", as it was";
    const path = element("bdi", {}, file.path);
    const words = [of + ofVolume(disk, file.volume), path, ` (file ${file.id})${when}`];
    return element("button", { type: "button", onclick: press(() => showFile(detail, drawn, file)) }, ...words);
  });
  const byte = Number(text.replaceAll(",", ""));
  if (Number.isInteger(byte) && byte >= disk.start && byte < disk.start + disk.size) {
    const show = press(() => showByte(detail, drawn, byte));
    buttons.push(element("button", { type: "button", onclick: show }, `${of}byte ${counted(byte)}`));
  }
  if (files.length === MOST) buttons.push(muted(`the first ${MOST}`));
  const unsaid = unsearched(disk);
  if (unsaid) buttons.push(muted(unsaid));
  return buttons;
}

/** What cannot be found here, and why; nothing where the page has all names. */
function unsearched({ entries: { total, withheld, packed } }: Disk): string {
  if (packed || !total) return "";
  if (withheld) return "files cannot be found here: the page was made without names";
  return `files cannot be found here: the page carries none of the disk's ${counted(total)} paths (--all-paths does)`;
}

function mark(detail: Detail, drawn: Drawn, marks: number[]): Promise<unknown> {
  for (const other of detail.disks) other.marks = [];
  drawn.marks = marks;
  return detail.view.changed();
}

async function showByte(detail: Detail, drawn: Drawn, byte: number): Promise<void> {
  const at = byte - drawn.disk.start;
  await detail.view.show({ low: at - AROUND / 2, high: at + AROUND / 2 });
  await mark(detail, drawn, [byte]);
  detail.info.textContent = drawn.lines(at, at + 1).join("\n");
}

async function showFile(detail: Detail, drawn: Drawn, file: File): Promise<void> {
  const { disk, owners } = drawn;
  const extents = await owners.extentsOf(file);
  const bytes = extents.reduce((sum, [, length]) => sum + length, 0);
  const node = file.node < 0 ? undefined : owners.nodes.offset[file.node];
  const places = extents.flatMap(([start, length]) => steps(start, length, detail.cell));
  if (node !== undefined) places.push(node);
  const { low, high } = detail.view.range;
  const isSeen = places.some((place) => place - disk.start >= low && place - disk.start < high);
  if (!isSeen) await detail.view.show({ ...detail.view.whole(), low: 0, high: disk.size });
  await mark(detail, drawn, places);
  const data = disk.tells_files
    ? `${bytesText(bytes)} of data in ${plural(extents.length, "piece")}`
    : "where its data lies is not on this page: the disk has more extents than it carries";
  const first = extents.slice(0, TOLD).map(([start, length]) => `${bytesText(length)} at byte ${counted(start)}`);
  if (extents.length > TOLD) first.push(`and ${counted(extents.length - TOLD)} more`);
  detail.info.textContent = [
    `${ofVolume(disk, file.volume)}${file.path}, file ${file.id}: ${data}`,
    ...(first.length ? [first.join(" · ")] : []),
    ...(node === undefined ? [] : [`its inode: ${owners.nodeText(file.node)}`]),
  ].join("\n");
}

/** A place in each cell that a stretch touches. */
function steps(start: number, length: number, cell: number): number[] {
  return Array.from({ length: Math.min(256, Math.ceil(length / cell)) }, (_, i) => start + i * cell);
}
