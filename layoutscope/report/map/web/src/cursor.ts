// Reading the map without a pointer: a frame that keys move from cell to cell.

const STEPS: Record<string, [number, number]> = {
  ArrowRight: [1, 0],
  ArrowLeft: [-1, 0],
  ArrowDown: [0, 1],
  ArrowUp: [0, -1],
};

/** What a map tells of its cells. */
export interface Read {
  readonly from: number;
  readonly to: number;
  readonly disk: { start: number; size: number };
  readonly cellSize: number;
  readonly marks: number[];
  readonly head: number | null;
  beside(byte: number, columns: number, rows: number): number;
  describe(cell: number): void;
  zoom(factor: number, cell: number): Promise<unknown>;
  choose(first: number, last: number): void;
  mark(offsets: number[], head: number | null): unknown;
}

export class Cursor {
  /** A byte of the cell that is read, which stays there when the map is zoomed; null where none is. */
  byte: number | null = null;

  constructor(private readonly map: Read) {}

  /** Act on a key, and tell whether there was anything to do. */
  press(e: KeyboardEvent): boolean {
    const { map } = this;
    const step = e.shiftKey && STEPS[e.key];
    const cell = this.cell();
    if (step) this.go(step);
    else if (cell === null) return false;
    else if (e.key === "Enter") map.zoom(1 / 16, cell).then(() => map.describe(this.cell() ?? cell));
    else if (e.key === " ") map.choose(cell, cell);
    else if (e.key === "Escape") this.put(null);
    else return false;
    e.preventDefault();
    return true;
  }

  /** The cell that is read; null where none is, or where it is out of sight. */
  private cell(): number | null {
    const { byte, map } = this;
    return byte === null || byte < map.from || byte >= map.to ? null : Math.floor((byte - map.from) / map.cellSize);
  }

  /** Begin in the middle of what is seen of the disk, or go on from where one was, not past the disk's end. */
  private go([columns, rows]: [number, number]): void {
    const { map } = this;
    const isThere = this.cell() !== null;
    // The disk may end before the picture.
    const end = Math.min(map.to, map.disk.start + map.disk.size);
    const from = isThere ? this.byte! : (map.from + end) / 2;
    const cell = isThere ? map.beside(from, columns, rows) : map.beside(from, 0, 0);
    if (map.from + cell * map.cellSize >= end) return;
    this.put(map.from + (cell + 0.5) * map.cellSize);
    map.describe(cell);
  }

  private put(byte: number | null): void {
    this.byte = byte;
    this.map.mark(this.map.marks, this.map.head);
  }
}
