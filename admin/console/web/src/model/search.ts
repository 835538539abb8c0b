// Finding groups, instances, shards and pages by a few letters.

import type { Fleet } from "./fleet";
import { hrefOf, type Route } from "./route";

export interface Hit {
  kind: "page" | "group" | "instance" | "shard";
  name: string;
  /** Where it is. */
  detail: string;
  href: string;
  /** Status, of an instance. */
  status?: string | undefined;
}

const pages: { name: string; route: Route }[] = [
  { name: "Fleet", route: { page: "fleet" } },
  { name: "Shards", route: { page: "shards" } },
  { name: "Demand", route: { page: "demand" } },
  { name: "Host machines", route: { page: "machines" } },
  { name: "Errors", route: { page: "errors" } },
  { name: "Plan a configuration", route: { page: "plan" } },
];

/** How well text fits what is sought: 0 not at all, the higher the better. */
export function fit(text: string, sought: string): number {
  const at = text.toLowerCase().indexOf(sought);
  if (at < 0) return 0;
  if (text.length === sought.length) return 4;
  return at === 0 ? 3 : /[^a-z0-9]/i.test(text[at - 1] ?? "") ? 2 : 1;
}

/** The best hits for what is sought, pages for an empty text. Every word has to be found. */
export function search(fleet: Fleet, text: string, most = 12): Hit[] {
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const hits: { score: number; hit: Hit }[] = [];
  const offer = (weight: number, hit: Hit) => {
    let score = 0;
    for (const word of words) {
      const best = Math.max(fit(hit.name, word) * 2, fit(hit.detail, word));
      if (best === 0) return;
      score += best;
    }
    hits.push({ score: score * 10 + weight, hit });
  };
  for (const { name, route } of pages) offer(3, { kind: "page", name, detail: "page", href: hrefOf(route) });
  if (words.length > 0) {
    for (const shard of fleet.shards.keys()) offer(2, { kind: "shard", name: shard, detail: "shard", href: "/shards" });
    for (const entry of fleet.groups.values()) {
      const tenant = entry.group?.tenant ?? "";
      const key = entry.group?.key ?? "";
      if (entry.group) offer(2, { kind: "group", name: key, detail: `${tenant} · ${entry.shard}`, href: hrefOf({ page: "group", shard: entry.shard, tenant, group: key }) });
      for (const i of entry.instances.values()) {
        const detail = [i.group, entry.shard, i.hostname, i.providerInstanceId, ...(i.addresses ?? [])].filter(Boolean).join(" · ");
        offer(1, { kind: "instance", name: i.instanceId, detail, href: hrefOf({ page: "instance", shard: entry.shard, id: i.instanceId }), status: i.status });
      }
    }
  }
  // The order is that of the score, and of the names where it is equal.
  return hits.sort((a, b) => b.score - a.score || (a.hit.name < b.hit.name ? -1 : 1)).slice(0, most).map((h) => h.hit);
}
