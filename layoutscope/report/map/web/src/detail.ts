// The stretch that the figure shows, of one disk, as cells: where exactly things lie, and whose they are.

import { gridOf, MOST_COLUMNS, paint } from "./cells";
import { button, element, list, type Rows, textTable } from "./dom";
import type { Drawn } from "./drawn";
import type { Payload } from "./payload";
import { CONFIG, color, type Fields, type Plot, plotIn, plotLayout, plotly, redraw } from "./plots";
import { searchField } from "./search";
import { chosenTable } from "./selection";
import { Tip } from "./tipbox";
import { pause } from "./turns";
import type { View } from "./view";
import { bytesText, counted, placesText, shareText } from "./words";

const CELLS = MOST_COLUMNS * 64;
const MOST_MARKS = 1500;
/** A view that lasts so many milliseconds is drawn. */
const REST_MS = 90;

/** The table of the stretch has so many rows, each for an equal part. */
const PARTS = 16;

export class Detail {
  /** Which disk is shown. */
  number = 0;
  from = 0;
  cell = 1;
  columns = 1;
  painted = new Int8Array(0);
  readonly info = element("div", { class: "found-info", role: "status" });
  readonly plot: Plot;
  private readonly caption = element("span", { class: "muted caption" });
  private readonly tip = new Tip();
  private readonly choose: HTMLSelectElement;
  private readonly all: HTMLButtonElement;
  private readonly words;
  private turn = 0;

  constructor(
    private readonly page: Payload,
    readonly disks: Drawn[],
    readonly view: View,
    holder: HTMLElement,
  ) {
    this.number = worst(disks);
    const titles = disks.map(({ disk }) => disk.title);
    this.choose = list("disk", titles, (place) => this.turnTo(place));
    this.all = button("show all", "back to all of the disk and all of the time", () => view.show(view.whole()));
    const nodes = button("list metadata blocks in view", "a table of the blocks of metadata that are shown", () =>
      this.drawn.selection.between(this.start + view.range.low, this.start + view.range.high),
    );
    const bar = element(
      "div",
      { class: "bar" },
      ...(disks.length > 1 ? [this.choose] : []),
      nodes,
      this.all,
      this.caption,
    );
    holder.append(element("h2", {}, "What is stored where"), searchField(this), this.info, bar);
    this.words = textTable("what is stored where", () => this.rows());
    const label = "cells of the stretch that the figure shows, from its first byte at the bottom left";
    this.plot = plotIn(
      holder,
      "60vh",
      label,
      () => this.react(),
      () => this.listen(),
    );
    this.tip.follow(this.plot, (e) => this.point(e));
    holder.append(this.words.box, ...disks.map(({ selection }) => chosenTable(selection)));
    for (const { selection } of disks) selection.whenChosen(() => this.draw());
    this.choose.value = String(this.number);
    view.whenChanged(() => this.rest());
  }

  get drawn(): Drawn {
    return this.disks[this.number]!;
  }

  private get start(): number {
    return this.drawn.disk.start;
  }

  turnTo(place: number): Promise<unknown> {
    this.number = place;
    this.choose.value = String(place);
    return this.draw();
  }

  /** Draw when the view has come to rest: of many steps of a zoom the last one counts. */
  private async rest(): Promise<void> {
    const turn = ++this.turn;
    await pause(REST_MS);
    if (turn === this.turn) await this.draw();
  }

  async draw(): Promise<void> {
    this.layOut();
    this.words.refresh();
    const { low, high } = this.view.range;
    const looking = this.disks.map(({ owners, disk }) => owners.look(disk.start + low, disk.start + high));
    await redraw(this.plot);
    await Promise.all(looking);
  }

  /** Work out what the cells are. */
  private layOut(): void {
    const { disk, pyramid } = this.drawn;
    const { low, high } = this.view.range;
    const { bytes, step } = pyramid.widthFor((high - low) / CELLS);
    this.cell = bytes;
    this.from = Math.floor(low / step) * step;
    const cells = Math.max(1, Math.ceil((high - this.from) / bytes));
    this.columns = gridOf(cells).columns;
    const { roles } = this.page.figure;
    const held = pyramid.held(this.from, bytes, Math.min(cells, CELLS + MOST_COLUMNS));
    this.painted = paint(disk.classes, held, roles, bytes);
    const end = Math.min(high, disk.size);
    this.caption.textContent = `${placesText(low, Math.max(end, low + 1))} · a cell is ${bytesText(bytes)}`;
    this.all.hidden = this.view.isWhole;
  }

