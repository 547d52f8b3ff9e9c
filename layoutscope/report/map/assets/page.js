"use strict";
// Puts the panels together.

function panel(title, explanation, disks) {
  const section = element("section", {}, element("h2", {}, title), element("p", { class: "muted" }, explanation));
  const row = element("div", { class: "disks" });
  const cards = disks.map(() => { const card = element("div", { class: "card" }); row.append(card); return card; });
  section.append(row);
  document.querySelector("main").append(section);
  return { section, row, cards };
}

function summary(disk, card) {
  card.append(element("h2", {}, disk.title), element("p", { class: "muted" }, disk.subtitle), element("p", { class: "headline" }, disk.headline));
  const tiles = element("div", { class: "tiles" });
  disk.costs.forEach((c) => {
    const total = Object.values(c.causes).reduce((a, b) => a + b, 0);
    tiles.append(element("div", { class: "tile" }, element("b", {}, secondsText(total)), `${c.order} on ${c.drive}`));
  });
  tiles.append(element("div", { class: "tile" }, element("b", {}, disk.coverage === null ? "an unknown share" : `${(100 * disk.coverage).toPrecision(4)} %`), "of the metadata was read"));
  card.append(tiles);
  if (disk.coverage !== 1) card.append(element("p", { class: "warn" }, "Part of the metadata could not be read; the map shows those places as not read or owner unknown, never as empty."));
  if (!disk.exact) card.append(element("p", { class: "muted" }, "The deepest zoom is summarised in places: the disk has more pieces than the page's budget."));
}

async function main() {
  const page = JSON.parse(document.getElementById("payload").textContent);
  const disks = page.disks;
  const used = Math.max(...disks.map((d) => d.used || d.size));
  const span = Math.max(...disks.map((d) => d.size));
  const scale = { span, used: used > span / 2 ? span : used, seconds: Math.max(...disks.map((d) => (d.walks[0] ? d.walks[0].total_s : 0))) };
  const top = panel("What this shows", "", disks);
  disks.forEach((d, i) => summary(d, top.cards[i]));
  const address = panel("Address space", "Each cell is a stretch of the disk. Metadata shows through whatever shares its cell: the stronger the colour, the larger its share.", disks);
  const maps = disks.map((d, i) => new AddressMap(d, address.cards[i], scale));
  for (const map of maps) await map.build();
  window.layoutscope = { page, maps };
  const walk = panel("The walk", "Where the head is while the files are enumerated, coloured by what is read.", disks);
  for (let i = 0; i < disks.length; i++) await walkPanel(disks[i], walk.cards[i], maps[i], scale);
  const cost = panel("Costs", "Seconds by cause on each drive; the bar across is the same nodes packed in key order.", [null]);
  costPanel(disks, cost.cards[0]);
  const folders = panel("Directories by cost", "Each read is charged to the directory that caused it.", disks);
  disks.forEach((d, i) => treemapPanel(d, folders.cards[i]));
  if (disks.every((d) => !d.directories)) folders.section.remove();
  const history = panel("History", "When nodes were written. The slider hides younger ones in the map above.", disks);
  const told = [];
  for (let i = 0; i < disks.length; i++) told.push(await historyPanel(disks[i], history.cards[i], maps[i]));
  if (!told.includes(true)) history.section.remove();
  const far = panel("Distances", "How far apart lies what belongs together.", disks);
  for (let i = 0; i < disks.length; i++) await distancePanel(disks[i], far.cards[i]);
  const facts = panel("Facts", "The report's tables.", disks);
  disks.forEach((d, i) => factsPanel(d, facts.cards[i]));
  document.querySelector("footer").textContent = page.made;
  document.documentElement.dataset.ready = "yes";
}

document.getElementById("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  document.querySelector("main").replaceChildren();
  main();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { document.querySelector("main").replaceChildren(); main(); });
main();
