// The figure of the first screen: Python made its axes and traces; here they are filled for what is looked at.

import { element, save } from "./dom";
import type { Drawn } from "./drawn";
import type { FigureMade, Payload } from "./payload";
import { CONFIG, type Fields, NARROW, type Plot, plotLayout, plotly, themed } from "./plots";
import { Tip } from "./tipbox";
import type { View } from "./view";

interface Meta {
  disk: number;
  part: "bars" | "marks" | "path" | "dots" | "found";
  role: string;
}

/** Nearer than so many pixels to a dot, a pointer is at it. */
const NEAR = 9;
/** Wheels turn by so many pixels to zoom by two. */
const TURN = 200;
/** Labels of walks that end beyond this share of the axis stand before their end. */
const LABEL_TURNS = 0.38;
/** Letters of a caption take about so many pixels. */
const LETTER = 6.6;

export class Figure {
  readonly plot: Plot;
  private readonly made: FigureMade;
  private readonly tip = new Tip();
  private turned = 1;
  private readonly fingers = new Map<number, PointerEvent>();

  constructor(
    private readonly page: Payload,
    private readonly disks: Drawn[],
    readonly view: View,
    holder: HTMLElement,
  ) {
    this.made = { ...page.figure, data: [...page.figure.data, ...disks.flatMap((_, i) => found(page.figure, i))] };
    const label =
      "what fills each stretch of each disk, and where the head goes over time; plus and minus zoom, arrows move, " +
      "0 shows everything, Backspace goes back";
    this.plot = element("div", {
      class: "plot",
      tabindex: 0,
      role: "application",
      "aria-label": label,
    }) as unknown as Plot;
    holder.append(this.plot);
    view.whenChanged(() => this.draw());
  }

  /** Draw, and listen once there is something to listen to. */
  async start(): Promise<void> {
    await this.draw();
    const { plot, view } = this;
    plot.on("plotly_relayout", () => this.dragged());
    plot.on("plotly_doubleclick", () => view.back());
    plot.addEventListener("wheel", (e) => this.wheel(e), { passive: false, capture: true });
    for (const type of ["pointerdown", "pointermove", "pointerup", "pointercancel"] as const)
      plot.addEventListener(type, (e) => this.pinch(e));
    plot.addEventListener("keydown", (e) => this.press(e));
    this.tip.follow(plot, (e) => this.point(e));
  }

  async draw(): Promise<void> {
    this.tip.hide();
    const { range } = this.view;
    const [unit] = this.made.unit;
    const filled = this.disks.map((drawn) => this.values(drawn, range));
    const data = this.made.data.map((trace) => {
      const { disk, part, role } = trace.meta as Meta;
      const values: Fields = filled[disk]!(part, role, unit);
      // Marks stand in the room beside the bars.
      if (part === "marks") values.x = (values.y as number[]).map(() => this.leftOf(String(trace.xaxis)) / 2);
      return { ...themed(trace), ...values };
    });
    await plotly().react(this.plot, data, this.layout(), CONFIG);
  }

  /** What the traces of a disk show; the twin is in `layoutscope/report/map/figure.py`. */
  private values(drawn: Drawn, range: View["range"]) {
    const { disk, reads, marks } = drawn;
    const { low, high, from, to } = range;
    const { bins: count, dots } = this.made;
    const width = (high - low) / count;
    const held = drawn.bins(low, high, count);
    const seen: number[] = [];
    for (let i = 0; i < reads.time.length; i++)
      if (reads.time[i]! >= from && reads.time[i]! <= to && reads.place[i]! >= low && reads.place[i]! <= high)
        seen.push(i);
    const step = Math.max(1, Math.ceil(seen.length / dots));
    const shown = step > 1 ? seen.filter((_, k) => k % step === 0) : seen;
    const at = (own: number[], unit: number) => ({
      x: own.map((i) => reads.time[i]!),
      y: own.map((i) => reads.place[i]! / unit),
    });
    return (part: Meta["part"], role: string, unit: number): Fields => {
      if (part === "dots")
        return at(
          shown.filter((i) => reads.role[i] === role),
          unit,
        );
      if (part === "path")
        return step * reads.step === 1 ? at([...reads.time.keys()].slice(...ends(seen)), unit) : { x: [], y: [] };
      if (part === "found") return { x: marks.map(() => 1), y: marks.map((byte) => (byte - disk.start) / unit) };
      const share = held.get(role) ?? new Float64Array(count);
      const there = [...share.keys()].filter((i) => share[i]! > 0);
      const y = there.map((i) => (low + (i + 0.5) * width) / unit);
      if (part === "marks") return { y };
      return { x: there.map((i) => share[i]!), y, width: there.map(() => width / unit) };
    };
  }

