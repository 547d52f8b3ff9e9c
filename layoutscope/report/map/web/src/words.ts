// Numbers as people read them; the same words as the report's.

const UNITS: [number, string][] = [
  [2 ** 40, "TiB"],
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"],
];

export function bytesText(n: number): string {
  for (const [factor, unit] of UNITS) {
    const value = n / factor;
    if (Math.abs(value) >= 1) return `${value < 1000 ? value.toPrecision(3) : counted(Math.round(value))} ${unit}`;
  }
  return `${n} B`;
}

/** Two places of a disk, in one unit with as many digits as tell them apart where neither is too small for it. */
export function placesText(low: number, high: number): string {
  const [factor, unit] = UNITS.find(([least]) => high >= least) ?? [1, "B"];
  const apart = 1 - Math.floor(Math.log10((high - low) / factor));
  const digits = factor === 1 ? 0 : Math.max(0, apart, 2 - Math.floor(Math.log10(high / factor)));
  const [from, to] = [low, high].map((n) =>
    (n / factor).toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }),
  );
  return `${low < factor ? bytesText(low) : from} to ${to} ${unit}`;
}

export function secondsText(s: number): string {
  if (!s) return "0 s";
  if (s < 1e-3) return `${+(s * 1e6).toPrecision(3)} us`;
  if (s < 1) return `${+(s * 1e3).toPrecision(3)} ms`;
  if (s < 120) return `${s.toPrecision(3)} s`;
  const whole = Math.round(s);
  if (whole < 7200) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  const minutes = Math.round(s / 60);
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

export function shareText(share: number): string {
  if (share >= 1) return "100 %";
  if (share >= 0.9995) return "over 99.9 %";
  return share < 1e-4 ? "under 0.01 %" : `${(100 * share).toPrecision(3)} %`;
}

/** A whole number with separators, the same in every browser. */
export function counted(n: number): string {
  return n.toLocaleString("en");
}

export function plural(n: number, word: string): string {
  return `${counted(n)} ${word}${n === 1 ? "" : "s"}`;
}

/** Show characters that are not seen, or that move others, as escapes: the twin of Python's `escape_text`. */
export function escaped(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{DI}]/gu, (found) => {
    const code = found.codePointAt(0)!.toString(16);
    return code.length > 4 ? `\\U${code.padStart(8, "0")}` : `\\u${code.padStart(4, "0")}`;
  });
}
