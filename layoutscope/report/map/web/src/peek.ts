// A small copy of the map for whoever has scrolled below it, while something is marked or chosen there.

import { element } from "./dom";

const [WIDTH, HEIGHT] = [256, 96];

/** What is copied. */
export interface Peeked {
  readonly title: string;
  /** The cells. */
  readonly canvas: HTMLCanvasElement;
  /** The map, which is looked at in full where it is seen. */
  readonly plot: HTMLElement;
  /** Whether there is anything to see that was not there before. */
  isMarked(): boolean;
  /** Marks, as shares of the picture's width and height, with their colours. */
  spots(): { x: number; y: number; hue: string }[];
}

export class Peek {
  private readonly canvas = element("canvas", { width: WIDTH, height: HEIGHT, "aria-hidden": "true" });
  private readonly box: HTMLElement;
  private asked = false;

  constructor(
    private readonly map: Peeked,
    holder: HTMLElement,
    signal: AbortSignal,
  ) {
    const title = `back to the map of ${map.title}`;
    const back = () => map.plot.scrollIntoView({ block: "center" });
    this.box = element(
      "button",
      { type: "button", class: "peek", title, "aria-label": title, onclick: back },
      this.canvas,
    );
    this.box.hidden = true;
    holder.append(this.box);
    addEventListener("scroll", () => this.refresh(), { passive: true, signal });
  }

  /** Show or hide it, and draw it anew, once a frame. */
  refresh(): void {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      const { map, box } = this;
      box.hidden = !map.isMarked() || map.plot.getBoundingClientRect().bottom > 0;
      if (!box.hidden) this.draw();
    });
  }

  private draw(): void {
    const pen = this.canvas.getContext("2d")!;
    pen.imageSmoothingEnabled = false;
    pen.clearRect(0, 0, WIDTH, HEIGHT);
    pen.drawImage(this.map.canvas, 0, 0, WIDTH, HEIGHT);
    for (const { x, y, hue } of this.map.spots()) {
      pen.fillStyle = hue;
      pen.fillRect(x * WIDTH - 2, y * HEIGHT - 2, 4, 4);
    }
  }
}
