// The cells as a picture, which the browser fits to the axes of a chart above it, which keeps marks.

import type { Ink, Places } from "./cells";
import { element } from "./dom";
import type { Plot } from "./plots";

/** A cell is so many pixels wide and high, enough for lines across it. */
export const FINE = 4;

const RGB = /\d+/g;

/** A colour as the canvas stores it: red first, opaque. */
function bytesOf(colour: string): number {
  const [r, g, b] = colour.startsWith("#")
    ? [1, 3, 5].map((i) => Number.parseInt(colour.slice(i, i + 2), 16))
    : colour.match(RGB)!.map(Number);
  return (255 << 24) | (b! << 16) | (g! << 8) | r!;
}

export class Picture {
  readonly canvas = element("canvas", { class: "cells", "aria-hidden": "true" });
  private image: ImageData | null = null;

  /** Paint each cell where the order has it; colours are places in the palette. */
  paint(chosen: Uint16Array, palette: Ink[], { columns, rows, cell }: Places): void {
    const { canvas } = this;
    const [width, height] = [columns * FINE, rows * FINE];
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const pen = canvas.getContext("2d")!;
    if (this.image?.width !== width || this.image.height !== height) this.image = new ImageData(width, height);
    const image = this.image;
    const pixels = new Int32Array(image.data.buffer);
    const hues = Int32Array.from(palette, ({ hue }) => bytesOf(hue));
    const lines = Int32Array.from(palette, ({ hue, hatch }) => bytesOf(hatch ?? hue));
    for (let row = 0; row < rows; row++) {
      const top = row * FINE * width;
      const end = top + width;
      let isHatched = false;
      for (let column = 0, at = top; column < columns; column++, at += FINE) {
        const ink = chosen[cell[row * columns + column]!]!;
        pixels.fill(hues[ink]!, at, at + FINE);
        isHatched ||= hues[ink] !== lines[ink];
      }
      for (let y = 1; y < FINE; y++) pixels.copyWithin(top + y * width, top, end);
      if (!isHatched) continue;
      for (let column = 0; column < columns; column++) {
        const line = lines[chosen[cell[row * columns + column]!]!]!;
        for (let y = 0; y < FINE; y++) pixels[top + y * width + column * FINE + ((FINE - y) % FINE)] = line;
      }
    }
    pen.putImageData(image, 0, 0);
  }

  /** Lie exactly under the axes. */
  lieUnder(plot: Plot): void {
    const { xaxis, yaxis } = plot._fullLayout;
    const px = (n: number) => `${n}px`;
    Object.assign(this.canvas.style, {
      left: px(xaxis._offset),
      top: px(yaxis._offset),
      width: px(xaxis._length),
      height: px(yaxis._length),
    });
  }
}
