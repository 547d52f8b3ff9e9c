// How the map is used, said on the page; and a link to what it shows.

import { element } from "./dom";

/** What one wants, and what one does for it. */
const WAYS: [string, string][] = [
  ["read a cell", "point at it; touch: tap once; keys: shift and arrows go from cell to cell"],
  ["zoom", "wheel, click, + and −, Enter on the cell that is read; touch: a second tap at the same place, two fingers"],
  ["move", "drag, arrow keys; the frame on the strip, whose edges make it wider or narrower"],
  ["see the whole disk, go back", "0, Backspace"],
  [
    "choose nodes",
    "drag with shift over the map; Space on the cell that is read; a box over order or history; a span of the walk; bars of the distances; a directory",
  ],
  ["see one kind alone", "“only” beside it in the legend"],
  ["find a path, a file by its number, or a byte", "/"],
  ["see this list", "?"],
];

export function helpBox(signal: AbortSignal): HTMLElement {
  const rows = WAYS.map(([want, way]) =>
    element("tr", {}, element("th", { scope: "row" }, want), element("td", {}, way)),
  );
  const table = element("table", {}, element("caption", {}, "What the map answers to"), element("tbody", {}, ...rows));
  const box = element("details", { class: "help" }, element("summary", {}, "How to use the map ( ? )"), table);
  const called = (e: KeyboardEvent) => {
    if (e.key !== "?" || e.target instanceof HTMLInputElement) return;
    box.open = !box.open;
    if (box.open) box.scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("keydown", called, { signal });
  return box;
}

/** Copy a text, where the browser lets the page do so. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** A button that copies the page's address, which says what is shown; a notebook's frame has none. */
export function linkButton(address: () => string): HTMLElement | null {
  if (location.protocol === "about:") return null;
  const told = element("span", { class: "muted", role: "status" });
  const press = async () => {
    const link = address();
    told.textContent = (await copyText(link)) ? "copied" : link;
  };
  const title = "copy the address, which leads to what is shown now";
  return element(
    "span",
    { class: "bar" },
    element("button", { type: "button", title, onclick: press }, "copy link"),
    told,
  );
}
