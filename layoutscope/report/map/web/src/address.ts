// The address map: cells of equal size, coloured by what they hold; metadata shows through everything else.

import {
  CELLS,
  CHOSEN,
  cellPlaces,
  colours,
  type Ink,
  ORDERS,
  type Order,
  type Places,
  palette,
  withoutMetadata,
} from "./cells";
import { chosenTable } from "./chosen";
import { COLOURINGS, type Colouring, overpaint, paintSteps, Scale as Shades } from "./colouring";
import { Cursor } from "./cursor";
import { element, hueOf, isDark } from "./dom";
import { ageSlider } from "./history";
import { legend } from "./legend";
import { mapWords } from "./mapwords";
import { Owners } from "./owners";
import type { Disk, Scale } from "./payload";
import { Peek, type Peeked } from "./peek";
import { Picture } from "./picture";
import { CONFIG, type Fields, type Plot, plotLayout, plotly } from "./plots";
import { followPointer, type Pointed } from "./pointer";
import { Pyramid, type Width } from "./pyramid";
import { searchField } from "./search";
import { Selection } from "./selection";
import { Strip, type Stripped } from "./strip";
import { type TextTable, textTable } from "./tables";
import { bytesText, counted, placesText, shareText } from "./words";

interface Overlay extends Fields {
  x: number[];
  y: number[];
  marker: { size: number[]; color: string[]; symbol: string[]; line: Fields };
}

interface View {
  from: number;
  size: number;
}

/** What one has chosen to see; it outlives a change of colours. */
export interface Choices {
  view: View;
  earlier: View[];
  hidden: Set<number>;
  order: Order;
  maxXid: number;
  by: Colouring;
}

const KEYS =
  "plus and minus zoom, arrows move, 0 shows the whole disk, Backspace goes back; " +
  "shift and arrows read cell by cell, Enter zooms in on the cell, Space chooses its nodes";
const INVITATION = matchMedia("(hover: none)").matches
  ? "Tap a cell to see what it holds, and again to zoom in; two fingers zoom in and out."
  : "Point at a cell to see what it holds; click or turn the wheel to zoom, drag to move, drag with shift to choose nodes.";
const MOST_MARKS = 1500;
/** How high a square picture may be, as a share of the window's height and in CSS pixels. */
const SQUARE = 0.8;
const MOST_SQUARE = 768;

export class AddressMap implements Choices, Pointed, Stripped {
  view: View;
  earlier: View[] = [];
  hidden = new Set<number>();
  order: Order = "linear";
  maxXid = Infinity;
  by: Colouring = "tree";

  readonly full: number;
  readonly used: number;
  from = 0;
  to = 0;
  cellSize = 0;
  marks: number[] = [];
  head: number | null = null;
  current: Float64Array[] = [];
  hiddenBytes = new Float64Array(0);
  pyramid!: Pyramid;
  owners!: Owners;
  selection!: Selection;
  readonly info = element("div", { class: "hover", role: "status" }, INVITATION);
  /** Told of each view that somebody chooses. */
  onView: (map: AddressMap) => void = () => {};
  /** Told what the legend hides, when that changes. */
  onFilter: (() => void)[] = [];
  /** Told that the picture changed. */
  onDrawn: () => void = () => {};
  /** Ends what the map hears of the window. */
  readonly gone = new AbortController();
  private readonly plot: Plot;
  private readonly picture = new Picture();
  private drawn = "";
  private filtered = "";
  private isSeen = true;
  private isStale = false;
  private shades: Shades | null = null;
  private inks: Ink[] | null = null;
  private stretch: readonly [number, number] | null = null;
  private strip!: Strip;
  readonly cursor = new Cursor(this);
  private readonly words: TextTable;
  private peek!: Peek;
  private readonly caption = element("span", { class: "muted caption" });
  private readonly scaleKey = element("div", {});
  private readonly shadeKey = element("span", {});
  private readonly hiddenKey = element("span", {});
  private places: Places = cellPlaces("linear");

