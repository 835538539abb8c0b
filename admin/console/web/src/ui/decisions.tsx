import type { Condition, Decision } from "../model/types";
import { toneOf } from "../model/conditions";
import { Ago, Lasts } from "./ago";
import { InstanceLink } from "./link";

/** Decisions with their reasons, those that are still to be carried out first. */
export function Decisions({ shard, next, past }: { shard: string; next: Decision[]; past: Decision[] }) {
  if (next.length + past.length === 0) return <p class="quiet">Nothing was decided yet in this term: the group is as it should be.</p>;
  return (
    <ol class="decisions">
      {next.map((d, i) => (
        <Line key={`next-${i}`} shard={shard} decision={d} ahead />
      ))}
      {past.map((d, i) => (
        <Line key={`${d.time}-${d.instanceId}-${i}`} shard={shard} decision={d} />
      ))}
    </ol>
  );
}

function Line({ shard, decision: d, ahead }: { shard: string; decision: Decision; ahead?: boolean }) {
  return (
    <li class={ahead ? "ahead" : undefined}>
      <span class="decision-when">{ahead ? d.notBefore ? <Ago at={d.notBefore} /> : "next" : <Ago at={d.time} />}</span>
      <span class={`action action-${known.has(d.action ?? "") ? d.action : "other"}`}>{d.action}</span>
      <span class="decision-what">
        {d.instanceId && <InstanceLink shard={shard} id={d.instanceId} />} {d.reason}
        {d.heldBy && <span class="flag tone-leave">blocked by {d.heldBy}</span>}
      </span>
    </li>
  );
}

const known = new Set(["create", "condemn", "delete", "push", "replace"]);

/** Conditions in force. */
export function Conditions({ shard, all }: { shard: string; all: Condition[] }) {
  if (all.length === 0) return <p class="quiet">None: nothing holds it back.</p>;
  return (
    <ul class="conditions">
      {all.map((c, i) => (
        <li key={i} class={`edge-${toneOf(c.type)}`}>
          <b>{c.type}</b>
          <p>{c.message}</p>
          <p class="quiet small">
            {c.since && (
              <>
                for <Lasts at={c.since} />
              </>
            )}
            {c.until && (
              <>
                {" "}
                · ends <Ago at={c.until} />
              </>
            )}
            {c.instanceId && (
              <>
                {" "}
                · <InstanceLink shard={shard} id={c.instanceId} />
              </>
            )}
          </p>
        </li>
      ))}
    </ul>
  );
}
