import { useMemo } from "preact/hooks";
import type uPlot from "uplot";
import { history } from "../api";
import { count } from "../format/number";
import { clock } from "../format/time";
import { series } from "../model/history";
import { Chart, type Line } from "./chart";
import { Failed, Loading } from "./states";
import { useLoaded } from "./use";

const lines: Line[] = [
  { name: "running", tone: "run", area: true },
  { name: "starting", tone: "start" },
  { name: "leaving", tone: "leave" },
  { name: "wanted", tone: "ink", dashed: true },
];

/** The size of a group since the console began. */
export function SizeChart({ shard, tenant, group, version }: { shard: string; tenant: string; group: string; version: number }) {
  const loaded = useLoaded(() => history(shard, group, tenant), `${shard}/${tenant}/${group}`, version, 1_000);
  const samples = loaded.value?.samples;
  const s = useMemo(() => samples && series(samples, Date.now()), [samples]);
  const data = useMemo((): uPlot.AlignedData | undefined => s && [s.t, s.running, s.starting, s.leaving, s.wanted], [s]);
  if (loaded.error && !samples) return <Failed error={loaded.error} onRetry={loaded.again} />;
  if (!s || !data) return <Loading what="the history" />;
  const first = s.t[0];
  if (first === undefined) return <p class="quiet">No change was seen since the console began.</p>;
  const last = s.running.length - 1;
  const label = `Since ${clock(first * 1000)}: from ${count(s.running[0] ?? 0)} to ${count(s.running[last] ?? 0)} running, ${count(s.wanted[last] ?? 0)} wanted`;
  return <Chart label={label} lines={lines} data={data} height={220} />;
}
