// Seconds by cause, and by directory.

import type { AddressMap } from "./address";
import { element, isDark } from "./dom";
import type { Cost, Directories, Disk, Unit } from "./payload";
import { CONFIG, colour, type Fields, HUES, legendOf, NARROW, plain, plotIn, plotLayout, plotly } from "./plots";
import type { Selection } from "./selection";
import { type Told, textTable } from "./tables";
import { bytesText, counted, plural, secondsText, shareText } from "./words";

/** None of the colours of the map's classes; those of the first screen stand in the page's style. */
const CAUSES: Record<string, string> = {
  seek: "#5B3A8E",
  rotation: "#B0699F",
  transfer: "#2A8C82",
  overhead: "#C7B27B",
  host: "#8C8C8C",
};

/** Letters of a disk's name beside a bar on a phone. */
const SHORT = 14;

export function costPanel(disks: Disk[], holder: HTMLElement, selections: Selection[]): void {
  const isNarrow = holder.clientWidth < NARROW;
  const named = (disk: Disk, i: number, drive: string) => {
    const [name] = disk.title.split(":") as [string];
    const short = isNarrow && name.length > SHORT ? `${name.slice(0, SHORT)}…` : name;
    return disks.length > 1 ? `${i + 1}. ${short}: ${drive}` : drive;
  };
  const rows = disks.flatMap((disk, i) => disk.costs.map((c) => ({ ...c, title: named(disk, i, c.drive) })));
  if (!rows.length) return;
  const y = rows.map((row) =>
    isNarrow
      ? plain(row.title)
          .replace(/(: |, )/g, "$1<br>")
          .replace(" (", "<br>(")
      : plain(row.title),
  );
  const causes = [...new Set(rows.flatMap((row) => Object.keys(row.causes)))];
  const traces: Fields[] = causes.map((cause) => ({
    type: "bar",
    orientation: "h",
    name: cause,
    y,
    x: rows.map((row) => row.causes[cause] || 0),
    marker: { color: CAUSES[cause] || HUES[5] },
    hovertemplate: `${cause}: %{x:.3f} s<extra></extra>`,
  }));
  if (rows.some((row) => row.best_s !== null)) traces.push(best(y, rows));
  const title = "seconds of each walk by cause";
  const plot = plotIn(holder, 80 + (isNarrow ? 52 : 34) * rows.length, title);
  const layout = plotLayout({
    barmode: "stack",
    xaxis: { title: { text: "seconds" } },
    yaxis: { automargin: true, autorange: "reversed" },
    showlegend: false,
  });
  const entries = causes.map((cause) => ({ text: cause, hue: CAUSES[cause] || HUES[5] }));
  if (traces.length > causes.length) entries.push({ text: `${BEST}: the upright line`, hue: colour("--fg") });
  plot.before(legendOf(plot, entries));
  plotly().newPlot(plot, traces, layout, CONFIG);
  holder.append(textTable(title, () => causeRows(rows, causes)).box, chosenCosts(disks, selections));
}

type Row = Cost & { title: string };

const BEST = "with the best remedy that needs no other drive";

const causeRows = (rows: Row[], causes: string[]): Told => ({
  columns: ["walk", "in all", ...causes, BEST],
  rows: rows.map((row) => [
    row.title,
    secondsText(Object.values(row.causes).reduce((a, b) => a + b, 0)),
    ...causes.map((cause) => secondsText(row.causes[cause] ?? 0)),
    row.best_s === null ? "" : `${secondsText(row.best_s)}: ${row.best}`,
  ]),
});

/** What reading the chosen nodes costs, of the first walk of each disk. */
function chosenCosts(disks: Disk[], selections: Selection[]): HTMLElement {
  const place = element("div", { class: "chosen-costs", role: "status" });
  const tell = () => {
    const lines = disks.flatMap((disk, i) => {
      const { nodes, all } = selections[i]!;
      const [walk] = disk.walks;
      if (!nodes.length || !walk) return [];
      const cost = nodes.reduce((sum, node) => sum + all.cost[node]!, 0) / 1e6;
      const same = disk.walks.filter(({ drive, order }) => drive === walk.drive && order === walk.order);
      const whole = same.reduce((sum, { total_s }) => sum + total_s, 0);
      const share = whole ? ` (${shareText(cost / whole)})` : "";
      const words = `${plural(nodes.length, "chosen node")} of ${disk.title}: ${secondsText(cost)}${share}`;
      return [element("p", {}, `${words} of ${secondsText(whole)} on a ${walk.drive}`)];
    });
    place.replaceChildren(...lines);
  };
  for (const selection of selections) selection.whenChosen(tell);
  return place;
}

function best(y: string[], rows: Row[]): Fields {
  return {
    type: "scatter",
    mode: "markers",
    name: BEST,
    y,
    x: rows.map((row) => row.best_s),
    text: rows.map((row) => plain(row.best)),
    marker: { symbol: "line-ns-open", size: 18, color: isDark() ? "#fff" : "#000", line: { width: 3 } },
    hovertemplate: "%{text}: %{x:.3f} s<extra></extra>",
  };
}

export interface Tree {
  id: string[];
  parent: (string | null)[];
  name: string[];
  own: number[];
}

