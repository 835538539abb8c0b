// Counts of groups and fleets, and the sentences that they make.

import { count, list, things } from "../format/number";
import { toneOf } from "./conditions";
import type { Fleet, GroupEntry } from "./fleet";

/** How many instances are in which state, and how many there should be. */
export interface Counts {
  /** Managed instances that are wanted; of groups of mode demand those that there are. */
  wanted: number;
  all: number;
  /** By status of the API. */
  by: Map<string, number>;
}

export const of = (c: Counts, ...statuses: string[]): number => statuses.reduce((n, s) => n + (c.by.get(s) ?? 0), 0);

/** The counts of one group. */
export function countsOf(entry: GroupEntry): Counts {
  const by = new Map<string, number>();
  for (const i of entry.instances.values()) by.set(i.status ?? "unknown", (by.get(i.status ?? "unknown") ?? 0) + 1);
  const demand = entry.group?.mode === "demand";
  return { wanted: demand ? entry.instances.size : (entry.group?.size ?? 0), all: entry.instances.size, by };
}

/** The sum of counts. */
export function sum(all: Iterable<Counts>): Counts {
  const total: Counts = { wanted: 0, all: 0, by: new Map() };
  for (const c of all) {
    total.wanted += c.wanted;
    total.all += c.all;
    for (const [status, n] of c.by) total.by.set(status, (total.by.get(status) ?? 0) + n);
  }
  return total;
}

/** Instances that do their work: running ones, and those that were switched off on purpose. */
export const running = (c: Counts): number => of(c, "running", "powered-off");

/** The state of counts in one sentence. */
export function headline(c: Counts): string {
  const run = running(c);
  const parts = doing(c);
  if (c.all === 0 && c.wanted === 0) return "No machine is wanted, and none runs.";
  if (parts.length === 0 && run >= c.wanted) return c.wanted === 1 ? "The machine is running." : `All ${things(run, "machine")} are running.`;
  const missing = Math.max(0, c.wanted - run - of(c, "pending", "provisioning"));
  if (parts.length === 0 || (missing > 0 && of(c, "unhealthy") === 0)) parts.push(`${count(missing)} missing`);
  const shown = parts.filter((p) => p !== "0 missing");
  return `${count(run)} of ${things(c.wanted, "machine")} running${shown.length ? `: ${list(shown)}` : ""}.`;
}

/** What goes on beside running, as parts of a list. */
export function doing(c: Counts): string[] {
  const parts: string[] = [];
  const add = (n: number, what: string) => {
    if (n > 0) parts.push(`${count(n)} ${what}`);
  };
  add(of(c, "unhealthy"), "unhealthy");
  add(of(c, "pending", "provisioning"), "starting");
  add(of(c, "draining", "terminating"), "leaving");
  add(of(c, "unknown"), "not heard of yet");
  return parts;
}

/** How urgent a look at a group is: the higher one comes first. */
export function urgency(entry: GroupEntry, c: Counts): number {
  if (of(c, "unhealthy") > 0) return 4;
  const blocked = entry.group?.rebuilt || entry.group?.conditions?.some((c) => toneOf(c.type) === "leave");
  if (blocked) return 3;
  if (of(c, "pending", "provisioning", "draining", "terminating") > 0) return 2;
  return running(c) < c.wanted ? 3 : 0;
}

/** What an hour of all groups of mode demand costs, in millionths of a dollar; undefined: none has a price. */
export function hourly(fleet: Fleet): number | undefined {
  let total: number | undefined;
  for (const { group } of fleet.groups.values()) {
    const usage = group?.demandUsage;
    if (usage) total = (total ?? 0) + Number(usage.hourlyMicroUsd ?? 0);
  }
  return total;
}
