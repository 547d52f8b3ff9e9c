"use strict";
// Fills the cards of the page's panels; those that are folded when they are opened first.

const cardsOf = (anchor) => [...document.querySelectorAll(`#${anchor} .card`)];

function whenOpened(anchor, draw) {
  const folded = document.querySelector(`#${anchor} details`);
  if (!folded) return;
  let drawn = null;
  const go = () => { if (folded.open && !drawn) drawn = draw(cardsOf(anchor)); };
  folded.ontoggle = go;
  go();
}

async function main(kept) {
  const page = JSON.parse(document.getElementById("payload").textContent);
  const disks = page.disks;
  const used = Math.max(...disks.map((d) => d.used || d.size));
  const span = Math.max(...disks.map((d) => d.size));
  const scale = { span, used: used > span / 2 ? span : used, seconds: Math.max(...disks.map((d) => (d.walks[0] ? d.walks[0].total_s : 0))) };
  const places = cardsOf("map"), walks = cardsOf("walk"), orders = cardsOf("order");
  const maps = disks.map((d, i) => Object.assign(new AddressMap(d, places[i], scale), kept[i]));
  for (const map of maps) await map.build();
  costPanel(disks, cardsOf("costs")[0]);
  const players = [];
  for (let i = 0; i < disks.length; i++) {
    await orderPanel(disks[i], orders[i], scale);
    players.push(await walkPanel(disks[i], walks[i], maps[i], scale));
  }
  const race = new Race(players, document.querySelector("#map .above"));
  whenOpened("directories", (cards) => disks.forEach((d, i) => treemapPanel(d, cards[i])));
  whenOpened("history", (cards) => Promise.all(disks.map((d, i) => historyPanel(d, cards[i]))));
  whenOpened("distances", (cards) => Promise.all(disks.map((d, i) => distancePanel(d, cards[i]))));
  window.layoutscope = { page, maps, race };
  document.documentElement.dataset.ready = "yes";
}

// Drawn anew in the other colours, with the views, filters and choices that were there.
let drawing = null;

async function redraw() {
  await drawing;
  const old = window.layoutscope;
  delete document.documentElement.dataset.ready;
  if (old.race.players.length) await old.race.stop();
  await new Promise((done) => requestAnimationFrame(done)); // Plotly draws once more after a change
  const kept = old.maps.map((m) => ({ view: m.view, earlier: m.earlier, hidden: m.hidden, order: m.order, maxXid: m.maxXid }));
  document.querySelectorAll(".js-plotly-plot").forEach((plot) => Plotly.purge(plot));
  document.querySelectorAll("#map .above").forEach((holder) => holder.replaceChildren());
  for (const anchor of ["map", "costs", "order", "walk", "directories", "history", "distances"]) cardsOf(anchor).forEach((card) => card.replaceChildren());
  drawing = main(kept);
  return drawing;
}

document.getElementById("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  redraw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
drawing = main([]);
