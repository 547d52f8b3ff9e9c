// Long work in turns, between which the page draws and listens.

/** Let the page draw and listen. */
export const pause = (milliseconds = 0) => new Promise<void>((done) => setTimeout(done, milliseconds));

/** What is done one after the other, with a pause before each; begun anew, what was left of it is not done. */
export class Turns {
  private turn = 0;
  private readonly steps: (() => unknown)[] = [];
  /** All of the last turn is done. */
  done: Promise<void> = Promise.resolve();

  add(step: () => unknown): void {
    this.steps.push(step);
  }

  begin(): void {
    this.done = this.go(++this.turn);
  }

  private async go(turn: number): Promise<void> {
    for (const step of this.steps) {
      await pause();
      if (turn !== this.turn) return this.done; // who waits for this one waits for the next
      await step();
    }
  }
}
