// The table of the nodes that are chosen, to be read, copied and kept.

import { button, element, save } from "./dom";
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
  const bar = element(
    "div",
    { class: "bar" },
    element("b", {}, selection.told()),
    button("copy", "copy the table as CSV", () => navigator.clipboard.writeText(csv(selection))),
    button("save as CSV", "keep the table as a file", () =>
      save(new Blob([csv(selection)], { type: "text/csv" }), "nodes.csv"),
    ),
    button("clear selection", "list none of them", () => selection.choose([], "")),
  );
  const head = element("tr", {}, ...COLUMNS.map((name) => element("th", { scope: "col" }, name)));
  const rows = selection.nodes
    .slice(0, SHOWN)
    .map((i) => element("tr", {}, ...row(selection.all, i).map((cell) => element("td", {}, cell))));
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
  const left = selection.nodes.length - rows.length;
  return [bar, table, ...(left > 0 ? [element("p", { class: "muted" }, `and ${counted(left)} more`)] : [])];
}
