// Numbers and words as people read them.

const grouped = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });

/** A whole number with thin groups: `10,000`. */
export const count = (n: number): string => grouped.format(n);

/** A number of things: `1 machine`, `3 machines`. */
export const things = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`;

/** An hourly price from millionths of a dollar: `$1.24`. */
export function money(microUsd: number): string {
  const usd = microUsd / 1e6;
  const digits = usd !== 0 && Math.abs(usd) < 1 ? 3 : 2;
  return `$${usd.toFixed(digits).replace(/\B(?=(\d{3})+(?!\d)\.)/g, ",")}`;
}

/** A latency: `0.4 ms`, `12 ms`, `1.3 s`. */
export function latency(seconds: number): string {
  const ms = seconds * 1000;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return `${seconds.toFixed(1)} s`;
}

/** An amount of a Kubernetes resource; cpu comes in thousandths of a core. */
export function amount(resource: string, n: number): string {
  if (resource === "cpu") return `${+(n / 1000).toFixed(2)} cpu`;
  if (resource === "memory" || resource.endsWith("storage")) return `${bytes(n)} ${resource}`;
  return `${count(n)} ${resource}`;
}

/** A number of bytes in binary units: `1.5 GiB`. */
export function bytes(n: number): string {
  const names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  let value = n;
  while (value >= 1024 && at < names.length - 1) {
    value /= 1024;
    at++;
  }
  return `${value >= 100 || at === 0 ? Math.round(value) : +value.toFixed(1)} ${names[at]}`;
}

/** The number of a field that JSON may carry as text, as it does for 64 bits; absent is 0. */
export function num(value: number | string | undefined): number {
  const n = typeof value === "string" ? Number(value) : (value ?? 0);
  return Number.isFinite(n) ? n : 0;
}

/** Parts as a list in a sentence: `a`, `a and b`, `a, b and c`. */
export function list(parts: string[]): string {
  if (parts.length < 2) return parts[0] ?? "";
  return `${parts.slice(0, -1).join(", ")} and ${parts[parts.length - 1]}`;
}
