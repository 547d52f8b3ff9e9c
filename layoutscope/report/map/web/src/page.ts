// Fills the cards of the page's panels; those that are folded when they are opened first.

import { AddressMap, type Choices } from "./address";
import { Band } from "./band";
import { costPanel, directoryPanel } from "./costs";
import { distancePanel, orderPanel } from "./distances";
import { element, isDark } from "./dom";
import { pictureButtons } from "./export";
import { helpBox, linkButton } from "./help";
import { historyPanel } from "./history";
import { addressOf, chosen, follow } from "./link";
import { type Payload, reachOf } from "./payload";
import { plotly } from "./plots";
import { type Player, Race } from "./race";
import { pause } from "./turns";
import { unfold } from "./unpack";
import { Drives, walkPanel } from "./walk";

const PANELS = ["map", "costs", "order", "walk", "directories", "history", "distances"];

/** What tests and curious people find in `window.layoutscope`. */
interface Page {
  page: Payload;
  maps: AddressMap[];
  race: Race;
}

declare global {
  interface Window {
    layoutscope: Page;
  }
}

const cardsOf = (anchor: string) => [...document.querySelectorAll<HTMLElement>(`#${anchor} .card`)];

/** Draw a panel when it is unfolded for the first time, at once where it is open already; it tells when that is done. */
function whenOpened(anchor: string, draw: (cards: HTMLElement[]) => unknown[]): void {
  const folded = document.querySelector<HTMLDetailsElement>(`#${anchor} details`);
  if (!folded) return;
  folded.dataset.drawn = "no";
  const go = async () => {
    if (!folded.open || folded.dataset.drawn !== "no") return;
    folded.dataset.drawn = "begun";
    await Promise.all(draw(cardsOf(anchor)));
    folded.dataset.drawn = "yes";
  };
  folded.ontoggle = go;
  go();
}

/** Help, a link to what is seen, and what holds for all maps. */
function aboveMaps(maps: AddressMap[], holder: HTMLElement): void {
  const link = linkButton(() => addressOf(maps));
  holder.append(element("div", { class: "bar" }, helpBox(maps[0]!.gone.signal), ...(link ? [link] : [])));
  together(maps, holder);
}

/** Let the maps of several disks show the same stretch, while the box is ticked. */
function together(maps: AddressMap[], holder: HTMLElement): void {
  if (maps.length < 2) return;
  const box = element("input", { type: "checkbox" });
  for (const map of maps)
    map.onView = ({ view, disk }) => {
      if (!box.checked) return;
      for (const other of maps)
        if (other !== map) other.show(other.disk.start + view.from - disk.start, view.size, true);
    };
  holder.append(element("label", { class: "bar" }, box, "zoom and move all maps together"));
}

async function draw(page: Payload, kept: (Partial<Choices> | null)[]): Promise<void> {
  const { disks } = page;
  const scale = { ...page.scale, reach: reachOf(disks) };
  const [places, orders, walks] = ["map", "order", "walk"].map(cardsOf); // none of what there is nothing to show of
  const maps = disks.map((disk, i) => Object.assign(new AddressMap(disk, places![i]!, scale), kept[i]));
  for (const map of maps) await map.build();
  performance.mark("map");
  if (maps.length) aboveMaps(maps, document.querySelector<HTMLElement>("#map .above")!);
  follow(maps);
  const [costs] = cardsOf("costs");
  if (costs) {
    const selections = maps.map(({ selection }) => selection);
    costPanel(disks, costs, selections);
  }
  const players: Player[] = [];
  const drives = new Drives(disks);
  const bands = disks.map((disk, i) => new Band(disk, document.querySelector(`.band[data-disk="${i}"]`)!));
  for (const [i, disk] of disks.entries()) {
    await pause();
    if (orders![i]) await orderPanel(disk, orders![i]!, maps[i]!, scale);
    if (!walks![i]) continue;
    await pause();
    const player = await walkPanel(disk, walks![i]!, maps[i]!, bands[i]!, scale, drives);
    if (player) players.push(player);
  }
  const race = new Race(players, document.getElementById("race")!);
  drives.whenChosen(() => race.restart());
  whenOpened("directories", (cards) => {
    for (const [i, disk] of disks.entries()) cards[i]!.hidden = !disk.directories; // before any is drawn in its width
    return disks.map((disk, i) => directoryPanel(disk, cards[i]!, maps[i]!));
  });
  whenOpened("history", (cards) => disks.map((disk, i) => historyPanel(disk, cards[i]!, maps[i]!.selection)));
  whenOpened("distances", (cards) => disks.map((disk, i) => distancePanel(disk, cards[i]!, maps[i]!.selection)));
  window.layoutscope = { page, maps, race };
  document.documentElement.dataset.ready = "yes";
  performance.mark("ready");
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches || location.protocol === "about:";
  if (!played && !isStill) race.play();
  played = true;
}

/** The lists of the panels below the map: drives, and what boxes measure. The maps keep their own choices. */
const lists = () => ["walk", "directories"].flatMap(cardsOf).flatMap((card) => [...card.querySelectorAll("select")]);

/** Choose again what was chosen in lists that are made anew. */
function chooseAgain(earlier: string[]): void {
  for (const [i, list] of lists().entries()) {
    if (list.value === earlier[i]) continue;
    list.value = earlier[i]!;
    list.dispatchEvent(new Event("change"));
  }
}

let played = false;
let drawing: Promise<void>;

/** Draw anew in the other colours, with the views, filters and choices that were there. */
async function redraw(): Promise<void> {
  await drawing;
  const { page, maps, race } = window.layoutscope;
  delete document.documentElement.dataset.ready;
  if (race.players.length) await race.stop();
  await new Promise(requestAnimationFrame); // Plotly draws once more after a change
  const kept = maps.map(({ view, earlier, hidden, order, maxXid, by }) => ({
    view,
    earlier,
    hidden,
    order,
    maxXid,
    by,
  }));
  const listed = lists().map(({ value }) => value);
  for (const map of maps) map.gone.abort();
  for (const plot of document.querySelectorAll<HTMLElement>(".js-plotly-plot")) plotly().purge(plot);
  for (const holder of [
    ...PANELS.flatMap(cardsOf),
    document.getElementById("race")!,
    document.querySelector("#map .above")!,
    document.getElementById("peeks")!,
  ])
    holder.replaceChildren();
  drawing = draw(page, kept).then(() => {
    for (const [i, { selection }] of maps.entries())
      window.layoutscope.maps[i]!.selection.choose(selection.nodes, selection.about);
    chooseAgain(listed);
  });
  return drawing;
}

document.body.append(element("div", { id: "peeks" }));
for (const section of ["what", ...PANELS].map((anchor) => document.getElementById(anchor)))
  if (section) (section.querySelector(":scope > details") ?? section).append(pictureButtons(section));

document.getElementById("theme")!.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  redraw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
const page: Payload = JSON.parse(document.getElementById("payload")!.textContent!);
const kept = chosen(
  location.hash,
  page.disks.map((disk) => disk.classes.length),
);
drawing = unfold(page).then(() => draw(page, kept));
