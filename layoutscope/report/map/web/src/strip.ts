// The strip above a map: the whole disk, or what is in use of a disk that is mostly empty, and a frame around what is seen.

import { mostOf, SHADES, shadeOf } from "./cells";
import { element, hueOf, isDark } from "./dom";
import type { Disk } from "./payload";
import { followStrip } from "./pointer";
import type { Pyramid } from "./pyramid";
import { bytesText } from "./words";

/** A disk of which less than this share is in use has a strip of that part, while one looks at nothing else. */
const LITTLE = 1 / 8;
const [WIDTH, HEIGHT] = [1024, 32];

interface View {
  from: number;
  size: number;
}

/** What a strip leads and shows. */
export interface Stripped {
  readonly disk: Disk;
  readonly full: number;
  readonly used: number;
  readonly pyramid: Pyramid;
  readonly hidden: Set<number>;
  earlier: View[];
  view: View;
  from: number;
  to: number;
  show(from: number, size: number, silent?: boolean): Promise<void>;
  zoom(factor: number, cell?: number, keep?: boolean, at?: number): Promise<void>;
}

export class Strip {
  readonly canvas = element("canvas", { class: "strip", role: "img", width: WIDTH, height: HEIGHT });
  private painted: { of: string; picture: ImageData } | null = null;
  private span: number;

  constructor(private readonly map: Stripped) {
    this.span = map.full;
    const { start } = map.disk;
    followStrip(this.canvas, {
      window: () => ({ from: (map.view.from - start) / this.span, width: map.view.size / this.span }),
      remember: () => map.earlier.push({ ...map.view }),
      lead: (from, width) => map.show(start + from * this.span, width * this.span, true),
      turn: (at, factor) => map.zoom(factor, undefined, true, start + at * this.span),
    });
  }

  /** Bytes that the strip spans. */
  private spanned(): number {
    const { view, disk, full, used } = this.map;
    return used < LITTLE * full && view.from + view.size <= disk.start + used ? used : full;
  }

  /** Draw the frame over the picture, which is worked out anew where other classes or another span are shown. */
  draw(): void {
    const { canvas, map } = this;
    const pen = canvas.getContext("2d")!;
    this.span = this.spanned();
    const shown = [this.span, ...map.hidden].join();
    if (this.painted?.of !== shown) {
      this.paint(pen);
      this.painted = { of: shown, picture: pen.getImageData(0, 0, WIDTH, HEIGHT) };
      const what = this.span === map.full ? "the whole disk" : `the part in use, ${bytesText(this.span)}`;
      canvas.title = `${what}; drag the frame or its edges, click to go there, turn the wheel to zoom`;
      canvas.setAttribute("aria-label", `strip of ${map.disk.title}: ${what}, and a frame around what the map shows`);
    } else pen.putImageData(this.painted.picture, 0, 0);
    pen.strokeStyle = "#E4002B";
    pen.lineWidth = 2;
    const scale = WIDTH / this.span;
    pen.strokeRect((map.from - map.disk.start) * scale, 1, Math.max(3, (map.to - map.from) * scale), HEIGHT - 2);
  }

  private paint(pen: CanvasRenderingContext2D): void {
    const { disk, pyramid, hidden } = this.map;
    const width = pyramid.widthFor(this.span / WIDTH);
    const cells = Math.ceil(this.span / width.bytes);
    const pixel = (WIDTH * width.bytes) / this.span;
    pen.fillStyle = isDark() ? "#1e2126" : "#f4f4f2";
    pen.fillRect(0, 0, WIDTH, HEIGHT);
    const held = pyramid.held(0, width, cells);
    const fill = (k: number, i: number, top: number, alpha: number) => {
      pen.fillStyle = hueOf(disk.classes[k]!);
      pen.globalAlpha = alpha;
      // Whole pixels: the edges of neighbours would blend, and look like gaps.
      const left = Math.floor(i * pixel);
      pen.fillRect(left, top, Math.max(1, Math.floor((i + 1) * pixel) - left), 24);
    };
    const shown = [...disk.classes.keys()].filter((k) => disk.classes[k]!.group !== "free" && !hidden.has(k));
    const metadata = shown.filter((k) => disk.classes[k]!.group === "metadata");
    for (const k of shown.filter((other) => !metadata.includes(other)))
      held[k]!.forEach((bytes, i) => {
        if (bytes > 0) fill(k, i, 8, Math.max(0.15, bytes / width.bytes));
      });
    for (const [i, { most, share }] of mostOf(disk.classes, held, metadata, width.bytes).entries())
      if (share > 0) fill(most, i, 0, SHADES[shadeOf(share)]![1]);
    pen.globalAlpha = 1;
  }
}
