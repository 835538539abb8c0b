// The life of an instance as steps on a line.

import { instant } from "../format/time";
import { why } from "./state";
import type { Instance } from "./types";

export interface Step {
  name: string;
  /** Milliseconds. */
  at: number;
  /** What is said beside it. */
  note?: string;
  tone: "run" | "start" | "leave" | "gone" | "off" | "ink";
  /** It lies ahead. */
  ahead?: boolean;
}

const names: Record<string, { name: string; tone: Step["tone"] }> = {
  created: { name: "created", tone: "start" },
  launched: { name: "launched", tone: "start" },
  registered: { name: "registered", tone: "start" },
  running: { name: "running", tone: "run" },
  condemned: { name: "end decided", tone: "leave" },
  draining: { name: "draining", tone: "leave" },
  terminating: { name: "terminating", tone: "gone" },
  deleted: { name: "deleted", tone: "gone" },
};

/** The steps of a life in order: what the server recorded, or what the instance itself tells. */
export function steps(i: Instance): Step[] {
  const all: Step[] = [];
  for (const { state, at } of i.life ?? []) {
    const t = instant(at);
    if (t !== undefined && state) all.push({ ...(names[state] ?? { name: state, tone: "ink" }), at: t });
  }
  const has = (name: string) => all.some((s) => s.name === name);
  const add = (name: string, at: string | undefined, tone: Step["tone"]) => {
    const t = instant(at);
    if (t !== undefined && !has(name)) all.push({ name, at: t, tone });
  };
  add("created", i.createdAt, "start");
  add("registered", i.registeredAt, "start");
  add("put on hold", i.hold?.since, "off");
  all.sort((a, b) => a.at - b.at);
  const decided = all.find((s) => s.name === "end decided");
  if (decided && i.condemned) decided.note = why(i.condemned.reason);
  const end = instant(i.condemned?.deleteAt);
  if (end !== undefined && !has("deleted")) all.push({ name: "deleted at the latest", at: end, tone: "gone", ahead: true });
  return all;
}

/** Where the steps stand on a line from 0 to 1: by time, but never closer than the least distance. */
export function spread(at: readonly number[], least: number): number[] {
  if (at.length < 2) return at.map(() => 0);
  const first = at[0] as number;
  const whole = (at[at.length - 1] as number) - first || 1;
  const gap = Math.min(least, 1 / (at.length - 1));
  const places = at.map((t) => (t - first) / whole);
  for (let i = 1; i < places.length; i++) places[i] = Math.max(places[i] as number, (places[i - 1] as number) + gap);
  // What was pushed over the end is pushed back, from the end on.
  let limit = 1;
  for (let i = places.length - 1; i >= 0; i--) {
    places[i] = Math.min(places[i] as number, limit);
    limit = (places[i] as number) - gap;
  }
  return places;
}
