// Elements and colours.

export interface Hue {
  light: string;
  dark: string;
}

type Listener = (event: Event) => unknown;

/** Every text from the image goes through text nodes: nothing in a name can become markup. */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Record<string, string | number | Listener> = {},
  ...children: (Node | string | number)[]
): HTMLElementTagNameMap[Tag] {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, String(value));
  }
  // What a control is for is told by its hint; not every reader of screens takes one for a name.
  if (/^(input|select)$/.test(tag) && "title" in attributes) node.setAttribute("aria-label", String(attributes.title));
  node.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return node;
}

export function isDark(): boolean {
  const forced = document.documentElement.dataset.theme;
  return forced ? forced === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

export function hueOf(c: Hue): string {
  return isDark() ? c.dark : c.light;
}

function mix(a: string, b: string, share: number): string {
  const part = (hex: string, i: number) => Number.parseInt(hex.slice(1 + 2 * i, 3 + 2 * i), 16);
  const mixed = [0, 1, 2].map((i) => Math.round(part(a, i) * share + part(b, i) * (1 - share)));
  return `rgb(${mixed.join(",")})`;
}

/** A colour with so much of its strength left. */
export function shade(hue: string, strength: number): string {
  return mix(hue, isDark() ? "#2b3038" : "#d4d7db", strength);
}

/** A swatch with lines, of what must be told without its colour. */
export function hatchedSwatch(hue: Hue): HTMLElement {
  const box = swatch(hueOf(hue));
  const line = isDark() ? "#000000" : "#ffffff";
  box.style.backgroundImage = `repeating-linear-gradient(135deg, ${line} 0 1px, transparent 1px 4px)`;
  return box;
}

export function swatch(colour: string): HTMLElement {
  const box = element("span", { class: "swatch" });
  box.style.background = colour;
  return box;
}
