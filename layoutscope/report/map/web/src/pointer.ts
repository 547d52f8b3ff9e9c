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
  /** Show a stretch of the same width that begins here. */
  lead(from: number): unknown;
}

/** The window of a strip is dragged; pressed beside it, it comes to the pointer first. */
export function followStrip(strip: HTMLElement, map: Led): void {
  let grip: number | null = null;
  const shareAt = (e: PointerEvent) => e.offsetX / strip.clientWidth;
  strip.addEventListener("pointerdown", (e) => {
    if (e.button) return;
    strip.setPointerCapture(e.pointerId);
    map.remember();
    const { from, width } = map.window();
    const at = shareAt(e);
    const isInside = at >= from && at <= from + width;
    grip = isInside ? at - from : width / 2;
    if (!isInside) map.lead(at - grip);
  });
  strip.addEventListener("pointermove", (e) => {
    if (grip !== null) map.lead(shareAt(e) - grip);
  });
  const released = () => {
    grip = null;
  };
  strip.addEventListener("pointerup", released);
  strip.addEventListener("pointercancel", released);
}
