// Directories as boxes in each other.

import type { Directories, Unit } from "./payload";
import { counted } from "./words";

/** A box alone in another one has at least so much of it. */
const ALONE = 0.9;

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

/** A box of which the others inside are worth a look: one alone is walked into, as far as it has nearly all. */
export function topmost(tree: Tree, totals: number[]): string {
  let at = 0;
  const passed = new Set<number>();
  for (;;) {
    passed.add(at);
    const inside = tree.parent.flatMap((parent, i) => (parent === tree.id[at] && totals[i]! > 0 ? [i] : []));
    const [best] = inside.sort((a, b) => totals[b]! - totals[a]!);
    if (best === undefined || passed.has(best) || totals[best]! < ALONE * totals[at]!) return tree.id[at]!;
    at = best;
  }
}
