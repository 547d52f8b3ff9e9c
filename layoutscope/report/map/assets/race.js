"use strict";
// All walks played in the same time: the heads move over the maps as they would on the drives, so many times as fast.

const PLAY_SECONDS = 20; // the slowest walk takes so long on the page

class Race {
  constructor(players, holder) {
    this.players = players.filter(Boolean);
    this.now = 0; this.began = null; this.frame = null;
    if (!this.players.length) return;
    this.button = element("button", { type: "button", "aria-label": "play or pause the walks", onclick: () => (this.frame === null ? this.play() : this.pause()) }, "▶ play");
    this.bar = element("input", { type: "range", min: 0, max: 1000, value: 0, title: "time since the start of the walks", oninput: () => { this.pause(); this.show((this.bar.value / 1000) * this.longest()); } });
    this.clock = element("span", { class: "muted clock", role: "status" });
    const stop = element("button", { type: "button", title: "back to the start, without heads", onclick: () => this.stop() }, "■ stop");
    holder.append(element("div", { class: "bar race" }, this.button, stop, this.bar, this.clock));
    this.tell();
  }

  longest() {
    return Math.max(...this.players.map((p) => p.total()));
  }

  play() {
    const speed = this.longest() / PLAY_SECONDS;
    if (this.now >= this.longest()) this.now = 0;
    this.began = performance.now() - (1000 * this.now) / speed;
    const step = () => {
      this.show(Math.min(this.longest(), ((performance.now() - this.began) / 1000) * speed));
      if (this.now < this.longest()) this.frame = requestAnimationFrame(step); else this.pause();
    };
    this.button.textContent = "❚❚ pause";
    this.frame = requestAnimationFrame(step);
  }

  pause() {
    if (this.frame !== null) cancelAnimationFrame(this.frame);
    this.frame = null;
    this.button.textContent = "▶ play";
  }

  stop() {
    this.pause();
    this.now = 0; this.bar.value = 0;
    this.tell();
    return Promise.all(this.players.map((player) => player.rest()));
  }

  show(now) {
    this.now = now;
    this.bar.value = 1000 * (now / this.longest());
    for (const player of this.players) player.at(Math.min(now, player.total()));
    this.tell();
  }

  tell() {
    const speed = this.longest() / PLAY_SECONDS, times = speed >= 1 ? `${speed.toPrecision(2)} times as fast as the drive` : `${(1 / speed).toPrecision(2)} times as slow as the drive`;
    const clocks = this.players.map((p) => `${secondsText(Math.min(this.now, p.total()))} of ${secondsText(p.total())}${this.now >= p.total() && this.now > 0 ? ", done" : ""}`);
    this.clock.textContent = `${clocks.join(" | ")} · ${times}`;
  }
}
