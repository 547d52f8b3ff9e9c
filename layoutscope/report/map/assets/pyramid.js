"use strict";
// What cells hold, exactly: the page carries the narrowest level, each wider one is the sum of pairs of cells.

const SOME = 8; // at least so many cells of a level make one cell of the picture, where there are so narrow ones

async function cellsOf(packed) {
  const { gap, count, held } = await unpackAll(packed, ["gap", "count", "held"]);
  const first = new Float64Array(gap.length);
  for (let i = 0, at = 0; i < gap.length; i++) { at += gap[i]; first[i] = at; at += count[i] + 1; }
  return { first, count: Float64Array.from(count, (n) => n + 1), held: Float64Array.from(held) };
}

// Runs of cells in ascending order; what falls into the same cell twice is added up, equal neighbours are one run.
class RunWriter {
  constructor(most) {
    this.first = new Float64Array(most); this.count = new Float64Array(most); this.held = new Float64Array(most); this.n = 0;
  }

  put(first, count, held) {
    const last = this.n - 1, end = last < 0 ? -1 : this.first[last] + this.count[last];
    if (first === end - 1 && this.count[last] === 1) { this.held[last] += held; return; }
    if (first === end && this.held[last] === held && count > 1) { this.count[last] += count; return; }
    this.first[this.n] = first; this.count[this.n] = count; this.held[this.n] = held; this.n++;
  }

  done() {
    return { first: this.first.slice(0, this.n), count: this.count.slice(0, this.n), held: this.held.slice(0, this.n) };
  }
}

function halved(cells) {
  const out = new RunWriter(3 * cells.first.length);
  for (let i = 0; i < cells.first.length; i++) {
    let first = cells.first[i];
    const end = first + cells.count[i], held = cells.held[i];
    if (first % 2) { out.put((first - 1) / 2, 1, held); first++; }
    const pairs = Math.floor((end - first) / 2);
    if (pairs > 0) out.put(first / 2, pairs, 2 * held);
    if (first < end && (end - first) % 2) out.put((end - 1) / 2, 1, held);
  }
  return out.done();
}

// The first run that ends behind a cell.
function firstRun(cells, cell) {
  let low = 0, high = cells.first.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (cells.first[middle] + cells.count[middle] <= cell) low = middle + 1; else high = middle;
  }
  return low;
}

class Pyramid {
  static async of(disk) {
    const pyramid = new Pyramid();
    pyramid.unit = disk.pyramid.unit; pyramid.cell = disk.pyramid.cell; pyramid.size = disk.size;
    pyramid.free = disk.classes.findIndex((c) => c.group === "free");
    pyramid.levels = [await Promise.all(disk.pyramid.cells.map(cellsOf))];
    return pyramid;
  }

  level(number) {
    while (this.levels.length <= number) this.levels.push(this.levels[this.levels.length - 1].map(halved));
    return this.levels[number];
  }

  // The narrowest cells, at least as wide as asked for, that are sums of whole cells of some level.
  widthFor(bytes) {
    let number = 0;
    while (this.cell * 2 ** (number + 1) * SOME <= bytes) number++;
    const step = this.cell * 2 ** number;
    return { step, number, bytes: Math.max(step, Math.ceil(bytes / step) * step) };
  }

  // Bytes of each class in each of some cells; from is a multiple of the width's step, counted from the disk's start.
  held(from, width, cells) {
    const level = this.level(width.number), low = Math.round(from / width.step), many = Math.round(width.bytes / width.step);
    const shares = level.map((runs) => this.heldBy(runs, low, many, cells));
    if (this.free >= 0) shares[this.free] = this.rest(shares, from, width, cells);
    return shares;
  }

  heldBy(runs, low, many, cells) {
    const out = new Float64Array(cells), high = low + many * cells;
    for (let i = firstRun(runs, low); i < runs.first.length && runs.first[i] < high; i++) {
      let at = Math.max(runs.first[i], low);
      const end = Math.min(runs.first[i] + runs.count[i], high), held = runs.held[i] * this.unit;
      while (at < end) {
        const cell = Math.floor((at - low) / many), stop = Math.min(end, low + (cell + 1) * many);
        out[cell] += (stop - at) * held;
        at = stop;
      }
    }
    return out;
  }

  rest(shares, from, width, cells) {
    const out = new Float64Array(cells);
    for (let c = 0; c < cells; c++) out[c] = Math.max(0, Math.min(width.bytes, this.size - from - c * width.bytes));
    shares.forEach((of, k) => { if (k !== this.free) for (let c = 0; c < cells; c++) out[c] -= of[c]; });
    return out;
  }
}
