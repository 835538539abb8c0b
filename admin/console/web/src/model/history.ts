// The size of a group over time, as a chart takes it.

import { instant } from "../format/time";
import type { Sample } from "./types";

export interface Series {
  /** Seconds. */
  t: number[];
  wanted: number[];
  running: number[];
  starting: number[];
  leaving: number[];
}

/** The samples in order, with one more at now so that the lines reach the edge. */
export function series(samples: readonly Sample[], now: number): Series {
  const s: Series = { t: [], wanted: [], running: [], starting: [], leaving: [] };
  const add = (t: number, x: Sample) => {
    s.t.push(t / 1000);
    s.wanted.push(x.size ?? 0);
    s.running.push(x.running ?? 0);
    s.starting.push(x.pending ?? 0);
    s.leaving.push((x.draining ?? 0) + (x.unhealthy ?? 0));
  };
  for (const x of samples) {
    const t = instant(x.t);
    if (t !== undefined && t / 1000 > (s.t[s.t.length - 1] ?? -Infinity)) add(t, x);
  }
  const last = samples[samples.length - 1];
  if (last && now / 1000 > (s.t[s.t.length - 1] ?? -Infinity)) add(now, last);
  return s;
}
