import { useState } from "preact/hooks";
import { plan } from "../api";
import { count, things } from "../format/number";
import { fleet, ticks } from "../live";
import type { GroupPlan, Plan } from "../model/types";
import { GroupLink } from "../ui/link";
import { Failed } from "../ui/states";
import { useTitle } from "../ui/use";

const signs: Record<string, string> = { added: "+", changed: "~", removed: "−" };

/** What a configuration would cause, before anybody uses it. */
export function PlanPage() {
  useTitle("Plan");
  void ticks.shards.value;
  const shards = [...fleet.shards.keys()].sort();
  const [shard, setShard] = useState("");
  const [text, setText] = useState("");
  const [state, setState] = useState<{ plan?: Plan; error?: Error; busy?: boolean; shard?: string }>({});
  const chosen = shards.includes(shard) ? shard : (shards[0] ?? "");
  const run = async () => {
    setState({ busy: true });
    try {
      setState({ plan: await plan(chosen, text), shard: chosen });
    } catch (e) {
      setState({ error: e instanceof Error ? e : new Error(String(e)) });
    }
  };
  return (
    <>
      <header class="page-head">
        <p class="eyebrow">Plan</p>
        <h1>See what a configuration would do.</h1>
        <p class="lead">Paste the configuration file of a shard, or drop it here. Nothing is changed.</p>
      </header>
      <form
        class="plan-form"
        onSubmit={(e) => {
          e.preventDefault();
          void run();
        }}
        onDragOver={(e) => e.preventDefault()}
        onDrop={(e) => {
          const file = e.dataTransfer?.files[0];
          if (!file) return;
          e.preventDefault();
          void file.text().then(setText);
        }}
      >
        <textarea
          aria-label="Configuration, JSONC"
          class="mono"
          rows={14}
          spellcheck={false}
          placeholder={"{\n  // the whole file: server, tenants, templates, groups\n}"}
          value={text}
          onInput={(e) => setText(e.currentTarget.value)}
        />
        <div class="plan-foot">
          {shards.length > 1 && (
            <label class="choice">
              Shard
              <select value={chosen} onChange={(e) => setShard(e.currentTarget.value)}>
                {shards.map((s) => (
                  <option key={s} value={s}>
                    {s}
                  </option>
                ))}
              </select>
            </label>
          )}
          <button type="submit" class="primary" disabled={text.trim() === "" || chosen === "" || state.busy}>
            {state.busy ? "Planning…" : `Plan for ${chosen || "a shard"}`}
          </button>
        </div>
      </form>
      <div aria-live="polite">
        {state.error && <Failed error={state.error} />}
        {state.plan && <Result plan={state.plan} shard={state.shard ?? ""} />}
      </div>
    </>
  );
}

function Result({ plan: p, shard }: { plan: Plan; shard: string }) {
  const groups = p.groups ?? [];
  const total = (of: (g: GroupPlan) => number | undefined) => groups.reduce((n, g) => n + (of(g) ?? 0), 0);
  const ends = total((g) => g.deletes) + total((g) => g.rotations);
  return (
    <section aria-label="What it would cause">
      <h2 class="section-title">What it would cause</h2>
      {groups.length === 0 ? (
        <p class="plan-sum">Nothing: the groups stay as they are.</p>
      ) : (
        <p class="plan-sum">
          {things(groups.length, "group")} {groups.length === 1 ? "changes" : "change"}: {count(total((g) => g.creates))} to create, {count(total((g) => g.pushes))} to update in place,{" "}
          {count(total((g) => g.rotations))} to replace, {count(total((g) => g.deletes))} to delete. {ends === 0 ? "No machine ends." : <b>{things(ends, "machine")} would end.</b>}
        </p>
      )}
      <ol class="diff">
        {groups.map((g) => (
          <li key={`${g.tenant}/${g.key}`} class={`diff-${g.change}`}>
            <span class="diff-sign" aria-hidden="true">
              {signs[g.change ?? ""] ?? "~"}
            </span>
            <div>
              <p>
                <b>{g.change === "added" ? g.key : <GroupLink shard={shard} tenant={g.tenant} group={g.key ?? ""} />}</b> <span class="quiet">{g.tenant} · {g.change}</span>
              </p>
              <ul class="diff-lines mono">
                {line("+", g.creates, "create")}
                {line("~", g.pushes, "update in place")}
                {line("±", g.rotations, "replace, one after another")}
                {line("−", g.deletes, "delete")}
              </ul>
              {(g.causes?.length ?? 0) > 0 && <p class="quiet small">because of {g.causes?.join(", ")}</p>}
            </div>
          </li>
        ))}
      </ol>
      {(p.warnings?.length ?? 0) > 0 && (
        <div class="notice">
          {p.warnings?.map((w, i) => (
            <p key={i}>{w}</p>
          ))}
        </div>
      )}
    </section>
  );
}

const kinds: Record<string, string> = { "+": "add", "~": "push", "±": "rotate", "−": "remove" };

function line(sign: string, n: number | undefined, what: string) {
  if (!n) return null;
  return (
    <li class={`effect-${kinds[sign]}`}>
      {sign} {things(n, "machine")} to {what}
    </li>
  );
}
