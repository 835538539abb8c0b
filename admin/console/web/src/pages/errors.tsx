import { fleet, ready, ticks } from "../live";
import { things } from "../format/number";
import { Ago } from "../ui/ago";
import { InstanceLink } from "../ui/link";
import { Empty, Loading } from "../ui/states";
import { useTitle } from "../ui/use";

const remedies: Record<string, string> = {
  throttled: "The provider slows the calls down. They are tried again by themselves; fewer at once helps.",
  capacity: "The provider has no room for this machine type. Name further ones in instance_types.",
  quota: "A quota of the account is used up. Ask the provider for more, or make a group smaller.",
  invalid: "The provider refuses the request. Correct the group's args, template or subnet pool.",
  auth: "The credentials of the server are refused. Renew them, or give them the permission.",
  "not-found-ref": "Something that the configuration names does not exist at the provider: an image, a subnet, a load balancer.",
  transient: "It is tried again by itself.",
  ambiguous: "Whether the call arrived is not known. The next listing says; nothing is created twice.",
};

/** What went wrong lately, newest first, each with what helps. */
export function ErrorsPage() {
  useTitle("Errors");
  void ticks.failures.value;
  const all = fleet.failures;
  if (!ready.value && all.length === 0) return <Loading what="the errors" />;
  return (
    <>
      <header class="page-head">
        <p class="eyebrow">Errors</p>
        <h1>{all.length === 0 ? "Nothing went wrong." : `${things(all.length, "error")} since the console began.`}</h1>
      </header>
      {all.length === 0 ? (
        <Empty title="No error was reported">What a provider refuses, and what a server cannot carry out, shows here as it happens.</Empty>
      ) : (
        <ol class="failures">
          {all.map((f) => (
            <li key={f.serial}>
              <p class="failure-head">
                <b class="flag tone-bad">{f.class || "error"}</b>
                <span>
                  {f.shard}
                  {f.group && <> · {f.group}</>}
                  {f.instanceId && (
                    <>
                      {" "}
                      · <InstanceLink shard={f.shard} id={f.instanceId} />
                    </>
                  )}
                </span>
                <span class="quiet">
                  <Ago at={f.at} />
                </span>
              </p>
              <p class="failure-text">{f.error}</p>
              {f.class && remedies[f.class] && <p class="quiet">{remedies[f.class]}</p>}
            </li>
          ))}
        </ol>
      )}
    </>
  );
}