  constructor(
    readonly disk: Disk,
    private readonly holder: HTMLElement,
    scale: Scale,
  ) {
    // The same spans for every disk: one scale. The first view is the part in use, where there is something to see.
    this.full = scale.span;
    this.used = scale.used;
    this.view = { from: disk.start, size: scale.used };
    const label = `map of ${disk.title}: ${KEYS}`;
    this.words = textTable(`map of ${disk.title}`, () => mapWords(this));
    this.plot = element("div", {
      class: "plot map",
      tabindex: 0,
      role: "application",
      "aria-label": label,
    }) as unknown as Plot;
  }

  async build(): Promise<void> {
    this.pyramid = await Pyramid.of(this.disk);
    this.view = this.possible(this.view.from, this.view.size); // a link may ask for what is not there
    this.owners = await Owners.of(this.disk);
    this.selection = new Selection(this.owners.nodes, this.owners.places);
    this.selection.whenChosen(() => this.paint());
    this.strip = new Strip(this);
    const slider = ageSlider(this.disk, this);
    this.holder.append(
      element("h3", {}, this.disk.title),
      element("div", { class: "bar" }, searchField(this), this.controls()),
      this.strip.canvas,
      element("div", { class: "cellbox" }, this.picture.canvas, this.plot),
      this.info,
      ...(slider ? [slider] : []),
      legend(this, this.shadeKey, this.hiddenKey),
      this.scaleKey,
      this.words.box,
      chosenTable(this.selection),
    );
    const peeks = document.getElementById("peeks");
    if (peeks) this.peek = new Peek(this.peeked(), peeks, this.gone.signal);
    await this.draw();
    this.listen();
  }

  private peeked(): Peeked {
    const spots = () => {
      const { x, y, marker } = this.overlay();
      const { columns, rows } = this.places;
      return x.map((at, i) => ({ x: (at + 0.5) / columns, y: (y[i]! + 0.5) / rows, hue: marker.color[i]! }));
    };
    const isMarked = () => this.head !== null || this.marks.length > 0 || this.selection.nodes.length > 0;
    return { title: this.disk.title, canvas: this.picture.canvas, plot: this.plot, isMarked, spots };
  }

  private listen(): void {
    followPointer(this.plot, this, this.gone.signal);
    const sight = new IntersectionObserver(([last]) => {
      this.isSeen = last!.isIntersecting;
      if (this.isSeen && this.isStale) this.restyle();
    });
    sight.observe(this.plot);
    this.gone.signal.addEventListener("abort", () => sight.disconnect());
    this.plot.addEventListener("keydown", (e) => this.press(e));
    this.plot.on("plotly_relayout", () => this.picture.lieUnder(this.plot));
  }

  grip(cell: number): (cell: number) => void {
    const { from } = this;
    this.earlier.push({ ...this.view });
    return (at) => this.show(from - (at - cell) * this.cellSize, this.view.size, true);
  }

  private press(e: KeyboardEvent): void {
    if (this.cursor.press(e)) return;
    const keys: Record<string, () => unknown> = {
      "+": () => this.zoom(1 / 4),
      "=": () => this.zoom(1 / 4),
      "-": () => this.zoom(4),
      "0": () => this.show(this.disk.start, this.full),
      Backspace: () => this.back(),
      ArrowRight: () => this.move(1 / 4),
      ArrowLeft: () => this.move(-1 / 4),
      ArrowDown: () => this.move(1),
      ArrowUp: () => this.move(-1),
    };
    const act = keys[e.key];
    if (!act) return;
    e.preventDefault();
    act();
  }

  /** The cell under a pointer; the picture fills the plot but for its margins. */
  cellAt(event: MouseEvent): number {
    const { xaxis, yaxis } = this.plot._fullLayout;
    const box = this.plot.getBoundingClientRect();
    const clamp = (n: number, most: number) => Math.min(most - 1, Math.max(0, Math.floor(n * most)));
    const column = clamp((event.clientX - box.left - xaxis._offset) / xaxis._length, this.places.columns);
    const row = clamp((event.clientY - box.top - yaxis._offset) / yaxis._length, this.places.rows);
    return this.places.cell[row * this.places.columns + column]!;
  }

  /** The cell of a byte, and the one that stands so many columns and rows beside it in the picture. */
  beside(byte: number, columns: number, rows: number): number {
    const at = Math.min(CELLS - 1, Math.max(0, Math.floor((byte - this.from) / this.cellSize)));
    const inside = (n: number, many: number) => Math.min(many - 1, Math.max(0, n));
    const column = inside(this.places.column[at]! + columns, this.places.columns);
    const row = inside(this.places.row[at]! + rows, this.places.rows);
    return this.places.cell[row * this.places.columns + column]!;
  }

