// A disk's band on the first screen: the picture is in the page already; here its head moves over it.

import { isDark } from "./dom";
import type { Disk, Walk } from "./payload";
import { secondsText } from "./words";

/** Reads that are shown behind the head. */
export const TRAIL = 30;

const HEAD = { light: "#b3001e", dark: "#ff5c74" };

export class Band {
  private readonly canvas: HTMLCanvasElement;
  private readonly clock: HTMLElement | null;
  private readonly span: number;

  constructor(
    private readonly disk: Disk,
    holder: HTMLElement,
  ) {
    this.canvas = holder.querySelector("canvas")!;
    this.clock = holder.parentElement!.querySelector(".clock");
    this.span = +holder.dataset.span!;
  }

  /** Take the head away; the clock shows the whole walk again. */
  rest(walk: Walk): void {
    this.pen();
    this.tell(walk, secondsText(walk.total_s));
  }

  /** Show the head at the last of some places, and behind it how it came there, as arcs. */
  show(places: number[], now: number, walk: Walk): void {
    const { pen, width, height } = this.pen();
    const x = places.map((place) => ((place - this.disk.start) / this.span) * width);
    const hue = isDark() ? HEAD.dark : HEAD.light;
    pen.strokeStyle = hue;
    for (let i = 1; i < x.length; i++) {
      pen.globalAlpha = i / x.length;
      pen.beginPath();
      pen.moveTo(x[i - 1]!, height);
      pen.quadraticCurveTo((x[i - 1]! + x[i]!) / 2, -height / 2, x[i]!, height);
      pen.stroke();
    }
    pen.globalAlpha = 1;
    pen.fillStyle = hue;
    pen.fillRect(x[x.length - 1]! - 1.5, 0, 3, height);
    const total = walk.total_s;
    const done = now >= total ? ", done" : "";
    this.tell(walk, `${secondsText(Math.min(now, total))} of ${secondsText(total)}${done}`);
  }

  private tell({ name }: Walk, time: string): void {
    if (this.clock) this.clock.textContent = name ? `${name}: ${time}` : time;
  }

  /** An empty canvas as fine as the screen, with a pen in CSS pixels. */
  private pen(): { pen: CanvasRenderingContext2D; width: number; height: number } {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    this.canvas.width = width * devicePixelRatio;
    this.canvas.height = height * devicePixelRatio;
    const pen = this.canvas.getContext("2d")!;
    pen.scale(devicePixelRatio, devicePixelRatio);
    return { pen, width, height };
  }
}
