// Seconds by cause, and by directory.

import type { AddressMap } from "./address";
import { element, isDark } from "./dom";
import type { Directories, Disk, Unit } from "./payload";
import { CONFIG, type Fields, HUES, plain, plotIn, plotLayout, plotly } from "./plots";
import { bytesText, counted, secondsText } from "./words";

/** None of the colours of the map's classes; those of the first screen stand in the page's style. */
const CAUSES: Record<string, string> = {
  seek: "#5B3A8E",
  rotation: "#B0699F",
  transfer: "#2A8C82",
  overhead: "#C7B27B",
  host: "#8C8C8C",
};

export function costPanel(disks: Disk[], holder: HTMLElement): void {
  const named = (disk: Disk, i: number, drive: string) =>
    disks.length > 1 ? `${i + 1}. ${disk.title.split(":")[0]}: ${drive}` : drive;
  const rows = disks.flatMap((disk, i) => disk.costs.map((c) => ({ ...c, title: named(disk, i, c.drive) })));
  if (!rows.length) return;
  const y = rows.map((row) => plain(row.title));
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
  if (rows.some((row) => row.bound_s !== null))
    traces.push(
      packed(
        y,
        rows.map((row) => row.bound_s),
      ),
    );
  const layout = plotLayout({
    barmode: "stack",
    xaxis: { title: { text: "seconds of the predicted walk, by cause" } },
    yaxis: { automargin: true, autorange: "reversed" },
    legend: { orientation: "h", y: 1.15 },
  });
  plotly().newPlot(plotIn(holder, 110 + 34 * rows.length, "seconds of each walk by cause"), traces, layout, CONFIG);
}

function packed(y: string[], x: (number | null)[]): Fields {
  return {
    type: "scatter",
    mode: "markers",
    name: "packed in key order",
    y,
    x,
    marker: { symbol: "line-ns-open", size: 18, color: isDark() ? "#fff" : "#000", line: { width: 3 } },
    hovertemplate: "packed in key order: %{x:.3f} s<extra></extra>",
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

export function directoryPanel(disk: Disk, holder: HTMLElement, map: Pick<AddressMap, "selection" | "owners">): void {
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
  choose.addEventListener("change", draw);
  draw();
  // The boxes go deeper by themselves; what lies in the one that was clicked is chosen everywhere.
  plot.on("plotly_treemapclick", ({ points: [box] }: { points: [{ id: string; label: string }] }) => {
    const nodes = map.owners.files.nodesOf(box.id);
    if (nodes.length) map.selection.choose(nodes, `with the entries of “${box.label}”`);
  });
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
