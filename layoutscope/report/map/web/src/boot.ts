// What a page needs before all else: the means to unpack and run its scripts, which its policy lets no string do.

import { inflateText } from "./unpack";

async function run(packed: string): Promise<void> {
  const src = URL.createObjectURL(new Blob([await inflateText(packed)], { type: "text/javascript" }));
  const script = Object.assign(document.createElement("script"), { src });
  await new Promise((done, failed) => {
    script.onload = done;
    script.onerror = failed;
    document.head.append(script);
  });
  URL.revokeObjectURL(src);
}

Object.assign(globalThis, { run });
