import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { session } from "../api";
import { count, money, things } from "../format/number";
import { fleet, ready, ticks } from "../live";
import { toneOf } from "../model/conditions";
import type { GroupEntry } from "../model/fleet";
import { looks, lookOf, orderOf } from "../model/state";
import { countsOf, doing, headline, hourly, of, running, sum, urgency, type Counts } from "../model/summary";
import type { Instance } from "../model/types";
import { Feed } from "../ui/feed";
import { entryHref } from "../ui/link";
import { Mark } from "../ui/shapes";
import { Empty, Loading } from "../ui/states";
import { Tiles } from "../ui/tiles";
import { useTitle } from "../ui/use";

type Order = "name" | "urgency" | "size";

const order = signal<Order>("name");
const only = signal<string | undefined>(undefined);

interface Row {
  entry: GroupEntry;
  counts: Counts;
}

const compare: Record<Order, (a: Row, b: Row) => number> = {
  name: () => 0,
  urgency: (a, b) => urgency(b.entry, b.counts) - urgency(a.entry, a.counts),
  size: (a, b) => b.counts.all - a.counts.all,
};

function rowsOf(by: Order): Row[] {
  const rows = [...fleet.groups.values()].map((entry) => ({ entry, counts: countsOf(entry) }));
  return rows.sort((a, b) => compare[by](a, b) || (a.entry.id < b.entry.id ? -1 : 1));
}

/** The fleet: every group with its instances as tiles. */
export function FleetPage() {
  useTitle("");
  const version = ticks.fleet.value;
  void ticks.shards.value;
  const rows = useMemo(() => rowsOf(order.value), [version, order.value]);
  const total = useMemo(() => sum(rows.map((r) => r.counts)), [rows]);
  if (!ready.value && rows.length === 0) return <Loading what="the fleet" />;
  const spend = hourly(fleet);
  const shown = only.value === undefined ? rows : rows.filter((r) => of(r.counts, only.value as string) > 0);
  return (
    <>
      <header class="page-head fleet-head">
        <p class="eyebrow">
          {things(fleet.shards.size, "shard")} · {things(rows.length, "group")}
          {session.value?.cluster && <> · cluster {session.value.cluster}</>}
        </p>
        <h1>{headline(total)}</h1>
        {spend !== undefined && (
          <p class="lead">
            Groups of mode demand cost <b class="figures">{money(spend)}</b> an hour.
          </p>
        )}
      </header>
      <Unreachable />
      <div class="with-feed">
        <section aria-label="Groups">
          <Controls total={total} />
          {shown.length === 0 ? (
            rows.length === 0 ? (
              <Empty title="There is no group yet">
                Add one to the configuration file of a shard, or with <code>nstance-admin group apply</code>. It shows here at once.
              </Empty>
            ) : (
              <Empty title={`No group has an instance that is ${lookOf(only.value).label}`} />
            )
          ) : (
            <ol class="fields">
              {shown.map((row) => (
                <Field key={row.entry.id} {...row} version={row.entry.version} only={only.value} />
              ))}
            </ol>
          )}
        </section>
        <Feed />
      </div>
    </>
  );
}

function Unreachable() {
  const lost = [...fleet.shards.values()].filter((s) => !s.connected);
  if (lost.length === 0) return null;
  return (
    <div class="notice bad" role="alert">
      {lost.map((s) => (
        <p key={s.name}>
          Shard <b>{s.name}</b> does not answer: {s.error || "no reason is known"}. What is shown of it is as of before.
        </p>
      ))}
    </div>
  );
}

