// Times as people read them: short and relative, with the absolute time at hand.

const units: [number, string][] = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "m"],
  [1, "s"],
];

/** A length of time in at most two units: `3m 20s`, `2h 5m`, `4d`. */
export function duration(milliseconds: number): string {
  const all = Math.max(0, Math.round(milliseconds / 1000));
  const at = units.findIndex(([size]) => all >= size);
  if (at < 0) return "0s";
  const [size, name] = units[at] as [number, string];
  const first = Math.floor(all / size);
  const next = units[at + 1];
  const second = next ? Math.floor((all % size) / next[0]) : 0;
  return first < 10 && next && second > 0 ? `${first}${name} ${second}${next[1]}` : `${first}${name}`;
}

/** When t was or will be, seen from now: `just now`, `12s ago`, `in 4m`. */
export function relative(t: number, now: number): string {
  const ahead = t - now;
  if (Math.abs(ahead) < 1500) return "just now";
  return ahead > 0 ? `in ${duration(ahead)}` : `${duration(-ahead)} ago`;
}

const two = (n: number) => String(n).padStart(2, "0");

/** The time of day, as it is here: `14:03:09`. */
export function clock(t: number): string {
  const d = new Date(t);
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

/** Day and time with the zone, for titles: `2026-05-06 14:03:09 UTC+2`. */
export function absolute(t: number): string {
  const d = new Date(t);
  const offset = -d.getTimezoneOffset();
  const hours = Math.trunc(Math.abs(offset) / 60);
  const rest = Math.abs(offset) % 60;
  const zone = offset === 0 ? "UTC" : `UTC${offset < 0 ? "−" : "+"}${hours}${rest ? `:${two(rest)}` : ""}`;
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${clock(t)} ${zone}`;
}

/** The milliseconds of a timestamp of the API; undefined for an absent or malformed one. */
export function instant(text: string | undefined): number | undefined {
  if (!text) return undefined;
  const t = Date.parse(text);
  return Number.isNaN(t) ? undefined : t;
}

/** The milliseconds of a duration of the API, such as `30s` or `1.500s`. */
export function span(text: string | undefined): number | undefined {
  const found = /^(-?\d+(?:\.\d+)?)s$/.exec(text ?? "");
  return found ? Number(found[1]) * 1000 : undefined;
}
