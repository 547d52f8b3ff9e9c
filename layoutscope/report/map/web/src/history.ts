// When nodes were written.

import { brushed } from "./brush";
import { element } from "./dom";
import { type Disk, type History, PLACES, startText } from "./payload";
import { padded, pictureTrace, plotIn } from "./plots";
import type { Selection } from "./selection";
import { partsOf, spanOf, textTable } from "./tables";
import type { Nodes } from "./unpack";
import { bytesText, counted } from "./words";

interface AgeFilter {
  maxXid: number;
  owners: { nodes: Nodes };
  draw(): Promise<void>;
}

/** Hides nodes that are younger than a transaction; null where transactions are not numbered. */
export function ageSlider(disk: Disk, map: AgeFilter): HTMLElement | null {
  const h = disk.history;
  if (!h) return null;
  const label = element("span", { class: "muted" });
  const { nodes } = map.owners;
  if (nodes.total > nodes.offset.length) {
    label.textContent = "the disk has more nodes than the page carries, so that none are hidden by their age";
    return element("div", { class: "bar" }, label);
  }
  const title = "show nodes written up to this transaction";
  const slider = element("input", { type: "range", min: h.low, max: h.high, value: h.high, title });
  if (map.maxXid !== Infinity) slider.value = String(map.maxXid);
  const tell = () => {
    const all = map.maxXid === Infinity;
    label.textContent = all
      ? `nodes of all transactions, ${counted(h.low)} to ${counted(h.high)}`
      : `nodes written up to transaction ${counted(map.maxXid)}`;
  };
  const go = () => {
    map.maxXid = +slider.value >= h.high ? Infinity : +slider.value;
    tell();
    return map.draw();
  };
  slider.addEventListener("input", go);
  tell();
  const bar = element("div", { class: "bar" }, slider, label);
  if (h.states.length) bar.prepend(stateChooser(h, slider, go));
  return bar;
}

function stateChooser(h: History, slider: HTMLInputElement, go: () => unknown): HTMLElement {
  const states = h.states.map((state) => element("option", { value: Math.min(state.xid, h.high) }, state.label));
  const live = element("option", { value: h.high }, "live");
  const choose = element("select", { title: "a checkpoint or snapshot" }, live, ...states);
  choose.addEventListener("change", () => {
    slider.value = choose.value;
    go();
  });
  return choose;
}

export async function historyPanel(disk: Disk, holder: HTMLElement, selection: Selection): Promise<void> {
  const h = disk.history;
  if (!h) {
    holder.append(
      element(
        "p",
        { class: "muted" },
        "There is nothing to compare: no node here tells its transaction, or all tell the same one.",
      ),
    );
    return;
  }
  const trace = await pictureTrace(h.picture, "%{x:,.1f} MiB<br>transaction %{y:,.0f}");
  const title = "Transaction that wrote each node, over the address space";
  holder.append(element("h3", {}, title));
  if (disk.start) holder.append(element("p", { class: "muted" }, startText(disk)));
  const layout = {
    xaxis: { title: { text: PLACES }, range: padded(h.picture.x) },
    yaxis: { title: { text: "transaction" }, range: padded(h.picture.y) },
  };
  const plot = plotIn(holder, 280, title);
  const columns = ["places on disk", "nodes", "oldest transaction", "youngest transaction"];
  const note = "Equal parts of the stretch with nodes; transactions are told to a step of the picture.";
  const place_ = (mib: number) => bytesText(Math.max(0, Math.round(mib * 2 ** 20)));
  const words = textTable(title, async () => ({
    columns,
    rows: await partsOf(h.picture, spanOf(place_), (xid) => counted(Math.round(xid))),
    note,
  }));
  holder.append(words.box);
  const { xid, offset } = selection.all;
  const placing = {
    has: (i: number) => xid[i]! > 0 && offset[i]! >= 0, // what lies on another drive of a set has no place here
    x: (i: number) => (offset[i]! - disk.start) / 2 ** 20,
    y: (i: number) => xid[i]!,
  };
  await brushed(plot, trace, layout, selection, placing, "chosen by age and place");
}
