// What is looked at: the same stretch of all disks and of time, on one drive, with the way back.

import { pause } from "./turns";

export interface Range {
  /** Bytes from the start of each disk. */
  low: number;
  high: number;
  /** Seconds since the start of the walks. */
  from: number;
  to: number;
}

export interface Limits {
  /** Bytes of the largest disk, and the fewest that can be seen. */
  most: number;
  least: number;
  seconds: number;
}

const LEAST_SECONDS = 1e-3;

/** The stretch between two limits that is as wide as asked for; it is moved, and not widened, where it does not fit. */
function within(low: number, high: number, least: number, most: number): [number, number] {
  const wide = Math.min(most, Math.max(least, high - low));
  const middle = (low + high) / 2;
  const start = wide === high - low ? low : middle - wide / 2;
  const from = Math.min(Math.max(0, start), most - wide);
  return [from, from + wide];
}

export function possible(range: Range, { most, least, seconds }: Limits): Range {
  const [low, high] = within(range.low, range.high, Math.min(least, most), most);
  const [from, to] = within(range.from, range.to, Math.min(LEAST_SECONDS, seconds), seconds);
  return { low, high, from, to };
}

/** A stretch zoomed around a place that stays where it is; at a limit nothing changes. */
export function zoomed(range: Range, factor: number, at: number, { most, least }: Limits): Range {
  const wide = range.high - range.low;
  const limited = Math.min(most, Math.max(Math.min(least, most), wide * factor));
  const share = limited / wide;
  if (Math.abs(share - 1) < 1e-9) return range;
  return { ...range, low: at - (at - range.low) * share, high: at + (range.high - at) * share };
}

export class View {
  drive = 0;
  /** What was asked for last is shown. */
  done: Promise<unknown> = Promise.resolve();
  private turn = 0;
  private readonly earlier: Range[] = [];
  private readonly listeners: (() => unknown)[] = [];

  constructor(
    public range: Range,
    readonly whole: () => Range,
    readonly limits: () => Limits,
  ) {}

  whenChanged(listener: () => unknown): void {
    this.listeners.push(listener);
  }

  /** Tell one after the other, between which the page draws; the rest hear nothing where another change came. */
  async changed(): Promise<unknown> {
    const turn = ++this.turn;
    for (const listener of this.listeners) {
      await listener();
      await pause();
      if (turn !== this.turn) return this.done;
    }
    return undefined;
  }

  get isWhole(): boolean {
    const whole = this.whole();
    return (["low", "high", "from", "to"] as const).every((key) => whole[key] === this.range[key]);
  }

  /** Show a stretch; silently where it is one of many steps of a movement. */
  show(range: Partial<Range>, silent = false): Promise<unknown> {
    const next = possible({ ...this.range, ...range }, this.limits());
    const { low, high, from, to } = this.range;
    if (next.low === low && next.high === high && next.from === from && next.to === to) return Promise.resolve();
    if (!silent) this.remember();
    this.range = next;
    this.done = this.changed();
    return this.done;
  }

  remember(): void {
    this.earlier.push({ ...this.range });
  }

  zoom(factor: number, at = (this.range.low + this.range.high) / 2, silent = false): Promise<unknown> {
    return this.show(zoomed(this.range, factor, at, this.limits()), silent);
  }

  move(share: number): Promise<unknown> {
    const by = share * (this.range.high - this.range.low);
    return this.show({ low: this.range.low + by, high: this.range.high + by });
  }

  back(): Promise<unknown> {
    const range = this.earlier.pop() ?? this.whole();
    return this.show(range, true);
  }
}
