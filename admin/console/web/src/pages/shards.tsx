import { latency, count, num, things } from "../format/number";
import { instant } from "../format/time";
import { fleet, now, ready, ticks } from "../live";
import type { Shard } from "../model/fleet";
import { countsOf, headline, sum } from "../model/summary";
import type { CallStats } from "../model/types";
import { Ago, Lasts } from "../ui/ago";
import { Empty, Loading } from "../ui/states";
import { useTitle } from "../ui/use";

/** The shards: who leads them, and how their storage and provider answer. */
export function ShardsPage() {
  useTitle("Shards");
  void [ticks.shards.value, ticks.fleet.value];
  const shards = [...fleet.shards.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  if (shards.length === 0) return ready.value ? <Empty title="No shard is known">The identity names no shard.</Empty> : <Loading what="the shards" />;
  const lost = shards.filter((s) => !s.connected).length;
  return (
    <>
      <header class="page-head">
        <p class="eyebrow">Shards</p>
        <h1>{lost === 0 ? `${things(shards.length, "shard")}, each with a leader.` : `${count(lost)} of ${things(shards.length, "shard")} not reachable.`}</h1>
      </header>
      {shards.map((s) => (
        <ShardPanel key={s.name} shard={s} />
      ))}
    </>
  );
}

function ShardPanel({ shard: s }: { shard: Shard }) {
  const { info } = s;
  const total = sum([...fleet.groups.values()].filter((g) => g.shard === s.name).map(countsOf));
  const renewed = instant(info.lease?.renewedAt);
  const expires = instant(info.lease?.expiresAt);
  return (
    <section class="panel shard" aria-label={`Shard ${s.name}`}>
      <div class="shard-head">
        <h2>{s.name}</h2>
        <span class={`link link-${s.connected ? "live" : "lost"}`}>
          <i aria-hidden="true" />
          <span>
            {s.connected ? "connected" : "not reachable"} {s.since !== undefined && <>for <Lasts at={s.since} /></>}
          </span>
        </span>
      </div>
      {!s.connected && <p class="warn">{s.error || "No reason is known."}</p>}
      <p>{headline(total)}</p>
      <dl class="facts">
        <div>
          <dt>Leader</dt>
          <dd class="mono">{s.leader || "–"}</dd>
        </div>
        <div>
          <dt>Term</dt>
          <dd class="figures">
            {num(info.term) || "–"}
            {info.leadingSince && (
              <span class="quiet">
                {" "}
                for <Lasts at={info.leadingSince} />
              </span>
            )}
          </dd>
        </div>
        {renewed !== undefined && (
          <div>
            <dt>Lease</dt>
            <dd>
              renewed <Ago at={renewed} />
              {expires !== undefined && <LeaseBar renewed={renewed} expires={expires} />}
            </dd>
          </div>
        )}
        <div>
          <dt>Version</dt>
          <dd class="mono">{info.version || "–"}</dd>
        </div>
      </dl>
      {info.storage?.length || info.providerCalls?.length ? (
        <div class="two">
          <Calls title="Storage" calls={info.storage ?? []} />
          <Calls title="Provider" calls={info.providerCalls ?? []} />
        </div>
      ) : (
        <p class="quiet small">
          {info.administrator === false || !info.administrator ? "Lease, storage and provider calls are shown to administrators of the cluster." : "No call was made yet in this term."}
        </p>
      )}
    </section>
  );
}

/** How much of the lease is left. */
function LeaseBar({ renewed, expires }: { renewed: number; expires: number }) {
  const whole = Math.max(1, expires - renewed);
  const left = Math.max(0, Math.min(1, (expires - now.value) / whole));
  return (
    <span class="meter-track lease" role="meter" aria-label="What is left of the lease, percent" aria-valuenow={Math.round(left * 100)} aria-valuemin={0} aria-valuemax={100}>
      <i style={{ width: `${left * 100}%` }} />
    </span>
  );
}

function Calls({ title, calls }: { title: string; calls: CallStats[] }) {
  const slowest = Math.max(0.001, ...calls.map((c) => c.p99Seconds ?? 0));
  if (calls.length === 0) return null;
  return (
    <div class="calls">
      <h3 class="minor-title">{title}</h3>
      <table>
        <caption class="unseen">{title}: calls since the leader began</caption>
        <thead>
          <tr>
            <th scope="col">Call</th>
            <th scope="col" class="right">
              Count
            </th>
            <th scope="col" class="right">
              p50
            </th>
            <th scope="col" class="right">
              p99
            </th>
            <th scope="col">
              <span class="unseen">p99 beside the slowest</span>
            </th>
            <th scope="col" class="right">
              Errors
            </th>
            <th scope="col" class="right">
              Throttled
            </th>
          </tr>
        </thead>
        <tbody>
          {calls.map((c) => (
            <tr key={c.operation}>
              <th scope="row" class="mono">
                {c.operation}
              </th>
              <td class="right figures">{count(num(c.calls))}</td>
              <td class="right figures">{latency(c.p50Seconds ?? 0)}</td>
              <td class="right figures">{latency(c.p99Seconds ?? 0)}</td>
              <td class="bar-cell">
                <span class="bar" aria-hidden="true">
                  <i style={{ width: `${((c.p99Seconds ?? 0) / slowest) * 100}%` }} />
                </span>
              </td>
              <td class={`right figures ${num(c.errors) ? "warn" : "quiet"}`}>{count(num(c.errors))}</td>
              <td class={`right figures ${num(c.throttled) ? "warn" : "quiet"}`}>{count(num(c.throttled))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
