// The cells as a picture of one pixel each, which the browser enlarges: under the axes of a chart, which keeps marks.

import type { Places } from "./cells";
import { element } from "./dom";
import type { Plot } from "./plots";

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
  paint(chosen: Uint16Array, palette: string[], { columns, rows, cell }: Places): void {
    const { canvas } = this;
    if (canvas.width !== columns || canvas.height !== rows) Object.assign(canvas, { width: columns, height: rows });
    const pen = canvas.getContext("2d")!;
    const image = pen.createImageData(columns, rows);
    const pixels = new Int32Array(image.data.buffer);
    const hues = Int32Array.from(palette, bytesOf);
    for (let i = 0; i < pixels.length; i++) pixels[i] = hues[chosen[cell[i]!]!]!;
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
