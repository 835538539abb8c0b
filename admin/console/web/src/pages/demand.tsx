import { CallError, getDemand } from "../api";
import { amount, count, money, num, things } from "../format/number";
import { fleet, now, ready, ticks } from "../live";
import type { Demand, DemandMachine, Need } from "../model/types";
import { Lasts } from "../ui/ago";
import { InstanceLink } from "../ui/link";
import { Mark } from "../ui/shapes";
import { Empty, Failed, Loading } from "../ui/states";
import { Table, type Column } from "../ui/table";
import { useLoaded, useTitle } from "../ui/use";

const every = 5_000;

/** What the cluster needs, which machines serve it, what is missing and what it costs. */
export function DemandPage() {
  useTitle("Demand");
  void ticks.shards.value;
  const shards = [...new Set([...fleet.groups.values()].filter((g) => g.group?.mode === "demand").map((g) => g.shard))].sort();
  if (!ready.value && shards.length === 0) return <Loading what="demand" />;
  if (shards.length === 0) {
    return (
      <>
        <header class="page-head">
          <p class="eyebrow">Demand</p>
          <h1>No group is of mode demand.</h1>
        </header>
        <Empty title="Machines are kept at fixed sizes">
          Give a group <code>mode: demand</code>, and machines are bought for what the Pods of a cluster need, and given back. Needs, shortfalls and spend then show here.
        </Empty>
      </>
    );
  }
  return (
    <>
      {shards.map((shard) => (
        <ShardDemand key={shard} shard={shard} />
      ))}
    </>
  );
}

function ShardDemand({ shard }: { shard: string }) {
  const version = `${ticks.fleet.value} ${Math.floor(now.value / every)}`;
  const { value, error, again } = useLoaded((signal) => getDemand(shard, signal), shard, version, every - 1_000);
  if (!value) {
    if (!error) return <Loading what={`demand of ${shard}`} />;
    if (error instanceof CallError && error.status === "FAILED_PRECONDITION") return <Empty title={`Shard ${shard} serves no demand`}>{error.message}</Empty>;
    return <Failed error={error} onRetry={again} />;
  }
  return <Known shard={shard} demand={value} />;
}

const machineColumns = (shard: string): Column<DemandMachine>[] => [
  { name: "Machine", width: "minmax(14rem, 1.4fr)", cell: (m) => <InstanceLink shard={shard} id={m.instanceId ?? ""} whole /> },
  { name: "State", width: "8.5rem", cell: (m) => <MachineStatus state={m.state} /> },
  { name: "Type", width: "minmax(8rem, 1fr)", cell: (m) => <span class="mono">{m.instanceType}</span> },
  { name: "Capacity", width: "7rem", cell: (m) => m.capacityType },
  { name: "An hour", width: "5.5rem", cell: (m) => money(num(m.hourlyMicroUsd)), right: true },
  { name: "Needs", width: "4.5rem", cell: (m) => m.needs ?? 0, right: true },
  {
    name: "Remark",
    width: "minmax(10rem, 1.2fr)",
    cell: (m) =>
      m.leaving ? "leaves for another reason" : m.fixed ? "of a group with a size" : m.surplusSince ? <span>not needed for <Lasts at={m.surplusSince} /></span> : "",
  },
];

const looksLike: Record<string, string> = {
  creating: "pending",
  idle: "powered-off",
  configuring: "provisioning",
  configured: "running",
  draining: "draining",
  deleting: "terminating",
  failed: "unhealthy",
};

function MachineStatus({ state }: { state: string | undefined }) {
  return (
    <span class="status">
      <Mark status={looksLike[state ?? ""]} /> {state}
    </span>
  );
}

function Known({ shard, demand }: { shard: string; demand: Demand }) {
  const needs = demand.needs ?? [];
  const machines = demand.machines ?? [];
  const short = needs.filter((n) => Object.keys(n.missing ?? {}).length > 0);
  const spend = machines.reduce((sum, m) => sum + num(m.hourlyMicroUsd), 0);
  return (
    <>
      <header class="page-head">
        <p class="eyebrow">
          Demand / {shard} · {demand.connected ? "the cluster's operator is connected" : "the cluster's operator is not connected"}
        </p>
        <h1>{needs.length === 0 ? "Nothing is needed." : short.length === 0 ? `${needs.length === 1 ? "The need is" : `All ${count(needs.length)} needs are`} served.` : `${count(short.length)} of ${things(needs.length, "need")} lack something.`}</h1>
        <p class="lead">
          {things(machines.length, "machine")} for <b class="figures">{money(spend)}</b> an hour
        </p>
      </header>
      <section>
        <h2 class="section-title">Needs</h2>
        {needs.length === 0 ? (
          <p class="quiet">No Pod waits for a machine, and none of demand mode runs.</p>
        ) : (
          <ol class="needs">
            {[...short, ...needs.filter((n) => !short.includes(n))].map((n) => (
              <NeedLine key={n.id} need={n} />
            ))}
          </ol>
        )}
      </section>
      {(demand.planned?.length ?? 0) > 0 && (
        <section>
          <h2 class="section-title">Decided and not done</h2>
          <ul class="conditions">
            {demand.planned?.map((d, i) => (
              <li key={i}>
                <b>{d.action}</b>
                <p>
                  {d.instanceId && <InstanceLink shard={shard} id={d.instanceId} />} {d.offer && <>of {d.offer}</>} {d.reason} <span class="flag tone-leave">{d.disposition}</span>
                </p>
              </li>
            ))}
          </ul>
        </section>
      )}
      <section>
        <h2 class="section-title">What serves them</h2>
        {machines.length === 0 ? <p class="quiet">No machine.</p> : <Table label="Machines of demand" columns={machineColumns(shard)} rows={machines} rowKey={(m) => m.instanceId ?? ""} />}
      </section>
    </>
  );
}

function amounts(of: Need["amounts"]): string {
  return Object.entries(of ?? {})
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([resource, n]) => amount(resource, num(n)))
    .join(", ");
}

/** The share of a need that is served: of the resource that is missing most. */
function served(need: Need): number {
  const shares = Object.entries(need.missing ?? {}).map(([resource, n]) => 1 - num(n) / Math.max(1, num(need.amounts?.[resource])));
  return Math.max(0, Math.min(1, ...shares));
}

function NeedLine({ need }: { need: Need }) {
  const missing = amounts(need.missing);
  const share = served(need);
  return (
    <li>
      <div class="need-head">
        <span class="mono">{need.id?.slice(0, 12)}</span>
        <span class="quiet">priority {need.priority ?? 0}</span>
        {need.group && <span class="flag tone-off">together: {need.group}</span>}
        {missing ? <span class="flag tone-bad">missing for <Lasts at={need.missingSince} /></span> : <span class="flag tone-run">served</span>}
      </div>
      <span class="bar wide" role="meter" aria-label={`Served share of need ${need.id?.slice(0, 12)}, percent`} aria-valuenow={Math.round(share * 100)} aria-valuemin={0} aria-valuemax={100}>
        <i style={{ width: `${share * 100}%` }} />
      </span>
      <p>
        needs {amounts(need.amounts)}
        {missing && (
          <>
            ; <b>lacks {missing}</b>
            {need.reason && <> ({need.reason})</>}
          </>
        )}
      </p>
      {(need.requirements?.length ?? 0) > 0 && <p class="quiet mono small">{need.requirements?.join(" · ")}</p>}
    </li>
  );
}
