// Elements of the page.

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

export const byId = (id: string) => document.getElementById(id);

export function list(title: string, names: readonly string[], choose: (place: number) => unknown): HTMLSelectElement {
  const options = names.map((name, place) => element("option", { value: place }, name));
  const box = element("select", { title }, ...options);
  box.addEventListener("change", () => choose(+box.value));
  return box;
}

export function button(text: string, title: string, press: () => unknown): HTMLButtonElement {
  return element("button", { type: "button", title, onclick: press }, text);
}

export function save(blob: Blob, name: string): void {
  const href = URL.createObjectURL(blob);
  element("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}

export interface Rows {
  columns: string[];
  rows: string[][];
}

export function table({ columns, rows }: Rows, title = ""): HTMLTableElement {
  const head = element("tr", {}, ...columns.map((name) => element("th", { scope: "col" }, name)));
  const body = rows.map((cells) => element("tr", {}, ...cells.map((cell) => element("td", {}, cell))));
  const caption = title ? [element("caption", {}, title)] : [];
  return element("table", {}, ...caption, element("thead", {}, head), element("tbody", {}, ...body));
}

/** What a plot shows as rows, for readers of screens, and for whoever cannot tell its colors; made when it is unfolded. */
export function textTable(title: string, rows: () => Rows): { box: HTMLElement; refresh: () => void } {
  const place = element("div", { class: "rows" });
  const box = element("details", { class: "told" }, element("summary", {}, `Show as table: ${title}`), place);
  const refresh = () => box.open && place.replaceChildren(table(rows(), title));
  box.addEventListener("toggle", refresh);
  return { box, refresh };
}
