// The box beside the pointer; its lines are made in owners.ts and drawn.ts.

import { element } from "./dom";

const APART = 14;

export class Tip {
  private readonly box = element("div", { class: "tip", hidden: "" });

  constructor() {
    document.body.append(this.box);
  }

  show(e: MouseEvent, lines: string[]): void {
    const { box } = this;
    box.textContent = lines.join("\n");
    box.hidden = false;
    const { offsetWidth: wide, offsetHeight: high } = box;
    const left = e.clientX + APART + wide > innerWidth ? Math.max(4, e.clientX - APART - wide) : e.clientX + APART;
    const top = e.clientY + APART + high > innerHeight ? Math.max(4, e.clientY - APART - high) : e.clientY + APART;
    box.style.transform = `translate(${left}px, ${top}px)`;
  }

  /** Show what is where a mouse points, or a finger taps. */
  follow(plot: HTMLElement, point: (e: PointerEvent) => void): void {
    plot.addEventListener("pointermove", (e) => e.pointerType === "mouse" && !e.buttons && point(e));
    plot.addEventListener("pointerup", (e) => e.pointerType !== "mouse" && point(e));
    plot.addEventListener("pointerleave", (e) => e.pointerType === "mouse" && this.hide());
  }

  hide(): void {
    this.box.hidden = true;
  }
}
