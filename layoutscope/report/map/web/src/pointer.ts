// Mouse, pen and fingers over the map: what each of them means.

/** Nearer than this, in CSS pixels, a pointer has not moved. */
const STILL = 6;

/** What a map can do with a pointer; a cell is told by the event over it. */
export interface Pointed {
  cellAt(event: MouseEvent): number;
  describe(cell: number): void;
  /** Zoom on a cell; with `keep` it stays where it is. */
  zoom(factor: number, cell: number, keep?: boolean): unknown;
  /** A stretch of cells is chosen, by a drag with the shift key. */
  choose(first: number, last: number): void;
  /** A drag begins: what follows are moves to where that cell lies under the pointer. */
  grip(cell: number): (cell: number) => void;
}

interface Held {
  x: number;
  y: number;
  cell: number;
  chooses: boolean;
  move: ((cell: number) => void) | null;
}

/** A mouse that rests tells, clicks zoom in; a finger's first tap tells, a second one at the same place zooms in; all until the signal. */
export function followPointer(area: HTMLElement, map: Pointed, signal: AbortSignal): void {
  const fingers = new Map<number, PointerEvent>();
  let held: Held | null = null;
  let tapped: number | null = null;
  let apart = 0;

  const pinch = () => {
    const [one, other] = [...fingers.values()];
    const now = Math.hypot(one!.clientX - other!.clientX, one!.clientY - other!.clientY);
    // In steps, so that each zoom can be seen and the cells keep whole widths.
    if (apart && Math.abs(Math.log2(now / apart)) < 0.5) return;
    if (apart) map.zoom(apart / now, map.cellAt(one!), true);
    apart = now;
  };
  const pressed = (e: PointerEvent) => {
    if (e.button) return;
    fingers.set(e.pointerId, e);
    apart = 0;
    held =
      fingers.size === 1 ? { x: e.clientX, y: e.clientY, cell: map.cellAt(e), chooses: e.shiftKey, move: null } : null;
  };
  // Plotly covers the window while a button is held, so that the area itself hears nothing of it.
  const moved = (e: PointerEvent) => {
    if (fingers.has(e.pointerId)) fingers.set(e.pointerId, e);
    if (fingers.size > 1) pinch();
    else if (held && e.buttons) {
      if (!held.move && Math.hypot(e.clientX - held.x, e.clientY - held.y) < STILL) return;
      const { cell, chooses } = held;
      held.move ??= chooses ? (to) => map.choose(Math.min(cell, to), Math.max(cell, to)) : map.grip(cell);
      held.move(map.cellAt(e));
    } else if (!held && e.pointerType === "mouse" && e.target instanceof Node && area.contains(e.target))
      map.describe(map.cellAt(e));
  };
  const released = (e: PointerEvent) => {
    fingers.delete(e.pointerId);
    const still = held && !held.move && e.type === "pointerup";
    const cell = held?.cell ?? 0;
    held = null;
    if (!still) return;
    if (e.pointerType !== "touch" || tapped === cell) {
      tapped = null;
      map.zoom(1 / 16, cell);
    } else {
      tapped = cell;
      map.describe(cell);
    }
  };
  const always = { capture: true, signal };
  area.addEventListener("pointerdown", pressed, always);
  addEventListener("pointermove", moved, always);
  addEventListener("pointerup", released, always);
  addEventListener("pointercancel", released, always);
  const turned = (e: WheelEvent) => {
    e.preventDefault();
    map.zoom(e.deltaY > 0 ? 2 : 1 / 2, map.cellAt(e), true);
  };
  area.addEventListener("wheel", turned, { passive: false, capture: true });
}

/** What the strip of a whole disk leads: the stretch that its map shows, in shares of the whole. */
export interface Led {
  /** Where the stretch begins and how wide it is. */
  window(): { from: number; width: number };
  /** A drag begins, so that the way back leads to before it. */
  remember(): void;
  /** Show a stretch that begins here and is so wide. */
  lead(from: number, width: number): unknown;
  /** Zoom around a place. */
  turn(at: number, factor: number): unknown;
}

/** How near to an edge of the window, in CSS pixels, a pointer takes hold of it, of one at least so wide. */
const [EDGE, WIDE] = [6, 30];

/** The window of a strip is dragged, or one of its edges; pressed beside it, it comes to the pointer first. */
export function followStrip(strip: HTMLElement, map: Led): void {
  let held: ((at: number) => unknown) | null = null;
  const shareAt = (e: MouseEvent) => e.offsetX / strip.clientWidth;
  const edgeAt = (at: number): "left" | "right" | null => {
    const { from, width } = map.window();
    const near = (edge: number) => Math.abs(at - edge) * strip.clientWidth <= EDGE;
    if (width * strip.clientWidth < WIDE) return null;
    return near(from) ? "left" : near(from + width) ? "right" : null;
  };
  strip.addEventListener("pointerdown", (e) => {
    if (e.button) return;
    strip.setPointerCapture(e.pointerId);
    map.remember();
    const { from, width } = map.window();
    const at = shareAt(e);
    const edge = edgeAt(at);
    const isInside = at >= from && at <= from + width;
    const grip = isInside ? at - from : width / 2;
    if (edge === "left") held = (to) => to < from + width && map.lead(Math.max(0, to), from + width - Math.max(0, to));
    else if (edge === "right") held = (to) => to > from && map.lead(from, to - from);
    else held = (to) => map.lead(to - grip, width);
    if (!isInside && !edge) held(at);
  });
  strip.addEventListener("pointermove", (e) => {
    if (held) held(shareAt(e));
    else strip.style.cursor = edgeAt(shareAt(e)) ? "ew-resize" : "pointer";
  });
  const released = () => {
    held = null;
  };
  strip.addEventListener("pointerup", released);
  strip.addEventListener("pointercancel", released);
  const turned = (e: WheelEvent) => {
    e.preventDefault();
    map.turn(shareAt(e), e.deltaY > 0 ? 2 : 1 / 2);
  };
  strip.addEventListener("wheel", turned, { passive: false });
}
