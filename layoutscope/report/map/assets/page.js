"use strict";
// Puts the panels together.

function panel(title, explanation, disks) {
  const section = element("section", {}, element("h2", {}, title), element("p", { class: "muted" }, explanation));
  const row = element("div", { class: "disks" });
  const cards = disks.map(() => { const card = element("div", { class: "card" }); row.append(card); return card; });
  const above = element("div", {});
  section.append(above, row);
  document.querySelector("main").append(section);
  return { section, row, cards, above };
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
  if (disk.pyramid.cell > disk.block) card.append(element("p", { class: "muted" }, `Cells are no narrower than ${bytesText(disk.pyramid.cell)} here: the disk is in more pieces than a page carries.`));
}

async function main(kept) {
  const page = JSON.parse(document.getElementById("payload").textContent);
  const disks = page.disks;
  const used = Math.max(...disks.map((d) => d.used || d.size));
  const span = Math.max(...disks.map((d) => d.size));
  const scale = { span, used: used > span / 2 ? span : used, seconds: Math.max(...disks.map((d) => (d.walks[0] ? d.walks[0].total_s : 0))) };
  const top = panel("What this shows", "", disks);
  disks.forEach((d, i) => summary(d, top.cards[i]));
  const address = panel("Address space", "Each cell is a stretch of the disk. Metadata shows through whatever shares its cell: the stronger the colour, the larger its share.", disks);
  const maps = disks.map((d, i) => new AddressMap(d, address.cards[i], scale));
  maps.forEach((map, i) => Object.assign(map, kept[i]));
  for (const map of maps) await map.build();
  const walk = panel("The walk", "Where the head is while the files are enumerated, coloured by what is read.", disks);
  const players = [];
  for (let i = 0; i < disks.length; i++) players.push(await walkPanel(disks[i], walk.cards[i], maps[i], scale));
  const race = new Race(players, address.above);
  const packed = disks.some((d) => d.costs.some((c) => c.bound_s !== null));
  const cost = panel("Costs", "Seconds by cause on each drive" + (packed ? "; the bar across is the same nodes packed in key order." : "."), [null]);
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
  window.layoutscope = { page, maps, race };
  document.querySelector("footer").textContent = page.made;
  document.documentElement.dataset.ready = "yes";
}

// Drawn anew in the other colours, with the views, filters and choices that were there.
let drawing = null;

async function redraw() {
  await drawing;
  const old = window.layoutscope;
  delete document.documentElement.dataset.ready;
  if (old.race.players.length) old.race.stop();
  const kept = old.maps.map((m) => ({ view: m.view, earlier: m.earlier, hidden: m.hidden, order: m.order, maxXid: m.maxXid }));
  document.querySelectorAll(".js-plotly-plot").forEach((plot) => Plotly.purge(plot));
  document.querySelector("main").replaceChildren();
  drawing = main(kept);
  return drawing;
}

document.getElementById("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  redraw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
drawing = main([]);
