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
  SHADES,
  shadeOf,
  withoutMetadata,
} from "./cells";
import { chosenTable } from "./chosen";
import { COLOURINGS, type Colouring, overpaint, paintSteps, Scale as Shades } from "./colouring";
import { element, hueOf, isDark } from "./dom";
import { ageSlider } from "./history";
import { legend } from "./legend";
import { Owners } from "./owners";
import type { Disk, Scale } from "./payload";
import { Picture } from "./picture";
import { CONFIG, type Fields, type Plot, plotLayout, plotly } from "./plots";
import { followPointer, followStrip, type Pointed } from "./pointer";
import { Pyramid, type Width } from "./pyramid";
import { searchField } from "./search";
import { Selection } from "./selection";
import { bytesText, counted, shareText } from "./words";

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

const INVITATION =
  "Point at a cell to see what it holds; click or turn the wheel to zoom, drag to move, drag with shift to choose nodes.";
const MOST_MARKS = 1500;

export class AddressMap implements Choices, Pointed {
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
  /** Told that the picture changed. */
  onDrawn: () => void = () => {};
  /** Ends what the map hears of the window. */
  readonly gone = new AbortController();
  private readonly plot: Plot;
  private readonly picture = new Picture();
  private drawn = "";
  private isSeen = true;
  private isStale = false;
  private shades: Shades | null = null;
  private inks: Ink[] | null = null;
  private stretch: readonly [number, number] | null = null;
  private striped: { of: string; picture: ImageData } | null = null;
  private readonly strip = element("canvas", {
    class: "strip",
    title: "the whole disk; drag the frame, or click to go there",
    width: 1024,
    height: 32,
  });
  private readonly caption = element("span", { class: "muted caption" });
  private readonly scaleKey = element("div", {});
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
    const label = `map of ${disk.title}: plus and minus zoom, arrows move, 0 shows the whole disk, Backspace goes back`;
    this.plot = element("div", { class: "plot map", tabindex: 0, role: "img", "aria-label": label }) as unknown as Plot;
  }

  async build(): Promise<void> {
    this.pyramid = await Pyramid.of(this.disk);
    this.owners = await Owners.of(this.disk);
    this.selection = new Selection(this.owners.nodes);
    this.selection.whenChosen(() => this.paint());
    const slider = ageSlider(this.disk, this);
    this.holder.append(
      element("h3", {}, this.disk.title),
      element("div", { class: "bar" }, searchField(this), this.controls()),
      this.strip,
      element("div", { class: "cellbox" }, this.picture.canvas, this.plot),
      this.info,
      ...(slider ? [slider] : []),
      legend(this, this.hiddenKey),
      this.scaleKey,
      chosenTable(this.selection),
    );
    await this.draw();
    this.listen();
  }

  private listen(): void {
    followPointer(this.plot, this, this.gone.signal);
    const { start } = this.disk;
    followStrip(this.strip, {
      window: () => ({ from: (this.view.from - start) / this.full, width: this.view.size / this.full }),
      remember: () => this.earlier.push({ ...this.view }),
      lead: (from) => this.show(start + from * this.full, this.view.size, true),
    });
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
    this.pyramid.level(0).forEach((runs, k) => {
      const last = runs.first.length - 1;
      if (this.disk.classes[k]!.group !== "metadata" || last < 0) return;
      low = Math.min(low, runs.first[0]!);
      high = Math.max(high, runs.first[last]! + runs.count[last]!);
    });
    if (low < high) this.show(this.disk.start + low * this.pyramid.cell, (high - low) * this.pyramid.cell);
  }

  /** Zoom on a cell, or on the middle; with `keep` the cell stays where it is, as under a pointer. */
  zoom(factor: number, cell?: number, keep = false): Promise<void> {
    const size = this.view.size * factor;
    const at = cell === undefined ? (this.from + this.to) / 2 : this.from + (cell + 0.5) * this.cellSize;
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
    const { start } = this.disk;
    const wide = Math.min(this.full, Math.max(size, CELLS * this.pyramid.cell));
    this.view = { from: Math.min(Math.max(from, start), Math.max(start, start + this.full - wide)), size: wide };
    const changed = before.from !== this.view.from || before.size !== wide;
    if (!silent && changed) this.earlier.push(before);
    if (changed) this.onView(this);
    return this.draw();
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
    this.caption.textContent = `${bytesText(this.from)} to ${bytesText(end)} · a cell is ${bytesText(this.cellSize)}`;
    this.paint();
    this.drawStrip();
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
    if (scale) {
      const none = inks.length;
      inks.push(...scale.inks);
      withoutMetadata(picked, classes, none);
      const all = this.hidden.size === 0 && this.maxXid === Infinity;
      const there = this.owners.nodesBetween(this.from, this.to);
      paintSteps(picked, nodes, all ? there : there.filter((i) => this.shows(i)), scale.steps, none + 1, this);
    }
    overpaint(picked, nodes, this.selection.nodes, chosen, this);
    this.picture.paint(picked, inks, this.places);
  }

  /** The scale that nodes are coloured by, with its legend; null where they have the colours of their trees. */
  private scale(): Shades | null {
    const { by, shades } = this;
    if (by === "tree" || shades?.by === by) {
      if (by === "tree") this.scaleKey.replaceChildren();
      else if (!this.scaleKey.firstChild) this.scaleKey.append(shades!.key());
      return by === "tree" ? null : shades;
    }
    this.shades = new Shades(this.owners.nodes, by, this.disk.walks[0]?.label ?? "");
    this.scaleKey.replaceChildren(this.shades.key());
    return this.shades;
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
      return this.marks.length || this.head !== null ? this.mark(this.marks, this.head) : 0;
    this.drawn = this.order;
    await plotly().react(this.plot, [this.overlay()], this.layout(), { ...CONFIG, displayModeBar: false });
    this.picture.lieUnder(this.plot);
  }

  private layout(): Fields {
    const { columns, rows } = this.places;
    const square = this.order === "hilbert" ? { scaleanchor: "x" } : {};
    return plotLayout({
      xaxis: { visible: false, fixedrange: true, range: [-0.5, columns - 0.5] },
      yaxis: { visible: false, fixedrange: true, range: [rows - 0.5, -0.5], ...square },
      margin: { l: 4, r: 4, t: 4, b: 4 },
      showlegend: false,
      dragmode: false,
      hovermode: false,
    });
  }

  private overlay(): Fields & { x: number[]; y: number[]; marker: { size: number[]; color: string[] } } {
    const marked = new Set(this.marks.map((offset) => Math.floor((offset - this.from) / this.cellSize)));
    const spots = [...marked]
      .slice(0, MOST_MARKS)
      .map((cell) => ({ cell, size: 5, hue: isDark() ? "#ffffff" : "#000000" }));
    if (this.head !== null)
      spots.push({ cell: Math.floor((this.head - this.from) / this.cellSize), size: 14, hue: "#E4002B" });
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
        ...{ symbol: "circle-open", line: { width: 1.5 } },
      },
    };
  }

  /** Show marks and head; where the map is out of sight, when it is seen again. */
  mark(offsets: number[], head: number | null): Promise<unknown> | undefined {
    this.marks = offsets;
    this.head = head;
    this.isStale = !this.isSeen;
    return this.isSeen ? this.restyle() : undefined;
  }

  private restyle(): Promise<unknown> {
    this.isStale = false;
    const { x, y, marker } = this.overlay();
    const changes = { x: [x], y: [y], "marker.size": [marker.size], "marker.color": [marker.color] };
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

  /** Draw the strip's frame over its picture, which is worked out anew where other classes are shown. */
  private drawStrip(): void {
    const { strip, disk } = this;
    const pen = strip.getContext("2d")!;
    const shown = [...this.hidden].join();
    if (this.striped?.of !== shown) {
      this.paintStrip(pen);
      this.striped = { of: shown, picture: pen.getImageData(0, 0, strip.width, strip.height) };
    } else pen.putImageData(this.striped.picture, 0, 0);
    pen.strokeStyle = "#E4002B";
    pen.lineWidth = 2;
    const scale = strip.width / this.full;
    pen.strokeRect((this.from - disk.start) * scale, 1, Math.max(3, (this.to - this.from) * scale), 30);
  }

  private paintStrip(pen: CanvasRenderingContext2D): void {
    const { strip, disk } = this;
    const width = this.pyramid.widthFor(this.full / strip.width);
    const cells = Math.ceil(this.full / width.bytes);
    const pixel = (strip.width * width.bytes) / this.full;
    pen.fillStyle = isDark() ? "#1e2126" : "#f4f4f2";
    pen.fillRect(0, 0, strip.width, strip.height);
    const held = this.pyramid.held(0, width, cells);
    for (const metadata of [false, true])
      disk.classes.forEach((c, k) => {
        if ((c.group === "metadata") !== metadata || c.group === "free" || this.hidden.has(k)) return;
        pen.fillStyle = hueOf(c);
        held[k]!.forEach((bytes, i) => {
          if (bytes <= 0) return;
          const share = bytes / width.bytes;
          pen.globalAlpha = metadata ? SHADES[shadeOf(share)]![1] : Math.max(0.15, share);
          pen.fillRect(i * pixel, metadata ? 0 : 8, Math.max(1, pixel), 24);
        });
      });
    pen.globalAlpha = 1;
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
