// Long work in pieces, between which the page draws and listens.

export const pause = (milliseconds = 0) => new Promise<void>((done) => setTimeout(done, milliseconds));
