// What a plot shows as rows of text: for readers of screens, and for whoever cannot tell its colours.

import { element } from "./dom";
import type { Picture } from "./payload";
import { unpack } from "./unpack";
import { bytesText, counted } from "./words";

/** What a table says; the note says what it leaves out, and how it was put together. */
export interface Told {
  columns: string[];
  rows: string[][];
  note?: string;
}

/** So many rows sum up what has more: each is an equal part of the plot's width. */
export const PARTS = 16;

export interface TextTable {
  readonly box: HTMLElement;
  /** Say it anew, where somebody reads it. */
  refresh(): unknown;
}

/** A folded table below a plot, made when it is unfolded. */
export function textTable(title: string, tell: () => Told | Promise<Told>): TextTable {
  const place = element("div", { class: "rows" });
  const box = element("details", { class: "told" }, element("summary", {}, `Show as table: ${title}`), place);
  const refresh = async () => {
    if (box.open) place.replaceChildren(...content(title, await tell()));
  };
  box.addEventListener("toggle", refresh);
  return { box, refresh };
}

function content(title: string, { columns, rows, note }: Told): HTMLElement[] {
  const head = element("tr", {}, ...columns.map((name) => element("th", { scope: "col" }, name)));
  const body = rows.map((cells) => element("tr", {}, ...cells.map((cell) => element("td", {}, cell))));
  const parts = [element("caption", {}, title), element("thead", {}, head), element("tbody", {}, ...body)];
  return [element("table", {}, ...parts), ...(note ? [element("p", { class: "muted" }, note)] : [])];
}

/** Places on disk, in MiB, as bytes. */
const placeText = (mib: number) => bytesText(Math.max(0, Math.round(mib * 2 ** 20)));

/** Two places as a span. */
export const spanOf = (x: (at: number) => string) => (low: number, high: number) => `${x(low)} to ${x(high)}`;

/** A density picture by equal parts of its width: how many points each has, and between which heights they lie. */
export async function partsOf(
  picture: Picture,
  span: (low: number, high: number, isLast: boolean) => string,
  y = placeText,
  most = PARTS,
): Promise<string[][]> {
  const counts = await unpack(picture.counts);
  const { columns, rows } = picture;
  const at = ([low, high]: [number, number], share: number) => low + share * (high - low);
  const parts = Math.min(PARTS, most, columns);
  return Array.from({ length: parts }, (_, part) => {
    const [first, end] = [part, part + 1].map((n) => Math.round((n * columns) / parts)) as [number, number];
    const [from, to] = [first, end].map((column) => at(picture.x, column / columns)) as [number, number];
    let [many, low, high] = [0, rows, -1];
    for (let r = 0; r < rows; r++)
      for (let c = first; c < end; c++) {
        const n = counts[r * columns + c]!;
        if (!n) continue;
        many += n;
        low = Math.min(low, r);
        high = r;
      }
    const [least, most] = [low / rows, (high + 1) / rows].map((share) => y(at(picture.y, share)));
    return [span(from, to, end === columns), counted(many), many ? least! : "", many ? most! : ""];
  });
}
