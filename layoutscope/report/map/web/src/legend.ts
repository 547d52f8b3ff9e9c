// What the colours mean, how much of each there is, and which are shown.

import { HATCHED, HIDDEN, SHADES } from "./cells";
import { element, hatchedSwatch, hueOf, shade, swatch } from "./dom";
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

export function legend(map: Filter, shadeKey: HTMLElement, hiddenKey: HTMLElement): HTMLElement {
  const { classes } = map.disk;
  const boxes = new Map<number, HTMLInputElement>();
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
  const bar = element("div", { class: "bar legend" }, ...[...first].map((k) => entry(map, k, boxes)));
  if (more.length) bar.append(folded(map, more, boxes));
  shadeKey.replaceChildren(...shades(what, hueOf(classes[metadata[0] ?? 0]!)));
  hiddenKey.replaceChildren(" ", swatch(hueOf(HIDDEN)), " hidden by the legend or the slider");
  return element("div", {}, bar, element("div", { class: "bar legend muted" }, shadeKey, hiddenKey));
}

type Boxes = Map<number, HTMLInputElement>;

function folded(map: Filter, more: number[], boxes: Boxes): HTMLElement {
  const bytes = more.reduce((sum, k) => sum + map.disk.classes[k]!.bytes, 0);
  const summary = element("summary", {}, `${plural(more.length, "more kind")} of metadata, ${bytesText(bytes)}`);
  const entries = more.map((k) => entry(map, k, boxes));
  const box = element("details", {}, summary, element("div", { class: "bar" }, ...entries));
  box.open = more.some((k) => map.hidden.has(k));
  return box;
}

function entry(map: Filter, k: number, boxes: Boxes): HTMLElement {
  const c = map.disk.classes[k]!;
  const box = element("input", { type: "checkbox" });
  box.checked = !map.hidden.has(k);
  boxes.set(k, box);
  box.addEventListener("change", () => {
    if (box.checked) map.hidden.delete(k);
    else map.hidden.add(k);
    map.draw();
  });
  const size = `${bytesText(c.bytes)} in ${plural(c.pieces, "piece")}`;
  const title = `${shareText(c.bytes / map.disk.size)} of the disk`;
  const words = element("span", {}, `${c.label} `, element("span", { class: "muted" }, size));
  const label = element("label", { title }, box, HATCHED.has(c.key) ? hatchedSwatch(c) : swatch(hueOf(c)), words);
  return element("span", { class: "entry" }, label, only(map, k, c.label, boxes));
}

/** A button that hides everything else; pressed again, it shows everything. */
function only(map: Filter, k: number, label: string, boxes: Boxes): HTMLElement {
  const press = () => {
    const others = [...boxes.keys()].filter((other) => other !== k);
    const isAlone = !map.hidden.has(k) && others.every((other) => map.hidden.has(other));
    map.hidden.clear();
    if (!isAlone) for (const other of others) map.hidden.add(other);
    for (const [other, box] of boxes) box.checked = !map.hidden.has(other);
    map.draw();
  };
  const title = `show ${label} alone; again: everything`;
  return element("button", { type: "button", class: "only", title, "aria-label": title, onclick: press }, "only");
}

/** What the shades mean, where nodes have the colours of their trees. */
function shades(what: string, hue: string): (string | HTMLElement)[] {
  const steps = SHADES.flatMap(([least, strength], i) => [
    swatch(shade(hue, strength)),
    i < SHADES.length - 1 ? ` from ${100 * least} % ` : " less",
  ]);
  return [`${what} in a cell: `, ...steps];
}
