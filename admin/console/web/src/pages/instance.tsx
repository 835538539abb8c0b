import { useCallback } from "preact/hooks";
import { CallError, explainInstance } from "../api";
import { fleet, ready, ticks } from "../live";
import { findInstance, type GroupEntry, type Happening } from "../model/fleet";
import { hrefOf } from "../model/route";
import { lookOf, why } from "../model/state";
import type { Instance } from "../model/types";
import { InstanceActions } from "../ui/actions-instance";
import { Ago, Lasts } from "../ui/ago";
import { Conditions, Decisions } from "../ui/decisions";
import { Feed } from "../ui/feed";
import { Files } from "../ui/files";
import { Lifeline } from "../ui/lifeline";
import { Mark } from "../ui/shapes";
import { Empty, Failed, Loading } from "../ui/states";
import { useLoaded, useTitle } from "../ui/use";
import { MachineFacts } from "./machine-facts";

/** One instance: its life, its health, what is on it, and why it goes. */
export function InstancePage({ shard, id }: { shard: string; id: string }) {
  useTitle(id);
  void ticks.fleet.value;
  const found = findInstance(fleet, shard, id);
  const version = found ? `${found.instance.revision}` : "gone";
  const explained = useLoaded((signal) => explainInstance(shard, id, signal), `${shard}/${id}`, `${version} ${ready.value}`, 1_000);
  const instance = found?.instance ? { ...explained.value?.instance, ...found.instance } : explained.value?.instance;
  if (!instance) {
    if (!ready.value || (!explained.error && !explained.value)) return <Loading what={`instance ${id}`} />;
    const missing = explained.error instanceof CallError && explained.error.http === 404;
    if (!missing && explained.error) return <Failed error={explained.error} onRetry={explained.again} />;
    return (
      <Empty page title="This instance is gone">
        <span class="mono">{id}</span> is not known to shard {shard} any more. <a href="/">Back to the fleet</a>
      </Empty>
    );
  }
  return <Known shard={shard} instance={instance} entry={found?.entry} gone={!found && ready.value} explained={explained.value} />;
}

interface KnownProps {
  shard: string;
  instance: Instance;
  entry: GroupEntry | undefined;
  gone: boolean;
  explained: import("../model/types").Explanation | undefined;
}

function Known({ shard, instance: i, entry, gone, explained }: KnownProps) {
  const id = i.instanceId;
  const own = useCallback((e: Happening) => e.shard === shard && e.instanceId === id, [shard, id]);
  const machine = fleet.machines.get(`${shard}/${id}`);
  void ticks.machines.value;
  const groupHref = hrefOf({ page: "group", shard, tenant: i.tenant ?? "", group: i.group ?? "" });
  const mine = (explained?.decisions ?? []).filter((d) => d.instanceId === id);
  const next = (explained?.next ?? []).filter((d) => d.instanceId === id);
  const conditions = (explained?.conditions ?? []).filter((c) => !c.instanceId || c.instanceId === id);
  return (
    <>
      <header class="page-head">
        <p class="eyebrow">
          <a href="/">Fleet</a> / {shard} / {i.tenant} / <a href={groupHref}>{i.group}</a>
        </p>
        <div class="head-row">
          <h1 class="mono id-title">
            <Mark status={i.status} size={22} /> {id}
          </h1>
          {!gone && <InstanceActions shard={shard} instance={i} group={entry?.group} />}
        </div>
        <p class="lead">
          {gone ? "It is gone." : <Sentence instance={i} />}
        </p>
      </header>
      <section class="panel" aria-label="Life">
        <Lifeline instance={i} />
      </section>
      <div class="with-feed">
        <div>
          <section>
            <h2 class="section-title">Health</h2>
            <Health instance={i} />
          </section>
          <section>
            <h2 class="section-title">Files and certificates</h2>
            <Files files={i.files} />
          </section>
          {machine && (
            <section>
              <h2 class="section-title">Host machine</h2>
              <MachineFacts machine={machine.machine} />
            </section>
          )}
          <section>
            <h2 class="section-title">Decisions about it</h2>
            {explained ? <Decisions shard={shard} next={next} past={mine} /> : <Loading what="the decisions" />}
          </section>
          <section>
            <h2 class="section-title">Conditions</h2>
            <Conditions shard={shard} all={conditions} />
          </section>
        </div>
        <Feed filter={own} title="Events" own />
      </div>
    </>
  );
}

function Sentence({ instance: i }: { instance: Instance }) {
  if (i.condemned) {
    return (
      <>
        It is {lookOf(i.status).label} and will be deleted <Ago at={i.condemned.deleteAt} none="soon" />: {why(i.condemned.reason)}.
      </>
    );
  }
  if (i.hold) {
    return (
      <>
        It is {lookOf(i.status).label} and on hold for {i.hold.reason}; the hold ends <Ago at={i.hold.until} />.
      </>
    );
  }
  return (
    <>
      It is {lookOf(i.status).label}, and was created <Ago at={i.createdAt} />.
    </>
  );
}

function Bar({ name, percent }: { name: string; percent: number | undefined }) {
  if (percent === undefined) return null;
  const n = Math.max(0, Math.min(100, percent));
  return (
    <div class="meter">
      <span>{name}</span>
      <span class="meter-track" role="meter" aria-label={name} aria-valuenow={Math.round(n)} aria-valuemin={0} aria-valuemax={100}>
        <i style={{ width: `${n}%` }} />
      </span>
      <span class="figures">{Math.round(n)} %</span>
    </div>
  );
}

function Health({ instance: i }: { instance: Instance }) {
  const facts: [string, preact.ComponentChildren][] = [
    ["Heard of", <Ago at={i.lastSeen} none="not yet in this term" />],
    ["Age", <Lasts at={i.createdAt} />],
    ["Instance type", i.instanceType],
    ["Addresses", i.addresses?.join(", ")],
    ["Host name", i.hostname],
    ["Provider's id", i.providerInstanceId],
    ["Template", i.template],
    ["Agent", i.agentVersion],
    ["On demand", i.onDemand ? "yes: it is not counted in the group's size" : undefined],
  ];
  return (
    <>
      {(i.cpuUsage !== undefined || i.memoryUsage !== undefined) && (
        <div class="meters">
          <Bar name="CPU" percent={i.cpuUsage} />
          <Bar name="Memory" percent={i.memoryUsage} />
        </div>
      )}
      <dl class="facts">
        {facts
          .filter(([, value]) => value)
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
    </>
  );
}
