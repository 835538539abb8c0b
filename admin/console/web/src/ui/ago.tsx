import { absolute, clock, duration, instant, relative } from "../format/time";
import { now } from "../live";
import type { Stamp } from "../model/types";

interface Props {
  at: Stamp | number | undefined;
  /** What stands where there is no time. */
  none?: string;
}

const millis = (at: Props["at"]) => (typeof at === "number" ? at : instant(at));

/** A time relative to now, with the absolute one as its title. */
export function Ago({ at, none = "–" }: Props) {
  const t = millis(at);
  if (t === undefined) return <span class="quiet">{none}</span>;
  return (
    <time dateTime={new Date(t).toISOString()} title={absolute(t)}>
      {relative(t, now.value)}
    </time>
  );
}

/** How long something has lasted, with its beginning as the title. */
export function Lasts({ at, none = "–" }: Props) {
  const t = millis(at);
  if (t === undefined) return <span class="quiet">{none}</span>;
  return (
    <time dateTime={new Date(t).toISOString()} title={absolute(t)}>
      {duration(now.value - t)}
    </time>
  );
}

/** A time of day, with the day as its title. */
export function At({ at }: Props) {
  const t = millis(at);
  if (t === undefined) return <span class="quiet">–</span>;
  return (
    <time dateTime={new Date(t).toISOString()} title={absolute(t)}>
      {clock(t)}
    </time>
  );
}
