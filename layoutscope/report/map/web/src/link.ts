// What one has chosen to see, in the page's address: who opens the link sees the same.

import type { AddressMap } from "./address";
import { ORDERS, type Order } from "./cells";
import { COLOURINGS, type Colouring } from "./colouring";

const MARK = "#v=";
const FIELDS = 6;

/** One map as text: first byte, width, order, newest transaction, hidden classes, colours. */
export function written(map: Pick<AddressMap, "view" | "order" | "maxXid" | "hidden" | "by">): string {
  const xid = map.maxXid === Infinity ? "" : map.maxXid;
  const { view, order, hidden, by } = map;
  return [Math.round(view.from), Math.round(view.size), order, xid, [...hidden].join("-"), by].join(",");
}

/** The choices that a text holds, as far as they are possible; a text of something else holds none. */
export function read(text: string, classes: number): Partial<AddressMap> | null {
  const fields = text.split(",");
  const [from, size] = fields.map(Number);
  if (fields.length !== FIELDS || !Number.isFinite(from) || !(size! > 0) || !Number.isFinite(size)) return null;
  const [, , order, xid, hidden, by] = fields;
  const places = hidden!.split("-").filter(Boolean).map(Number);
  return {
    view: { from: from!, size: size! },
    order: ORDERS.includes(order as Order) ? (order as Order) : "linear",
    maxXid: xid && Number.isFinite(+xid) ? +xid : Infinity,
    by: COLOURINGS.includes(by as Colouring) ? (by as Colouring) : "tree",
    hidden: new Set(places.filter((place) => Number.isInteger(place) && place >= 0 && place < classes)),
  };
}

/** What the page's address says of each map. */
export function chosen(hash: string, classes: number[]): (Partial<AddressMap> | null)[] {
  const texts = hash.startsWith(MARK) ? hash.slice(MARK.length).split(";") : [];
  return classes.map((many, i) => (texts[i] === undefined ? null : read(texts[i]!, many)));
}

/** The page's address with what its maps show. */
export const addressOf = (maps: AddressMap[]): string =>
  location.href.split("#")[0] + MARK + maps.map(written).join(";");

/** Keep the address up to date, a moment after the last change. */
export function follow(maps: AddressMap[]): void {
  if (location.protocol === "about:") return; // the frame of a notebook has no address of its own
  let timer = 0;
  const write = () => history.replaceState(null, "", MARK + maps.map(written).join(";"));
  for (const map of maps)
    map.onDrawn = () => {
      clearTimeout(timer);
      timer = window.setTimeout(write, 300);
    };
}
