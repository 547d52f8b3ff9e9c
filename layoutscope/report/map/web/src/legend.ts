// What the colours mean, how much of each there is, and which are shown.

import { HIDDEN, SHADES } from "./cells";
import { element, hueOf, shade, swatch } from "./dom";
import type { Disk } from "./payload";
import { bytesText, plural, shareText } from "./words";

/** So many kinds of metadata stand at once, the largest; the others are behind "more". */
const FIRST = 2;
/** What nobody may overlook stands there however small it is. */
const ALWAYS = ["damaged", "locked"];

interface Filter {
  disk: Disk;
  hidden: Set<number>;
  draw(): Promise<void>;
}

export function legend(map: Filter, hiddenKey: HTMLElement): HTMLElement {
  const { classes } = map.disk;
  const isChange = classes.some(({ key }) => key === "stayed");
  const what = isChange ? "changes" : "metadata";
  const held = classes.map((_, k) => k).filter((k) => classes[k]!.bytes > 0);
  const metadata = held
    .filter((k) => classes[k]!.group === "metadata")
    .sort((a, b) => classes[b]!.bytes - classes[a]!.bytes);
  const first = new Set([
    ...held.filter((k) => ALWAYS.includes(classes[k]!.key)),
    ...metadata.slice(0, isChange ? metadata.length : FIRST),
    ...held.filter((k) => classes[k]!.group !== "metadata"),
  ]);
  const more = held.filter((k) => !first.has(k));
  const bar = element("div", { class: "bar legend" }, ...[...first].map((k) => entry(map, k)));
  if (more.length) bar.append(folded(map, more));
  return element("div", {}, bar, shadeKey(what, hueOf(classes[metadata[0] ?? 0]!), hiddenKey));
}

function folded(map: Filter, more: number[]): HTMLElement {
  const bytes = more.reduce((sum, k) => sum + map.disk.classes[k]!.bytes, 0);
  const summary = element("summary", {}, `${plural(more.length, "more kind")} of metadata, ${bytesText(bytes)}`);
  const box = element("details", {}, summary, element("div", { class: "bar" }, ...more.map((k) => entry(map, k))));
  box.open = more.some((k) => map.hidden.has(k));
  return box;
}

function entry(map: Filter, k: number): HTMLElement {
  const c = map.disk.classes[k]!;
  const box = element("input", { type: "checkbox" });
  box.checked = !map.hidden.has(k);
  box.addEventListener("change", () => {
    if (box.checked) map.hidden.delete(k);
    else map.hidden.add(k);
    map.draw();
  });
  const size = `${bytesText(c.bytes)} in ${plural(c.pieces, "piece")}`;
  const title = `${shareText(c.bytes / map.disk.size)} of the disk`;
  return element("label", { title }, box, swatch(hueOf(c)), `${c.label} `, element("span", { class: "muted" }, size));
}

function shadeKey(what: string, hue: string, hiddenKey: HTMLElement): HTMLElement {
  const key = element("div", { class: "bar legend muted" }, `${what} in a cell: `);
  SHADES.forEach(([least, strength], i) => {
    key.append(swatch(shade(hue, strength)), i < SHADES.length - 1 ? `over ${100 * least} % ` : "less");
  });
  hiddenKey.replaceChildren(" ", swatch(hueOf(HIDDEN)), " hidden by the legend or the slider");
  key.append(hiddenKey);
  return key;
}
