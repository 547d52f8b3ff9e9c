// Pictures of the page's panels as files, SVG and PNG, made here: nothing is asked of anybody.

import { element } from "./dom";
import { colour, type Plot, plotly } from "./plots";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 1200;
const EDGE = 24;
/** Pixels of a PNG for each of the picture. */
const SCALE = 2;
const LINE = 22;
const SWATCH = 12;

type Attributes = Record<string, string | number>;

const shape = (tag: string, attributes: Attributes, ...children: (Node | string)[]): SVGElement => {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
  node.append(...children);
  return node;
};

/** A picture that grows downwards, piece by piece. */
class Sheet {
  private readonly pieces: SVGElement[] = [];
  private height = EDGE;

  words(text: string, size: number, weight = "normal"): void {
    if (!text) return;
    const y = this.height + size;
    this.pieces.push(
      shape("text", { x: EDGE, y, fill: colour("--fg"), "font-size": size, "font-weight": weight }, text),
    );
    this.height = y + 0.6 * size;
  }

  /** A piece as wide as the sheet. */
  piece(svg: SVGElement, height: number): void {
    const place = { x: EDGE, y: this.height, width: WIDTH - 2 * EDGE, height };
    for (const [key, value] of Object.entries(place)) svg.setAttribute(key, String(value));
    this.pieces.push(svg);
    this.height += height + 8;
  }

  /** Colours and what they mean, in as many lines as it takes. */
  legend(entries: { hue: string; text: string }[]): void {
    let x = EDGE;
    for (const { hue, text } of entries) {
      const width = SWATCH + 24 + 7 * text.length; // about: fonts differ
      if (x > EDGE && x + width > WIDTH - EDGE) {
        x = EDGE;
        this.height += LINE;
      }
      const box = { x, y: this.height, width: SWATCH, height: SWATCH, fill: hue, stroke: colour("--line") };
      const place = { x: x + SWATCH + 6, y: this.height + SWATCH - 1, fill: colour("--fg"), "font-size": 13 };
      this.pieces.push(shape("rect", box), shape("text", place, text));
      x += width;
    }
    if (entries.length) this.height += LINE + 6;
  }

  text(): string {
    const height = this.height + EDGE;
    const size = { width: WIDTH, height, viewBox: `0 0 ${WIDTH} ${height}`, "font-family": "system-ui, sans-serif" };
    const ground = shape("rect", { width: WIDTH, height, fill: colour("--bg") });
    return new XMLSerializer().serializeToString(shape("svg", size, ground, ...this.pieces));
  }
}

/** A chart as it is seen, on the page's ground. */
async function chart(plot: Plot, sheet: Sheet): Promise<void> {
  const height = plot.clientHeight;
  const showlegend = plot.dataset.legend === "yes";
  const legend = { orientation: "h", y: 1, yanchor: "bottom" };
  const layout = { ...plot.layout, paper_bgcolor: colour("--bg"), autosize: false, showlegend, legend };
  const options = { format: "svg", width: WIDTH - 2 * EDGE, height, imageDataOnly: true };
  const figure = { data: plot.data, layout, config: { displayModeBar: false } };
  const svg = await plotly().toImage(figure, options);
  const parsed = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  sheet.piece(document.importNode(parsed, true) as unknown as SVGElement, height);
}

/** The cells of a map with its marks, and what the colours mean. */
function map(card: HTMLElement, sheet: Sheet): void {
  const cells = card.querySelector<HTMLCanvasElement>("canvas.cells")!;
  const plot = card.querySelector<Plot>(".map")!;
  const { clientWidth: width, clientHeight: height } = plot;
  const { left, top, width: wide, height: high } = cells.style;
  const place = { x: left, y: top, width: wide, height: high, preserveAspectRatio: "none" };
  const image = shape("image", { ...place, href: cells.toDataURL(), style: "image-rendering: pixelated" });
  const marks = [...plot.querySelectorAll<SVGElement>(".main-svg .scatterlayer")].map((layer) => copied(layer));
  const { xaxis, yaxis } = plot._fullLayout;
  const over = shape("g", { transform: `translate(${xaxis._offset},${yaxis._offset})` }, ...marks);
  sheet.words(card.querySelector(".caption")?.textContent ?? "", 13);
  sheet.piece(shape("svg", { viewBox: `0 0 ${width} ${height}` }, image, over), ((WIDTH - 2 * EDGE) * height) / width);
  const shown = [...card.querySelectorAll<HTMLElement>(".legend label")].filter(
    (label) => label.querySelector("input")?.checked,
  );
  sheet.legend(
    shown.map((label) => ({
      hue: getComputedStyle(label.querySelector<HTMLElement>(".swatch")!).backgroundColor,
      text: label.textContent!.trim(),
    })),
  );
}

