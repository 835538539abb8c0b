import { useMemo } from "preact/hooks";
import { explainGroup } from "../api";
import { count, things } from "../format/number";
import { fleet, ready, ticks } from "../live";
import { groupId, type GroupEntry } from "../model/fleet";
import { countsOf, doing, headline, of, running } from "../model/summary";
import { GroupActions } from "../ui/actions-group";
import { Conditions, Decisions } from "../ui/decisions";
import { Failed, Empty, Loading } from "../ui/states";
import { SizeChart } from "../ui/size-chart";
import { Tiles } from "../ui/tiles";
import { useLoaded, useTitle } from "../ui/use";
import { Flags } from "./fleet";
import { GroupSettings } from "./group-settings";
import { InstanceTable } from "./instance-table";

interface Props {
  shard: string;
  tenant: string;
  group: string;
}

/** One group: its size over time, its instances, what was decided and why. */
export function GroupPage({ shard, tenant, group: key }: Props) {
  useTitle(key);
  void ticks.fleet.value;
  const entry = fleet.groups.get(groupId(shard, tenant, key));
  if (!entry) {
    if (!ready.value) return <Loading what={`group ${key}`} />;
    return (
      <Empty page title={`There is no group ${key}`}>
        Shard {shard} has none of this name for tenant {tenant}, or it was deleted. <a href="/">Back to the fleet</a>
      </Empty>
    );
  }
  return <Known entry={entry} version={entry.version} group={key} tenant={tenant} />;
}

function Known({ entry, version, group: key, tenant }: { entry: GroupEntry; version: number; group: string; tenant: string }) {
  const { shard, group } = entry;
  const counts = useMemo(() => countsOf(entry), [entry, version]);
  const explained = useLoaded((signal) => explainGroup(shard, key, signal), entry.id, version, 2_000);
  const instances = useMemo(() => [...entry.instances.values()].sort((a, b) => ((a.createdAt ?? "") < (b.createdAt ?? "") ? -1 : 1)), [entry, version]);
  const staying = of(counts, "running", "powered-off", "pending", "provisioning", "unhealthy", "unknown");
  const ghosts = group?.mode === "demand" ? 0 : Math.min(200, Math.max(0, counts.wanted - staying));
  const conditions = explained.value?.conditions ?? group?.conditions ?? [];
  const parts = doing(counts);
  return (
    <>
      <header class="page-head">
        <p class="eyebrow">
          <a href="/">Fleet</a> / {shard} / {tenant}
        </p>
        <div class="head-row">
          <h1>{key}</h1>
          {group && <GroupActions entry={entry} group={group} counts={counts} />}
        </div>
        <p class="lead">{headline(counts)}</p>
        <Flags entry={entry} />
      </header>
      {group?.pause && (
        <div class="notice">
          <p>
            Paused ({group.pause.scope}): {group.pause.reason}. Nothing is created, deleted or replaced meanwhile; decisions are still made and shown below.
          </p>
        </div>
      )}
      <section class="panel" aria-label="Tiles">
        <Tiles
          entry={entry}
          instances={instances}
          ghosts={ghosts}
          label={`${count(running(counts))} of ${count(counts.wanted)} running${parts.length ? `, ${parts.join(", ")}` : ""}`}
        />
      </section>
      <div class="two">
        <section>
          <h2 class="section-title">Size over time</h2>
          <SizeChart shard={shard} tenant={tenant} group={key} version={version} />
        </section>
        <section>
          <h2 class="section-title">Conditions</h2>
          <Conditions shard={shard} all={conditions} />
        </section>
      </div>
      <section>
        <h2 class="section-title">Decisions</h2>
        {explained.error && !explained.value && <Failed error={explained.error} onRetry={explained.again} />}
        {!explained.value && !explained.error && <Loading what="the decisions" />}
        {explained.value && <Decisions shard={shard} next={explained.value.next ?? []} past={(explained.value.decisions ?? []).slice(0, 50)} />}
      </section>
      <section>
        <h2 class="section-title">{things(instances.length, "instance")}</h2>
        {instances.length === 0 ? <p class="quiet">It has none now.</p> : <InstanceTable shard={shard} instances={instances} />}
      </section>
      {group && <GroupSettings group={group} />}
    </>
  );
}
