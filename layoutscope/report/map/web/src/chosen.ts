// The table of the nodes that are chosen, to be read, copied and kept.

import { element } from "./dom";
import { save } from "./export";
import { COLUMNS, csv, row, type Selection } from "./selection";
import { counted } from "./words";

/** Rows that are shown; copies and files hold all. */
const SHOWN = 12;

export function chosenTable(selection: Selection): HTMLElement {
  const box = element("div", { class: "chosen", role: "status" });
  selection.whenChosen(() => box.replaceChildren(...(selection.nodes.length ? content(selection) : [])));
  return box;
}

function content(selection: Selection): HTMLElement[] {
  const button = (text: string, action: () => unknown) => element("button", { type: "button", onclick: action }, text);
  const bar = element(
    "div",
    { class: "bar" },
    element("b", {}, selection.told()),
    button("copy", () => navigator.clipboard.writeText(csv(selection))),
    button("save as CSV", () => save(new Blob([csv(selection)], { type: "text/csv" }), "nodes.csv")),
    button("choose none", () => selection.choose([], "")),
  );
  const head = element("tr", {}, ...COLUMNS.map((name) => element("th", { scope: "col" }, name)));
  const rows = selection.nodes
    .slice(0, SHOWN)
    .map((i) => element("tr", {}, ...row(selection.all, i).map((cell) => element("td", {}, cell))));
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
  const left = selection.nodes.length - rows.length;
  return [bar, table, ...(left > 0 ? [element("p", { class: "muted" }, `and ${counted(left)} more`)] : [])];
}
