import { absolute, duration, relative } from "../format/time";
import { now } from "../live";
import { spread, steps, type Step } from "../model/life";
import type { Instance } from "../model/types";

/** The life of an instance from its creation to now, or to its end. */
export function Lifeline({ instance }: { instance: Instance }) {
  const t = now.value;
  const past = steps(instance);
  const all: Step[] = [...past.filter((s) => s.at <= t), { name: "now", at: t, tone: "ink" }, ...past.filter((s) => s.at > t)];
  const places = spread(all.map((s) => s.at), 0.13);
  const at = (i: number) => `${((places[i] as number) * 100).toFixed(2)}%`;
  return (
    <div class="lifeline">
      <div class="lifeline-track" aria-hidden="true">
        {all.slice(1).map((s, i) => (
          <i
            key={i}
            class={`tone-${all[i]?.tone === "ink" ? "off" : all[i]?.tone} ${s.at > t ? "ahead" : ""}`}
            style={{ left: at(i), width: `${(((places[i + 1] as number) - (places[i] as number)) * 100).toFixed(2)}%` }}
          />
        ))}
      </div>
      <ol>
        {all.map((s, i) => (
          <li key={`${s.name}-${i}`} class={s.name === "now" ? "now" : undefined} style={{ left: at(i) }}>
            <i class={`dot tone-${s.tone}`} aria-hidden="true" />
            <b>{s.name}</b>
            {s.name !== "now" && (
              <time dateTime={new Date(s.at).toISOString()} title={absolute(s.at)}>
                {relative(s.at, t)}
              </time>
            )}
            {s.name !== "now" && i > 0 && all[i - 1] && s.at <= t && <span class="quiet">+{duration(s.at - (all[i - 1] as Step).at)}</span>}
            {s.note && <span class="quiet">{s.note}</span>}
          </li>
        ))}
      </ol>
    </div>
  );
}
