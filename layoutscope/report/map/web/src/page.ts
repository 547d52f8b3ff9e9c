// Starts the page: the figure, the cells below it, and what is folded under both.

import { Detail } from "./detail";
import { button, element, isDark, list } from "./dom";
import { Drawn } from "./drawn";
import { Figure } from "./figure";
import { read, type Shown, written } from "./link";
import { directoryPanel, distancePanel, historyPanel, orderPanel } from "./panels";
import type { Payload } from "./payload";
import { forgetColours, redrawAll } from "./plots";
import { unfold } from "./unpack";
import { View } from "./view";

/** Rows of cells that are seen at least. */
const LEAST_CELLS = 64;

/** What tests and curious people find in `window.layoutscope`. */
interface Page {
  page: Payload;
  figure: Figure;
  detail: Detail;
  view: View;
}

declare global {
  interface Window {
    layoutscope: Page;
  }
}

const byId = (id: string) => document.getElementById(id);

/** Draw the cards of a part when it is unfolded for the first time; it tells when that is done. */
function whenOpened(anchor: string, draw: (card: HTMLElement, i: number) => unknown): void {
  const folded = byId(anchor)?.querySelector("details");
  if (!folded) return;
  folded.addEventListener("toggle", async () => {
    if (!folded.open || folded.dataset.filled) return;
    folded.dataset.filled = "yes";
    await Promise.all([...folded.querySelectorAll<HTMLElement>(".card")].map(draw));
  });
}

/** One list of drives: the figure, the sentence and the causes follow it. */
function driveList({ drives }: Payload, view: View, disks: Drawn[]): (place: number) => Promise<unknown> {
  const choose = async (place: number) => {
    view.drive = place;
    const { headline, why, drive } = drives[place]!;
    document.querySelector("h1")!.textContent = headline;
    byId("why")!.textContent = why;
    await Promise.all(disks.map((drawn) => drawn.choose(drive)));
    const { from, to } = view.whole();
    view.range = { ...view.range, from, to };
    box.value = String(place);
    byId("figure")!.classList.toggle("other", place > 0); // what stands there without a script is of the first drive
    return view.changed();
  };
  const names = drives.map(({ drive }) => drive);
  const box = list("drive", names, choose);
  const held = byId("drive");
  if (names.length > 1) held?.replaceChildren(box);
  return choose;
}

async function start(page: Payload): Promise<void> {
  const disks = await Promise.all(page.disks.map((disk) => Drawn.of(disk)));
  const [first] = page.drives;
  if (first) await Promise.all(disks.map((drawn) => drawn.choose(first.drive)));
  const seconds = () => 1.02 * (page.drives[view.drive]?.seconds || 1);
  const whole = () => ({ low: 0, high: page.figure.span, from: 0, to: seconds() });
  const limits = () => ({
    most: Math.max(page.figure.span, ...page.disks.map(({ size }) => size)),
    least: LEAST_CELLS * Math.min(...disks.map(({ pyramid }) => pyramid.cell)),
    seconds: seconds(),
  });
  const view: View = new View(
    { low: 0, high: page.figure.span, from: 0, to: 1.02 * (first?.seconds || 1) },
    whole,
    limits,
  );
  const holder = byId("figure")!;
  const figure = new Figure(page, disks, view, holder);
  await figure.start();
  holder.classList.add("alive");
  performance.mark("figure");
  const detail = new Detail(page, disks, view, byId("map")!);
  const choose = driveList(page, view, disks);
  for (const [anchor, draw] of Object.entries({
    directories: directoryPanel,
    history: historyPanel,
    distances: distancePanel,
    order: orderPanel,
  }))
    whenOpened(anchor, (card, i) => draw(page, disks[i]!, card));
  window.layoutscope = { page, figure, detail, view };
  byId("map")!.append(tools(figure, view, detail));
  await followAddress(view, detail, choose);
  colours(view);
  await detail.draw();
  document.documentElement.dataset.ready = "yes";
  performance.mark("ready");
}

/** Keep the picture, copy a link, and what keys and mouse do. */
function tools(figure: Figure, view: View, detail: Detail): HTMLElement {
  const told = element("span", { class: "muted", role: "status" });
  const link = () => location.href.split("#")[0] + written(shown(view, detail));
  const copy = async () => {
    const isCopied = await navigator.clipboard.writeText(link()).then(
      () => true,
      () => false,
    );
    told.textContent = isCopied ? "copied" : link();
  };
  const ways = WAYS.map(([want, way]) =>
    element("tr", {}, element("th", { scope: "row" }, want), element("td", {}, way)),
  );
  const help = element(
    "details",
    { class: "help" },
    element("summary", {}, "Keyboard and mouse ( ? )"),
    element("table", {}, element("tbody", {}, ...ways)),
  );
  document.addEventListener("keydown", (e) => {
    if (e.key === "?" && !(e.target instanceof HTMLInputElement)) help.open = !help.open;
  });
  const links =
    location.protocol === "about:" ? [] : [button("copy link", "copy the address of what is shown now", copy), told];
  return element(
    "div",
    { class: "bar tools" },
    button("save picture", "keep the figure as SVG", () => figure.keep()),
    ...links,
    help,
  );
}

const WAYS: [string, string][] = [
  ["see what is at a place", "point at it, or tap it"],
  ["zoom in", "drag over a stretch of disk, of time, or of both; Ctrl or Cmd and the wheel, or a pinch; + and −"],
  ["move", "arrow up, arrow down"],
  ["go back", "double click, Backspace"],
  ["see everything", "0"],
  ["find a path, a file by its number, or a byte", "/"],
];

const shown = (view: View, detail: Detail): Shown => ({
  ...view.range,
  drive: view.drive,
  disk: detail.number,
  by: detail.by,
});

/** Show what the address says, when the page is opened and when it changes; keep it up to date. */
async function followAddress(view: View, detail: Detail, choose: (drive: number) => Promise<unknown>): Promise<void> {
  const { page } = window.layoutscope;
  const go = async () => {
    const asked = read(location.hash);
    if (asked) {
      detail.colourBy(Math.min(asked.by, 4));
      detail.number = Math.min(asked.disk, page.disks.length - 1);
      if (asked.drive !== view.drive && page.drives[asked.drive]) await choose(asked.drive);
      await detail.turnTo(detail.number);
      return view.show(asked);
    }
    const part = location.hash.length > 1 && byId(location.hash.slice(1));
    if (!part) return;
    for (const folded of part.querySelectorAll<HTMLDetailsElement>(":scope > details")) folded.open = true;
    for (const wait of [0, 300]) setTimeout(() => part.scrollIntoView(), wait); // once more where it was filled
  };
  addEventListener("hashchange", go);
  let timer = 0;
  if (location.protocol !== "about:")
    view.whenChanged(() => {
      clearTimeout(timer);
      timer = window.setTimeout(() => history.replaceState(null, "", written(shown(view, detail))), 300);
    });
  await go();
}

/** Draw anew in other colours, and in another width. */
function colours(view: View): void {
  const again = () => {
    forgetColours();
    return Promise.all([view.changed(), redrawAll()]);
  };
  byId("theme")!.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    return again();
  });
  for (const what of ["(prefers-color-scheme: dark)", "(forced-colors: active)"])
    matchMedia(what).addEventListener("change", again);
  let wide = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === wide) return;
    wide = innerWidth;
    return again();
  });
}

const page: Payload = JSON.parse(byId("payload")!.textContent!);
unfold(page).then(() => start(page));
