// Starts the page: the figure, the cells below it, and what is folded under both.

import { Detail } from "./detail";
import { button, byId, element, list } from "./dom";
import { Drawn } from "./drawn";
import { Figure } from "./figure";
import { read, type Shown, written } from "./link";
import { type Chart, drawCharts } from "./panels";
import type { Payload } from "./payload";
import { followTheme } from "./plots";
import { inflateText } from "./unpack";
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

/** Draw the charts of all disks when their part is unfolded for the first time. */
function fillWhenOpened({ charts }: Payload): void {
  for (const folded of document.querySelectorAll<HTMLDetailsElement>("section.scripted > details"))
    folded.addEventListener("toggle", async () => {
      if (!folded.open || folded.dataset.filled) return;
      folded.dataset.filled = "yes";
      const part = folded.parentElement!.id;
      for (const [i, card] of [...folded.querySelectorAll<HTMLElement>(".card")].entries()) {
        const of = JSON.parse(await inflateText(charts[i]!)) as Record<string, Chart[]>;
        drawCharts(card, of[part] ?? []);
      }
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
    return view.changed();
  };
  const names = drives.map(({ drive }) => drive);
  const box = list("drive", names, choose);
  if (names.length > 1) byId("drive")?.replaceChildren(box);
  return choose;
}

async function start(page: Payload): Promise<void> {
  const disks = await Promise.all(page.disks.map((disk) => Drawn.of(disk)));
  const seconds = (drive: number) => 1.02 * (page.drives[drive]?.seconds || 1);
  const whole = () => ({ low: 0, high: page.figure.span, from: 0, to: seconds(view.drive) });
  const limits = () => ({
    most: Math.max(page.figure.span, ...page.disks.map(({ size }) => size)),
    least: LEAST_CELLS * Math.min(...disks.map(({ pyramid }) => pyramid.cell)),
    seconds: seconds(view.drive),
  });
  const view: View = new View({ low: 0, high: page.figure.span, from: 0, to: seconds(0) }, whole, limits);
  const holder = byId("figure")!;
  if (page.drives[0]) await Promise.all(disks.map((drawn) => drawn.choose(page.drives[0]!.drive)));
  const figure = new Figure(page, disks, view, holder);
  await figure.start();
  holder.classList.add("alive");
  performance.mark("figure");
  const detail = new Detail(page, disks, view, byId("map")!);
  const choose = driveList(page, view, disks);
  fillWhenOpened(page);
  window.layoutscope = { page, figure, detail, view };
  byId("map")!.append(tools(figure));
  await followAddress(view, detail, choose);
  followTheme(() => view.changed());
  await detail.draw();
  document.documentElement.dataset.ready = "yes";
  performance.mark("ready");
}

/** What keeps the picture, and what keys and mouse do; the link is the page's address. */
function tools(figure: Figure): HTMLElement {
  const help = document.querySelector<HTMLDetailsElement>(".help")!;
  document.addEventListener("keydown", (e) => {
    if (e.key === "?" && !(e.target instanceof HTMLInputElement)) help.open = !help.open;
  });
  const keep = button("save picture", "keep the figure as SVG", () => figure.keep());
  return element("div", { class: "bar tools" }, keep, help);
}

const shown = (view: View, { number }: Detail): Shown => ({ ...view.range, drive: view.drive, disk: number });

/** Show what the address says, when the page is opened and when it changes; keep it up to date. */
async function followAddress(view: View, detail: Detail, choose: (drive: number) => Promise<unknown>): Promise<void> {
  const { page } = window.layoutscope;
  const go = async () => {
    const asked = read(location.hash);
    if (asked) {
      if (asked.drive !== view.drive && page.drives[asked.drive]) await choose(asked.drive);
      await detail.turnTo(Math.min(asked.disk, page.disks.length - 1));
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

start(JSON.parse(byId("payload")!.textContent!));