const DRAWN = ["fill", "fill-opacity", "stroke", "stroke-width", "opacity"];

/** A copy that keeps its looks without the page's style. */
function copied(svg: SVGElement): SVGElement {
  const copy = svg.cloneNode(true) as SVGElement;
  const [from, to] = [svg, copy].map((root) => [root, ...root.querySelectorAll<SVGElement>("*")]);
  from!.forEach((node, i) => {
    const looks = getComputedStyle(node);
    for (const name of DRAWN) to![i]!.style.setProperty(name, looks.getPropertyValue(name));
  });
  return copy;
}

/** The first screen: what it says, its bands with the heads over them, and what they hold. */
function bands(section: HTMLElement, sheet: Sheet): void {
  sheet.words(section.querySelector(".headline")?.textContent ?? "", 18, "bold");
  for (const disk of section.querySelectorAll<HTMLElement>(".disk")) {
    sheet.words([...disk.querySelectorAll(".bar:first-child > *")].map((part) => part.textContent).join(" · "), 14);
    const heads = disk.querySelector<HTMLCanvasElement>(".band canvas")!;
    const band = copied(disk.querySelector<SVGElement>(".band svg")!);
    const { width, height } = (disk.querySelector<SVGSVGElement>(".band svg")!.viewBox as SVGAnimatedRect).baseVal;
    if (heads.width && heads.height)
      band.append(shape("image", { href: heads.toDataURL(), width, height, preserveAspectRatio: "none" }));
    sheet.piece(band, 52);
    sheet.words([...disk.querySelectorAll(".under > span")].map((part) => part.textContent).join(" · "), 12);
  }
  const entries = [...section.querySelectorAll<HTMLElement>(".parts > span")];
  sheet.legend(
    entries.map((entry) => ({
      hue: getComputedStyle(entry.querySelector("rect")!).fill,
      text: entry.textContent!.trim(),
    })),
  );
}

/** Everything that a panel shows, one thing below the other. */
export async function panelPicture(section: HTMLElement): Promise<string> {
  const sheet = new Sheet();
  if (section.id === "what") {
    bands(section, sheet);
    return sheet.text();
  }
  sheet.words(section.querySelector("h2")!.textContent!, 18, "bold");
  const titles = [...document.querySelectorAll("#what .disk h2")].map((title) => title.textContent!);
  const cards = [...section.querySelectorAll<HTMLElement>(".card")];
  for (const [i, card] of cards.entries()) {
    if (cards.length === titles.length) sheet.words(titles[i]!, 14, "bold");
    for (const plot of card.querySelectorAll<Plot>(".plot"))
      if (plot.classList.contains("map")) map(card, sheet);
      else {
        const title = plot.previousElementSibling;
        if (title?.tagName === "H3") sheet.words(title.textContent!, 13);
        await chart(plot, sheet);
      }
  }
  return sheet.text();
}

/** The same in pixels. */
async function pixels(svg: string): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const size = { width: SCALE * image.naturalWidth, height: SCALE * image.naturalHeight };
  const canvas = Object.assign(element("canvas"), size);
  canvas.getContext("2d")!.drawImage(image, 0, 0, size.width, size.height);
  return new Promise((done) => canvas.toBlob((blob) => done(blob!), "image/png"));
}

/** Keep something as a file. */
export function save(blob: Blob, name: string): void {
  const href = URL.createObjectURL(blob);
  element("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}

/** Two buttons at a panel, which keep what it shows. */
export function pictureButtons(section: HTMLElement): HTMLElement {
  const { id } = section;
  const button = (form: string, make: (svg: string) => Blob | Promise<Blob>) => {
    const press = async () => save(await make(await panelPicture(section)), `layoutscope-${id}.${form.toLowerCase()}`);
    const title = `save what this part shows as ${form}`;
    return element("button", { type: "button", title, "aria-label": title, onclick: press }, form);
  };
  const svg = button("SVG", (text) => new Blob([text], { type: "image/svg+xml" }));
  return element("div", { class: "bar pictures" }, svg, button("PNG", pixels));
}