  private controls(): HTMLElement {
    const isChange = this.disk.classes.some(({ key }) => key === "stayed");
    const button = (text: string, title: string, action: () => unknown) =>
      element("button", { type: "button", title, onclick: action }, text);
    const chooser = (title: string, names: readonly string[], now: string, choose: (name: string) => void) => {
      const box = element("select", { title }, ...names.map((name) => element("option", { value: name }, name)));
      box.value = now;
      box.addEventListener("change", () => {
        choose(box.value);
        this.draw();
      });
      return box;
    };
    const orders = chooser("how addresses run through the picture", ORDERS, this.order, (name) => {
      this.order = name as Order;
    });
    const colourings = chooser("what colours nodes", COLOURINGS, this.by, (name) => {
      this.by = name as Colouring;
    });
    return element(
      "div",
      { class: "bar" },
      button("+", "zoom in on the middle", () => this.zoom(1 / 4)),
      button("−", "zoom out", () => this.zoom(4)),
      button("whole disk", "zoom out fully", () => this.show(this.disk.start, this.full)),
      button("part in use", "what is in use, nearly all of it", () => this.show(this.disk.start, this.used)),
      button(isChange ? "changes" : "metadata", `zoom to the span of the ${isChange ? "changes" : "metadata"}`, () =>
        this.showMetadata(),
      ),
      button("back", "to the view before", () => this.back()),
      orders,
      element("label", { class: "muted" }, "nodes by ", colourings),
      this.caption,
    );
  }

  private showMetadata(): void {
    let [low, high] = [Infinity, -Infinity];
    this.pyramid.finest.forEach((runs, k) => {
      const last = runs.first.length - 1;
      if (this.disk.classes[k]!.group !== "metadata" || last < 0) return;
      low = Math.min(low, runs.first[0]!);
      high = Math.max(high, runs.first[last]! + runs.count[last]!);
    });
    if (low < high) this.show(this.disk.start + low * this.pyramid.cell, (high - low) * this.pyramid.cell);
  }

  /** Zoom on a cell, a byte, or the middle; with `keep` it stays where it is, as under a pointer. */
  zoom(factor: number, cell?: number, keep = false, byte = (this.from + this.to) / 2): Promise<void> {
    const size = this.view.size * factor;
    const at = cell === undefined ? byte : this.from + (cell + 0.5) * this.cellSize;
    return this.show(keep ? at - (at - this.from) * factor : at - size / 2, size);
  }

  private move(share: number): Promise<void> {
    return this.show(this.view.from + share * this.view.size, this.view.size);
  }

  private back(): Promise<void> | undefined {
    const view = this.earlier.pop();
    return view && this.show(view.from, view.size, true);
  }

  show(from: number, size: number, silent = false): Promise<void> {
    const before = this.view;
    this.view = this.possible(from, size);
    const changed = before.from !== this.view.from || before.size !== this.view.size;
    if (!silent && changed) this.earlier.push(before);
    if (changed) this.onView(this);
    return this.draw();
  }

  /** What is seen where somebody asks for a stretch: cells have a least size, and there is not more than all. */
  private possible(from: number, size: number): View {
    const { start } = this.disk;
    const wide = Math.min(this.full, Math.max(size, CELLS * this.pyramid.cell));
    return { from: Math.min(Math.max(from, start), Math.max(start, start + this.full - wide)), size: wide };
  }

  async draw(): Promise<void> {
    const { start } = this.disk;
    if (this.drawn !== this.order) this.places = cellPlaces(this.order);
    const width = this.pyramid.widthFor(this.view.size / CELLS);
    this.cellSize = width.bytes;
    this.from = start + Math.floor((this.view.from - start) / width.step) * width.step;
    this.to = this.from + this.cellSize * CELLS;
    this.share(width);
    this.hiddenKey.hidden = !(this.hidden.size || this.maxXid !== Infinity);
    const end = Math.min(this.to, start + this.full);
    this.caption.textContent = `${placesText(this.from, end)} · a cell is ${bytesText(this.cellSize)}`;
    this.paint();
    this.strip.draw();
    const filtered = [...this.hidden].join();
    if (filtered !== this.filtered) for (const listener of this.onFilter) listener();
    this.filtered = filtered;
    this.words.refresh();
    this.onDrawn();
    await this.drawAxes();
    await this.owners.look(this.from, this.to);
  }

