// Which reads of a walk touch which nodes.

import type { Selection } from "./selection";
import type { Numbers } from "./unpack";

/** Places of the reads that touch chosen nodes. */
export function readsOf(
  { nodes, places, isChosen }: Selection,
  { offset, length }: Record<"offset" | "length", Numbers>,
): number[] {
  const touched: number[] = [];
  if (!nodes.length) return touched;
  const isOne = (node: number) => isChosen[node] === 1;
  for (let i = 0; i < offset.length; i++) if (places.some(offset[i]!, offset[i]! + length[i]!, isOne)) touched.push(i);
  return touched;
}