/** The box around all others. */
const ALL = "all";

/** The directories with what each has in itself, in one box; those that the page does not carry are one more. */
export function withOthers(d: Directories, unit: Unit): Tree {
  const left = d.whole[unit] - d[unit].reduce((a, b) => a + b, 0);
  const tree = {
    id: [ALL, ...d.id],
    parent: [null, ...d.parent.map((parent) => parent ?? ALL)],
    name: ["all", ...d.name],
    own: [0, ...d[unit]],
  };
  if (d.shown === d.total || !(left > 0)) return tree;
  tree.id.push("others");
  tree.parent.push(ALL);
  tree.name.push(`${counted(d.total - d.shown)} other directories`);
  tree.own.push(left);
  return tree;
}

/** What each directory has with all that lies below it; a damaged tree's circles end where they began. */
export function subtreeTotals(tree: Tree): number[] {
  const place = new Map(tree.id.map((id, i) => [id as string | null, i]));
  const totals = tree.own.slice();
  tree.own.forEach((own, i) => {
    const passed = new Set([i]);
    for (let at = place.get(tree.parent[i]!); at !== undefined && !passed.has(at); at = place.get(tree.parent[at]!)) {
      totals[at]! += own;
      passed.add(at);
    }
  });
  return totals;
}

export async function directoryPanel(
  disk: Disk,
  holder: HTMLElement,
  map: Pick<AddressMap, "selection" | "owners">,
): Promise<void> {
  const d = disk.directories as Directories | null;
  if (!d) return;
  const units: Unit[] = ["seconds", "entries", "bytes"];
  const choose = element(
    "select",
    { title: "what the boxes measure" },
    ...units.map((unit) => element("option", { value: unit }, `by ${unit}`)),
  );
  const all = `${counted(d.total)} directories`;
  const note = d.shown < d.total ? `the ${counted(d.shown)} costliest of ${all}, the others in one box` : all;
  holder.append(element("div", { class: "bar" }, choose, element("span", { class: "muted" }, note)));
  const plot = plotIn(holder, 420, `directories of ${disk.title} by cost`);
  const draw = () => {
    const layout = plotLayout({ margin: { l: 4, r: 4, t: 4, b: 4 } });
    return plotly().react(plot, [treemap(d, choose.value as Unit)], layout, { ...CONFIG, displayModeBar: false });
  };
  const words = textTable(`directories of ${disk.title}`, () => directoryRows(d, choose.value as Unit));
  holder.append(words.box);
  choose.addEventListener("change", () => {
    words.refresh();
    return draw();
  });
  const drawn = draw();
  // The boxes go deeper by themselves; what lies in the one that was clicked is chosen everywhere.
  plot.on("plotly_treemapclick", ({ points: [box] }: { points: [{ id: string; label: string }] }) => {
    const nodes = map.owners.files.nodesOf(box.id);
    if (nodes.length) map.selection.choose(nodes, `with the entries of “${box.label}”`);
  });
  await drawn;
}

/** So many of the boxes stand in the table. */
const MOST_ROWS = 20;

function directoryRows(d: Directories, unit: Unit): Told {
  const text = { seconds: secondsText, entries: counted, bytes: bytesText }[unit];
  const tree = withOthers(d, unit);
  const totals = subtreeTotals(tree);
  const places = new Map(tree.id.map((id, i) => [id as string | null, i]));
  const above = (i: number) => tree.name[places.get(tree.parent[i]!) ?? -1] ?? "";
  const ranked = [...totals.keys()].sort((a, b) => totals[b]! - totals[a]!);
  const rows = ranked.slice(0, MOST_ROWS).map((i) => [tree.name[i]!, above(i), text(totals[i]!), text(tree.own[i]!)]);
  const left = ranked.length - rows.length;
  const note = left > 0 ? `The ${MOST_ROWS} largest; ${plural(left, "box")} more on the plot.` : "";
  return { columns: ["directory", "in", `${unit} in all`, "in itself"], rows, note };
}

function treemap(d: Directories, unit: Unit): Fields {
  const text = { seconds: secondsText, entries: counted, bytes: bytesText }[unit];
  const tree = withOthers(d, unit);
  const totals = subtreeTotals(tree);
  const scale = isDark() ? ["#24384a", "#3f86bd"] : ["#eaf3fa", "#7fb8de"];
  return {
    type: "treemap",
    ids: tree.id,
    labels: tree.name.map(plain),
    parents: tree.parent.map((parent) => parent ?? ""),
    values: totals,
    branchvalues: "total",
    text: totals.map(text),
    customdata: tree.own.map(text),
    textinfo: "label+text",
    hovertemplate: "%{label}<br>%{text} in all, %{customdata} in itself<extra></extra>",
    maxdepth: 5,
    tiling: { pad: 2 },
    root: { color: "rgba(0,0,0,0)" },
    marker: {
      colors: totals,
      colorscale: scale.map((colour, i) => [i, colour]),
      line: { width: 1, color: isDark() ? "#14171b" : "#ffffff" },
    },
    textfont: { color: isDark() ? "#e6e9ed" : "#1b1f24" },
  };
}