  /** Paint the cells; nodes by their level or age where that is asked for, and chosen nodes in a colour of their own. */
  private paint(): void {
    const { classes } = this.disk;
    this.inks ??= [...palette(classes), { hue: hueOf(CHOSEN) }]; // other colours make another map
    const inks = [...this.inks];
    const chosen = inks.length - 1;
    const picked = colours(classes, this.current, this.hiddenBytes, this.cellSize);
    const { nodes } = this.owners;
    const scale = this.scale();
    this.shadeKey.hidden = scale !== null;
    if (scale) {
      const none = inks.length;
      inks.push(...scale.inks);
      withoutMetadata(picked, classes, none);
      const all = this.hidden.size === 0 && this.maxXid === Infinity;
      const there = this.owners.places.near(this.from, this.to);
      paintSteps(picked, nodes, all ? there : there.filter((i) => this.shows(i)), scale.steps, none + 1, this);
    }
    overpaint(picked, nodes, this.selection.nodes, chosen, this);
    this.picture.paint(picked, inks, this.places);
    this.peek?.refresh();
  }

  /** The scale that nodes are coloured by, with its legend; null where they have the colours of their trees. */
  private scale(): Shades | null {
    const { by, shades } = this;
    if (by === "tree" || shades?.by === by) {
      if (by === "tree") this.scaleKey.replaceChildren();
      else if (!this.scaleKey.firstChild) this.scaleKey.append(shades!.key());
      return by === "tree" ? null : shades;
    }
    this.shades = new Shades(this.owners.nodes, by, this.disk.walks[0]?.drive ?? "");
    this.scaleKey.replaceChildren(this.shades.key());
    return this.shades;
  }

  /** Whether the legend shows a tree. */
  showsTree(tree: string): boolean {
    return !this.hidden.has(this.disk.classes.findIndex(({ key }) => key === tree));
  }

  /** Whether neither legend nor slider hides a node. */
  private shows(i: number): boolean {
    const { classes, tree, xid } = this.owners.nodes;
    return !this.hidden.has(classes[tree[i]!]!) && xid[i]! <= this.maxXid;
  }

  /** Choose the nodes of a stretch of cells; of a drag's many stretches in one frame the last one alone. */
  choose(first: number, last: number): void {
    const stretch = [this.from + first * this.cellSize, this.from + (last + 1) * this.cellSize] as const;
    if (!this.stretch)
      requestAnimationFrame(() => {
        const [low, high] = this.stretch!;
        this.stretch = null;
        this.selection.between(low, high);
      });
    this.stretch = stretch;
  }

  /** Draw the axes anew where they changed, and else the marks, where there are any. */
  private async drawAxes(): Promise<unknown> {
    if (this.drawn === this.order)
      return this.marks.length || this.head !== null || this.cursor.byte !== null
        ? this.mark(this.marks, this.head)
        : 0;
    this.drawn = this.order;
    // A square is as large as the window lets it be, the other orders fill the card's width.
    const side = Math.min(this.holder.clientWidth, SQUARE * innerHeight, MOST_SQUARE);
    this.plot.style.height = this.order === "hilbert" ? `${side}px` : "";
    await plotly().react(this.plot, [this.overlay()], this.layout(), { ...CONFIG, displayModeBar: false });
    await plotly().relayout(this.plot, { autosize: true });
    this.picture.lieUnder(this.plot);
  }

  private layout(): Fields {
    const { columns, rows } = this.places;
    // Between two whole axes: else one of them would show more than the cells, which lie under both.
    const square = this.order === "hilbert" ? { scaleanchor: "x", constrain: "domain" } : {};
    return plotLayout({
      xaxis: { visible: false, fixedrange: true, range: [-0.5, columns - 0.5], constrain: "domain" },
      yaxis: { visible: false, fixedrange: true, range: [rows - 0.5, -0.5], ...square },
      margin: { l: 4, r: 4, t: 4, b: 4 },
      showlegend: false,
      dragmode: false,
      hovermode: false,
    });
  }

