// All walks played in the same time: the heads move over the maps as they would on the drives, so many times as fast.

import { element } from "./dom";
import { secondsText } from "./words";

/** The slowest walk takes so long on the page. */
const PLAY_SECONDS = 20;
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
  private readonly clock = element("span", { class: "muted clock", role: "status" });
  private readonly button: HTMLButtonElement;
  private readonly bar: HTMLInputElement;

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
    if (!players.length) return;
    const end = { type: "button", title: "back to the start, without heads", onclick: () => this.stop() };
    holder.append(
      element("div", { class: "bar race" }, this.button, element("button", end, "■ stop"), this.bar, this.clock),
    );
    this.tell();
  }

  longest(): number {
    return Math.max(...this.players.map((player) => player.total()));
  }

  private speed(): number {
    return this.longest() / PLAY_SECONDS;
  }

  play(): void {
    if (this.now >= this.longest()) this.now = 0;
    const began = performance.now() - (1000 * this.now) / this.speed();
    const step = () => {
      this.show(Math.min(this.longest(), ((performance.now() - began) / 1000) * this.speed()));
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

  /** The clocks, one a walk, and how the page's time goes against the drives'. */
  tell(): void {
    const speed = this.speed();
    const times = speed >= 1 ? `${speed.toPrecision(2)} times as fast` : `${(1 / speed).toPrecision(2)} times as slow`;
    const clocks = this.players.map((player) => {
      const total = player.total();
      const done = this.now > 0 && this.now >= total ? ", done" : "";
      return `${secondsText(Math.min(this.now, total))} of ${secondsText(total)}${done}`;
    });
    this.clock.textContent = `${clocks.join(" | ")} · ${times} as the drive`;
  }
}