  private leftOf(axis: string): number {
    return ((this.made.layout[axis.replace("x", "xaxis")] as Fields).range as number[])[0]!;
  }

  private layout(): Fields {
    const [unit] = this.made.unit;
    const { low, high, from, to } = this.view.range;
    const { ends } = this.page.drives[this.view.drive] ?? { ends: [] };
    const width = this.plot.clientWidth;
    const isNarrow = width < NARROW;
    const layout: Fields = { ...this.made.layout, width };
    for (const key of Object.keys(layout)) {
      const axis = layout[key] as Fields;
      if (key.startsWith("yaxis")) layout[key] = { ...axis, range: [low / unit, high / unit] };
      else if (/^xaxis\d*[02468]$/.test(key))
        layout[key] = { ...axis, range: [from, to], ...timeTicks(this.made.times, [from, to], isNarrow, !!axis.title) };
      else if (key.startsWith("xaxis") && isNarrow) layout[key] = { ...axis, tickvals: [0], title: { text: "" } };
    }
    const most = Math.floor((width - 70) / LETTER);
    const captions = (this.made.layout.annotations as Fields[]).filter(({ name }) => name === "caption");
    const labels = ends.map(({ label }) => {
      const x = Math.min(Math.max(Number(label.x), from), to);
      return { ...label, x, xanchor: (x - from) / (to - from) > LABEL_TURNS ? "right" : "left" };
    });
    layout.annotations = [...captions.map((one) => ({ ...one, text: cut(String(one.text), most) })), ...labels];
    layout.shapes = ends.map(({ shape }) => shape);
    return plotLayout(layout);
  }

  /** Plotly has zoomed: all axes of positions match, and all of times. */
  private dragged(): void {
    const { yaxis, xaxis2 } = this.plot._fullLayout;
    const [unit] = this.made.unit;
    const [low, high] = yaxis!.range.map((place) => place * unit) as [number, number];
    const [from, to] = xaxis2?.range ?? [this.view.range.from, this.view.range.to];
    this.view.show({ low: Math.round(low), high: Math.round(high), from, to });
  }

  /** Where a pointer is: on which disk, at which byte and time, over the bars or the walk. */
  private place(
    e: MouseEvent,
  ): { disk: number; byte: number; time: number; isWalk: boolean; scale: [number, number] } | null {
    const box = this.plot.getBoundingClientRect();
    const [x, y] = [e.clientX - box.left, e.clientY - box.top];
    const { low, high, from, to } = this.view.range;
    for (const disk of this.disks.keys()) {
      const up = this.plot._fullLayout[disk ? `yaxis${disk + 1}` : "yaxis"]!;
      if (y < up._offset || y > up._offset + up._length) continue;
      const walk = this.plot._fullLayout[`xaxis${2 * disk + 2}`];
      const isWalk = walk !== undefined && x >= walk._offset;
      const byte = high - ((y - up._offset) / up._length) * (high - low);
      const time = walk ? from + ((x - walk._offset) / walk._length) * (to - from) : 0;
      const scale: [number, number] = [walk ? walk._length / (to - from) : 1, up._length / (high - low)];
      return { disk, byte, time, isWalk, scale };
    }
    return null;
  }

  private point(e: MouseEvent): void {
    const at = this.place(e);
    if (!at) {
      this.tip.hide();
      return;
    }
    const drawn = this.disks[at.disk]!;
    const { low, high } = this.view.range;
    if (!at.isWalk) {
      const width = (high - low) / this.made.bins;
      const first = low + Math.floor((at.byte - low) / width) * width;
      this.tip.show(e, drawn.lines(Math.floor(first), Math.floor(first + width)));
      return;
    }
    const { time, place } = drawn.reads;
    let [best, near] = [-1, NEAR ** 2];
    for (let i = 0; i < time.length; i++) {
      const far = ((time[i]! - at.time) * at.scale[0]) ** 2 + ((place[i]! - at.byte) * at.scale[1]) ** 2;
      if (far < near) [best, near] = [i, far];
    }
    if (best < 0) this.tip.hide();
    else this.tip.show(e, drawn.readLines(best));
  }

