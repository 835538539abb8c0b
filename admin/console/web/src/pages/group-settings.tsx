import { span, duration } from "../format/time";
import type { Group } from "../model/types";

/** The settings of a group after all layers were merged. */
export function GroupSettings({ group: g }: { group: Group }) {
  const drain = span(g.drainTimeout);
  const facts: [string, string | undefined][] = [
    ["Set by", g.isStatic ? "the configuration file; the API may change size, types and vars" : "the API"],
    ["Template", g.template],
    ["Kind", [g.kind, g.arch].filter(Boolean).join(" · ")],
    ["Instance type", g.instanceTypes?.length ? g.instanceTypes.join(", then ") : g.instanceType],
    ["Place", [g.provider, g.region, g.zone].filter(Boolean).join(" · ")],
    ["Subnet pool", g.subnetPool],
    ["Load balancers", g.loadBalancers?.join(", ")],
    ["Drain time", drain ? duration(drain) : "none"],
    ["Spot", g.interruptible ? "yes: the provider may take instances back" : "no"],
    ["One instance", Object.entries(g.capacity ?? {}).map(([k, v]) => `${v} ${k}`).join(", ")],
    ["Manager", g.manager],
  ];
  const vars = Object.entries(g.vars ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
  return (
    <section>
      <h2 class="section-title">Settings</h2>
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
      {vars.length > 0 && (
        <>
          <h3 class="minor-title">Vars</h3>
          <dl class="facts mono-values">
            {vars.map(([name, value]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{value}</dd>
              </div>
            ))}
          </dl>
        </>
      )}
      <p class="after">
        <a href="/plan">Plan a configuration</a> to see what a change of it would cause.
      </p>
    </section>
  );
}
