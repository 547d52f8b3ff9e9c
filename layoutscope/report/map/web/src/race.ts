// All walks played in the same time: the heads move over the disks as they would on the drives, so many times as fast.

import { element } from "./dom";
import { counted, secondsText } from "./words";

/** The slowest walk takes so long on the page, at the speed that is chosen first. */
const PLAY_SECONDS = 20;
/** Speeds against that one. */
const SPEEDS = [0.25, 0.5, 1, 2, 4];
const STEPS = 1000;

/** One walk: how long it takes, and what shows its head at a time, or no head. */
export interface Player {
  total(): number;
  at(now: number): unknown;
  rest(): unknown;
}

export class Race {
  now = 0;
  private frame: number | null = null;
  private chosen = 1;
  private began = 0;
  private readonly clock = element("span", { class: "muted clock" });
  private readonly button: HTMLButtonElement;
  private readonly bar: HTMLInputElement;
  private readonly speeds = element("select", { title: "how fast" });

  constructor(
    readonly players: Player[],
    holder: HTMLElement,
  ) {
    const press = () => (this.frame === null ? this.play() : this.pause());
    this.button = element("button", { type: "button", onclick: press }, "▶ play");
    const title = "time since the start of the walks";
    this.bar = element("input", { type: "range", min: 0, max: STEPS, value: 0, title });
    this.bar.addEventListener("input", () => {
      this.pause();
      this.show((+this.bar.value / STEPS) * this.longest());
    });
    if (!this.hasTime) return;
    const speeds = this.speeds;
    speeds.append(...SPEEDS.map((speed) => element("option", { value: speed }, this.words(speed))));
    speeds.value = "1";
    speeds.addEventListener("change", () => this.hurry(+speeds.value));
    const end = { type: "button", title: "back to the start, without heads", onclick: () => this.stop() };
    holder.append(
      element(
        "div",
        { class: "bar race" },
        this.button,
        element("button", end, "■ stop"),
        speeds,
        this.bar,
        this.clock,
      ),
    );
    this.tell();
  }

  /** Whether any walk takes time at all: where mounting has read everything, nothing moves. */
  private get hasTime(): boolean {
    return this.players.length > 0 && this.longest() > 0;
  }

  longest(): number {
    return Math.max(...this.players.map((player) => player.total()));
  }

  private speed(): number {
    return (this.chosen * this.longest()) / PLAY_SECONDS;
  }

  private words(speed: number): string {
    const times = (speed * this.longest()) / PLAY_SECONDS;
    const told = (n: number) => counted(+n.toPrecision(2));
    return times >= 1 ? `${told(times)} × as fast as the drive` : `${told(1 / times)} × as slow as the drive`;
  }

  /** Begin anew: the walks take another time now. */
  restart(): Promise<void> {
    for (const option of this.speeds.options) option.textContent = this.words(+option.value);
    return this.stop();
  }

  private hurry(speed: number): void {
    this.chosen = speed;
    this.since();
    this.tell();
  }

  /** Count the page's time from where the walks are. */
  private since(): void {
    this.began = performance.now() - (1000 * this.now) / this.speed();
  }

  play(): void {
    if (!this.hasTime || this.frame !== null) return;
    if (this.now >= this.longest()) this.now = 0;
    this.since();
    const step = () => {
      this.show(Math.min(this.longest(), ((performance.now() - this.began) / 1000) * this.speed()));
      if (this.now < this.longest()) this.frame = requestAnimationFrame(step);
      else this.pause();
    };
    this.button.textContent = "❚❚ pause";
    this.frame = requestAnimationFrame(step);
  }

  pause(): void {
    if (this.frame !== null) cancelAnimationFrame(this.frame);
    this.frame = null;
    this.button.textContent = "▶ play";
  }

  async stop(): Promise<void> {
    this.pause();
    this.now = 0;
    this.bar.value = "0";
    this.tell();
    await Promise.all(this.players.map((player) => player.rest()));
  }

  show(now: number): void {
    this.now = now;
    this.bar.value = String(STEPS * (now / this.longest()));
    for (const player of this.players) player.at(Math.min(now, player.total()));
    this.tell();
  }

  /** Tell the time; each walk's own clock stands at its band. */
  tell(): void {
    this.clock.textContent = `${secondsText(this.now)} since the start`;
  }
}