  private overlay(): Overlay {
    const marked = new Set(this.marks.map((offset) => Math.floor((offset - this.from) / this.cellSize)));
    const spots = [...marked]
      .slice(0, MOST_MARKS)
      .map((cell) => ({ cell, size: 5, hue: isDark() ? "#ffffff" : "#000000", symbol: "circle-open" }));
    const spot = (byte: number, size: number, symbol: string) =>
      spots.push({ cell: Math.floor((byte - this.from) / this.cellSize), size, hue: "#E4002B", symbol });
    if (this.head !== null) spot(this.head, 14, "circle-open");
    if (this.cursor.byte !== null) spot(this.cursor.byte, 12, "square-open");
    const seen = spots.filter(({ cell }) => cell >= 0 && cell < CELLS);
    return {
      type: "scatter",
      mode: "markers",
      x: seen.map(({ cell }) => this.places.column[cell]!),
      y: seen.map(({ cell }) => this.places.row[cell]!),
      hoverinfo: "skip",
      marker: {
        size: seen.map(({ size }) => size),
        color: seen.map(({ hue }) => hue),
        symbol: seen.map(({ symbol }) => symbol),
        line: { width: 1.5 },
      },
    };
  }

  /** Show marks and head; where the map is out of sight, when it is seen again. */
  mark(offsets: number[], head: number | null): Promise<unknown> | undefined {
    this.marks = offsets;
    this.head = head;
    this.isStale = !this.isSeen;
    this.peek?.refresh();
    return this.isSeen ? this.restyle() : undefined;
  }

  private restyle(): Promise<unknown> {
    this.isStale = false;
    const { x, y, marker } = this.overlay();
    const { size, color, symbol } = marker;
    const changes = { x: [x], y: [y], "marker.size": [size], "marker.color": [color], "marker.symbol": [symbol] };
    return plotly().restyle(this.plot, changes, [0]);
  }

  /** Work out the bytes of each class in each cell that are shown, and of all that the legend or the slider hides. */
  private share(width: Width): void {
    this.current = this.pyramid.held(this.from - this.disk.start, width, CELLS);
    this.hiddenBytes = new Float64Array(CELLS);
    if (this.maxXid !== Infinity) this.hideYounger();
    for (const k of this.hidden) {
      const of = this.current[k]!;
      for (let c = 0; c < CELLS; c++) this.hiddenBytes[c]! += of[c]!;
      this.current[k] = new Float64Array(CELLS);
    }
  }

  private hideYounger(): void {
    const { offset, size, xid, tree, classes } = this.owners.nodes;
    for (let i = 0; i < offset.length; i++) {
      const of = this.current[classes[tree[i]!]!];
      const end = offset[i]! + size[i]!;
      if (!of || xid[i]! <= this.maxXid || offset[i]! >= this.to || end <= this.from) continue;
      const first = Math.max(0, Math.floor((offset[i]! - this.from) / this.cellSize));
      const last = Math.min(CELLS - 1, Math.floor((end - 1 - this.from) / this.cellSize));
      for (let c = first; c <= last; c++) {
        const low = this.from + c * this.cellSize;
        const bytes = Math.min(of[c]!, Math.min(end, low + this.cellSize) - Math.max(offset[i]!, low));
        of[c]! -= bytes;
        this.hiddenBytes[c]! += bytes;
      }
    }
  }

  describe(cell: number): void {
    const low = this.from + cell * this.cellSize;
    const high = Math.min(low + this.cellSize, this.disk.start + this.disk.size);
    if (low >= high) {
      this.info.textContent = "past the end of this disk";
      return;
    }
    const held = this.disk.classes.map((c, k) => ({ label: c.label, bytes: this.current[k]![cell]! }));
    held.push({ label: "hidden by the legend or the slider", bytes: this.hiddenBytes[cell]! });
    const told = held
      .filter(({ bytes }) => bytes > 0)
      .sort((a, b) => b.bytes - a.bytes)
      .map(({ label, bytes }) => `${label} ${shareText(bytes / (high - low))}`);
    const lines = [`bytes ${counted(low)} to ${counted(high)}`, told.join(" · "), ...this.owners.lines(low, high)];
    this.info.textContent = lines.join("\n");
  }
}