  private async react(): Promise<void> {
    if (!this.painted.length) this.layOut();
    const { columns, painted } = this;
    const rows = Math.ceil(painted.length / columns);
    const { roles, unit } = this.page.figure;
    const height = (columns * this.cell) / unit[0];
    const bottom = this.from / unit[0];
    const z = Array.from({ length: rows }, (_, row) =>
      Array.from(painted.subarray(row * columns, (row + 1) * columns), (role) => (role < 0 ? null : role + 0.5)),
    );
    const steps = roles.flatMap((key, k) => [k, k + 1].map((at) => [at / roles.length, color(key)]));
    const cells = {
      ...{ type: "heatmap", x0: 0.5, dx: 1, y0: bottom + height / 2, dy: height, hoverinfo: "none" },
      ...{ z, zmin: 0, zmax: roles.length, colorscale: steps, showscale: false },
    };
    const layout = plotLayout({
      xaxis: { visible: false, range: [0, columns], fixedrange: true },
      yaxis: { title: { text: `position, ${unit[1]}` }, range: [bottom, bottom + rows * height], showgrid: false },
      margin: { l: 62, r: 18, t: 4, b: 8 },
      hovermode: false,
      width: this.plot.clientWidth,
    });
    await plotly().react(this.plot, [cells, this.marked(bottom + height / 2, height)], layout, CONFIG);
  }

  /** Rings around what was found, and around nodes that are chosen. */
  private marked(bottom: number, height: number): Fields {
    const { marks, selection } = this.drawn;
    const { all, nodes } = selection;
    const cells = new Set<number>();
    for (const byte of [...marks, ...nodes.map((i) => all.offset[i]!)]) {
      const cell = Math.floor((byte - this.start - this.from) / this.cell);
      if (cell >= 0 && cell < this.painted.length) cells.add(cell);
      if (cells.size >= MOST_MARKS) break;
    }
    const marker = { symbol: "square-open", size: 8, color: color("fg"), line: { width: 1.5 } };
    const x = [...cells].map((cell) => (cell % this.columns) + 0.5);
    const y = [...cells].map((cell) => bottom + Math.floor(cell / this.columns) * height);
    return { type: "scatter", mode: "markers", x, y, marker, hoverinfo: "none" };
  }

  /** Hear what Plotly says: it forgets who listens when a plot is taken away. */
  private listen(): void {
    const { plot, view } = this;
    plot.on("plotly_relayout", () => {
      const [low, high] = plot._fullLayout.yaxis!.range.map((at) => at * this.page.figure.unit[0]) as [number, number];
      view.show({ low: Math.round(low), high: Math.round(high) });
    });
    plot.on("plotly_doubleclick", () => view.back());
  }

  /** The cell under a pointer; -1 beside all of them. */
  cellAt(e: MouseEvent): number {
    const { xaxis, yaxis } = this.plot._fullLayout;
    const box = this.plot.getBoundingClientRect();
    const rows = Math.ceil(this.painted.length / this.columns);
    const column = Math.floor(((e.clientX - box.left - xaxis!._offset) / xaxis!._length) * this.columns);
    const row = Math.floor((1 - (e.clientY - box.top - yaxis!._offset) / yaxis!._length) * rows);
    const isInside = column >= 0 && column < this.columns && row >= 0 && row < rows;
    return isInside ? row * this.columns + column : -1;
  }

  /** Say what a cell holds, in lines. */
  lines(cell: number): string[] {
    const low = this.from + cell * this.cell;
    return this.drawn.lines(low, low + this.cell);
  }

  private point(e: MouseEvent): void {
    const cell = this.cellAt(e);
    if (cell < 0) this.tip.hide();
    else this.tip.show(e, this.lines(cell));
  }

  /** The stretch in equal parts, as rows. */
  private rows(): Rows {
    const { disk, pyramid } = this.drawn;
    const { low, high } = this.view.range;
    const end = Math.min(high, disk.size);
    const width = (end - low) / PARTS;
    const held = pyramid.held(low, width, PARTS);
    const rows = Array.from({ length: width > 0 ? PARTS : 0 }, (_, part) => {
      const told = held
        .map((of, k) => ({ label: disk.classes[k]!.label, bytes: of[part]! }))
        .filter(({ bytes }) => bytes >= 1)
        .sort((a, b) => b.bytes - a.bytes)
        .map(({ label, bytes }) => `${label} ${bytesText(Math.round(bytes))} (${shareText(bytes / width)})`);
      const edges = [part, part + 1].map((n) => counted(Math.round(disk.start + low + n * width)));
      return [...edges, told.join(", ")];
    });
    return { columns: ["from byte", "to byte", "what it holds"], rows };
  }
}

/** The disk that is looked at first: one that is damaged, else the slowest. */
function worst(disks: Drawn[]): number {
  const damage = ({ disk }: Drawn) => disk.classes.reduce((sum, c) => sum + (c.role === "damaged" ? c.bytes : 0), 0);
  const seconds = ({ disk }: Drawn) => disk.walks[0]?.total_s ?? 0;
  const ranked = [...disks.keys()].sort(
    (a, b) => damage(disks[b]!) - damage(disks[a]!) || seconds(disks[b]!) - seconds(disks[a]!),
  );
  return ranked[0] ?? 0;
}
