import { useEffect, useMemo, useRef } from "preact/hooks";
import { fleet, ready, ticks } from "../live";
import type { Happening } from "../model/fleet";
import { eventLook, tell, worthTelling } from "../model/tell";
import { things } from "../format/number";
import { announce } from "./announce";
import { Ago } from "./ago";
import { InstanceLink } from "./link";
import { Mark } from "./shapes";

interface Props {
  /** Events to leave out. */
  filter?: (e: Happening) => boolean;
  title?: string;
  most?: number;
  /** They are all about one instance, which need not be named. */
  own?: boolean;
}

/** What happened lately, newest first. It is no live region: a summary is announced now and then. */
export function Feed({ filter, title = "What happens", most = 40, own }: Props) {
  const version = ticks.events.value;
  const events = useMemo(() => fleet.events.filter((e) => worthTelling(e) && (filter?.(e) ?? true)).slice(0, most), [version, filter, most]);
  const newest = events[0]?.serial ?? 0;
  const told = useRef(newest);
  useEffect(() => {
    if (!ready.peek()) {
      told.current = newest;
      return;
    }
    const fresh = events.filter((e) => e.serial > told.current);
    const last = fresh[0];
    told.current = newest;
    if (last) announce(fresh.length === 1 ? `${last.group}: an instance ${tell(last)}` : `${things(fresh.length, "change")}; the last in ${last.group}: an instance ${tell(last)}`);
  }, [newest]);
  return (
    <aside class="feed" aria-label={title}>
      <h2 class="section-title">{title}</h2>
      {events.length === 0 ? (
        <p class="quiet">Nothing yet. Creates, replacements and deletions show here as they happen.</p>
      ) : (
        <ol>
          {events.map((e) => (
            <li key={e.serial}>
              <Mark status={eventLook(e)?.status} />
              <div>
                <p>
                  {!own && <InstanceLink shard={e.shard} id={e.instanceId ?? ""} />} {tell(e)}
                </p>
                <p class="quiet small">
                  {!own && `${e.group} · `}
                  <Ago at={e.at} />
                </p>
              </div>
            </li>
          ))}
        </ol>
      )}
    </aside>
  );
}
