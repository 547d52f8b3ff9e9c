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

  /** Paint each cell where the order has it; colours are places in the palette. */
  paint(chosen: Uint16Array, palette: Ink[], { columns, rows, cell }: Places): void {
    const { canvas } = this;
    const [width, height] = [columns * FINE, rows * FINE];
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const pen = canvas.getContext("2d")!;
    const image = pen.createImageData(width, height);
    const pixels = new Int32Array(image.data.buffer);
    const hues = Int32Array.from(palette, ({ hue }) => bytesOf(hue));
    const lines = Int32Array.from(palette, ({ hue, hatch }) => bytesOf(hatch ?? hue));
    for (let y = 0, at = 0; y < height; y++) {
      const row = Math.floor(y / FINE) * columns;
      for (let column = 0; column < columns; column++) {
        const ink = chosen[cell[row + column]!]!;
        for (let x = 0; x < FINE; x++) pixels[at++] = (x + y) % FINE ? hues[ink]! : lines[ink]!;
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