function Controls({ total }: { total: Counts }) {
  return (
    <div class="controls">
      <div class="chips" role="group" aria-label="Show groups with instances that are">
        {looks
          .filter((look) => of(total, look.status) > 0 || only.value === look.status)
          .map((look) => (
            <button
              type="button"
              key={look.status}
              class="chip"
              aria-pressed={only.value === look.status}
              onClick={() => (only.value = only.value === look.status ? undefined : look.status)}
            >
              <Mark status={look.status} /> {look.label} <b class="figures">{count(of(total, look.status))}</b>
            </button>
          ))}
      </div>
      <label class="choice">
        Order
        <select value={order.value} onChange={(e) => (order.value = e.currentTarget.value as Order)}>
          <option value="name">by name</option>
          <option value="urgency">what needs a look first</option>
          <option value="size">largest first</option>
        </select>
      </label>
    </div>
  );
}

const byBirth = (a: Instance, b: Instance) => {
  const [x, y] = [a.createdAt ?? "", b.createdAt ?? ""];
  return x < y ? -1 : x > y ? 1 : a.instanceId < b.instanceId ? -1 : 1;
};

interface FieldProps extends Row {
  version: number;
  only: string | undefined;
}

function Field({ entry, counts, version, only }: FieldProps) {
  const group = entry.group;
  const instances = useMemo(() => {
    const all = [...entry.instances.values()].filter((i) => only === undefined || (i.status ?? "unknown") === only);
    // Those that leave stand at the end: what is left keeps its place for longer.
    return all.sort((a, b) => Number(a.condemned !== undefined) - Number(b.condemned !== undefined) || byBirth(a, b));
  }, [entry, version, only]);
  const first = entry.instances.values().next().value;
  const key = group?.key ?? first?.group ?? "";
  const tenant = group?.tenant ?? first?.tenant ?? "";
  const demand = group?.mode === "demand";
  const staying = of(counts, "running", "powered-off", "pending", "provisioning", "unhealthy", "unknown");
  const ghosts = demand || only !== undefined ? 0 : Math.min(200, Math.max(0, counts.wanted - staying));
  const parts = doing(counts);
  const label = `${key}: ${count(running(counts))} of ${count(counts.wanted)} running${parts.length ? `, ${parts.join(", ")}` : ""}`;
  return (
    <li class="field">
      <div class="field-name">
        <h2>
          <a href={entryHref(entry, key, tenant)}>{key || "without a group"}</a>
        </h2>
        <p class="quiet">
          {tenant} · {entry.shard}
        </p>
        {group?.instanceType && <p class="quiet mono small">{group.instanceType}</p>}
      </div>
      <div class="field-tiles">
        <Tiles entry={entry} instances={instances} ghosts={ghosts} label={label} />
        <Flags entry={entry} />
      </div>
      <div class="field-count">
        <p class="big figures" title={demand ? "machines" : "running of wanted"}>
          {count(running(counts))}
          {!demand && running(counts) !== counts.wanted && <span class="of"> / {count(counts.wanted)}</span>}
        </p>
        <p class="quiet small">{parts.length ? parts.sort(byOrder).join(", ") : demand ? "by demand" : "as wanted"}</p>
      </div>
    </li>
  );
}

const byOrder = (a: string, b: string) => orderOf(a.split(" ")[1]) - orderOf(b.split(" ")[1]);

/** What holds a group back, in a word each. */
export function Flags({ entry }: { entry: GroupEntry }) {
  const g = entry.group;
  if (!g) return null;
  const flags: { name: string; tone: string; title?: string | undefined }[] = [];
  if (g.rebuilt) flags.push({ name: "waits to be confirmed", tone: "bad" });
  if (g.pause) flags.push({ name: "paused", tone: "leave", title: g.pause.reason });
  if (g.suspended) flags.push({ name: "asleep", tone: "off" });
  if (g.deleting) flags.push({ name: "being deleted", tone: "leave" });
  for (const c of g.conditions ?? []) {
    const tone = toneOf(c.type);
    if (tone !== "run" && c.type !== "paused") flags.push({ name: c.type, tone, title: c.message });
  }
  if (flags.length === 0) return null;
  return (
    <p class="flags">
      {flags.slice(0, 5).map((f) => (
        <span key={f.name} class={`flag tone-${f.tone}`} title={f.title}>
          {f.name}
        </span>
      ))}
    </p>
  );
}