  /** With Ctrl or Cmd, as trackpads send a pinch; else the page scrolls. */
  private wheel(e: WheelEvent): void {
    if (!(e.ctrlKey || e.metaKey)) return;
    e.preventDefault();
    this.zoomSoon(2 ** (e.deltaY / TURN), e);
  }

  /** Two fingers zoom around the last of them that moved. */
  private pinch(e: PointerEvent): void {
    if (e.pointerType !== "touch") return;
    const { fingers } = this;
    const apart = () => {
      const [one, other] = [...fingers.values()];
      return one && other ? Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) : 0;
    };
    const before = apart();
    if (/up|cancel/.test(e.type)) fingers.delete(e.pointerId);
    else if (e.type === "pointerdown" || fingers.has(e.pointerId)) fingers.set(e.pointerId, e);
    if (before && apart()) this.zoomSoon(before / apart(), e);
  }

  /** Zoom with the next picture: events come faster. */
  private zoomSoon(factor: number, e: MouseEvent): void {
    const at = this.place(e)?.byte;
    const isFirst = this.turned === 1;
    this.turned *= factor;
    if (!isFirst) return;
    requestAnimationFrame(() => {
      const all = this.turned;
      this.turned = 1;
      this.view.zoom(all, at);
    });
  }

  private press(e: KeyboardEvent): void {
    const { view } = this;
    const acts: Record<string, () => unknown> = {
      "+": () => view.zoom(1 / 4),
      "=": () => view.zoom(1 / 4),
      "-": () => view.zoom(4),
      "0": () => view.show(view.whole()),
      Backspace: () => view.back(),
      ArrowUp: () => view.move(1 / 4),
      ArrowDown: () => view.move(-1 / 4),
      Escape: () => this.tip.hide(),
    };
    const act = e.ctrlKey || e.metaKey || e.altKey ? undefined : acts[e.key];
    if (!act) return;
    e.preventDefault();
    act();
  }

  /** Keep what is seen as a file; it is made here. */
  async keep(): Promise<void> {
    const size = { width: this.plot.clientWidth, height: this.plot.clientHeight };
    const svg = await plotly().toImage(this.plot, { format: "svg", ...size, imageDataOnly: true });
    save(new Blob([svg], { type: "image/svg+xml" }), "layoutscope.svg");
  }
}

/** A trace for what was searched for, beside the bars of a disk. */
function found({ data }: FigureMade, disk: number): Fields[] {
  const bars = data.find(({ meta }) => (meta as Meta).disk === disk);
  if (!bars) return [];
  const marker = { symbol: "triangle-left", size: 9 };
  const on = { xaxis: bars.xaxis, yaxis: bars.yaxis, hoverinfo: "none", cliponaxis: false };
  return [{ type: "scatter", mode: "markers", meta: { disk, part: "found", role: "fg" }, marker, ...on }];
}

/** From before the first of some places to behind the last, so that the line goes on beyond the edges. */
function ends(seen: number[]): [number, number] {
  return seen.length ? [Math.max(0, seen[0]! - 1), seen[seen.length - 1]! + 2] : [0, 0];
}

/** Shorten a label; what stands for one character in it stays whole. */
function cut(text: string, most: number): string {
  const letters = text.match(/&\w+;|./gu) ?? [];
  return letters.length > most ? `${letters.slice(0, Math.max(1, most - 1)).join("")}…` : text;
}

/** Round times in the unit of what is seen; those of seconds are found by Plotly. */
function timeTicks(
  units: FigureMade["times"],
  [from, to]: [number, number],
  isNarrow: boolean,
  isTitled: boolean,
): Fields {
  const [, length, name] = units.find(([least]) => to - from >= least)!;
  const title = isTitled ? { title: { text: isNarrow ? name : `${name} since the start of the listing` } } : {};
  if (length === 1) return { tickmode: "auto", ...title };
  const rough = (to - from) / length / (isNarrow ? 5 : 8);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((one) => one * power >= rough)!;
  const first = Math.ceil(from / length / step);
  const numbers = Array.from({ length: Math.floor(to / length / step) - first + 1 }, (_, i) => (first + i) * step);
  return {
    tickmode: "array",
    tickvals: numbers.map((one) => one * length),
    ticktext: numbers.map((one) => String(Number(one.toPrecision(6)))),
    ...title,
  };
}
