import { useMemo } from "preact/hooks";
import { things } from "../format/number";
import { fleet, ready, ticks } from "../live";
import type { MachineState } from "../model/types";
import { Ago, Lasts } from "../ui/ago";
import { InstanceLink } from "../ui/link";
import { Mark } from "../ui/shapes";
import { Empty, Loading } from "../ui/states";
import { Table, type Column } from "../ui/table";
import { useTitle } from "../ui/use";
import { versionName, word } from "./machine-facts";

interface Row {
  shard: string;
  id: string;
  machine: MachineState;
}

const order = ["failed", "fetch", "build", "guard", "retire", "boot", "join", "commit", "sweep", "resetting", "idle", "running", "reset"];
const stageOf = (m: MachineState) => word(m.status?.stage, "MACHINE_STAGE");

/** The state of instances that looks like a stage. */
function statusOf(m: MachineState): string {
  if (!m.connected) return "unknown";
  const stage = stageOf(m);
  if (stage === "failed") return "unhealthy";
  if (stage === "running") return "running";
  return stage === "idle" || stage === "reset" ? "powered-off" : "provisioning";
}

const remark = (m: MachineState): string => m.status?.failure?.message ?? m.status?.lastError ?? m.status?.problems?.[0]?.message ?? m.status?.progress?.what ?? "";

const columns: Column<Row>[] = [
  { name: "Machine", width: "minmax(7rem, 1fr)", cell: (r) => r.machine.assignment?.machineName ?? <span class="quiet">none assigned</span> },
  { name: "Instance", width: "minmax(13.5rem, 1.2fr)", cell: (r) => <InstanceLink shard={r.shard} id={r.id} whole /> },
  {
    name: "Stage",
    width: "9rem",
    cell: (r) => (
      <span class="status">
        <Mark status={statusOf(r.machine)} /> {r.machine.connected ? stageOf(r.machine) || "not said" : "not connected"}
      </span>
    ),
  },
  { name: "For", width: "5rem", cell: (r) => <Lasts at={r.machine.status?.stageStartedAt} />, right: true },
  { name: "Is to run", width: "minmax(5rem, 0.7fr)", cell: (r) => versionName(r.machine.assignment?.configuration) },
  { name: "Runs", width: "minmax(5rem, 0.7fr)", cell: (r) => versionName(r.machine.status?.slots?.find((s) => s.name === r.machine.status?.activeSlot)?.configuration) },
  { name: "Reported", width: "6.5rem", cell: (r) => <Ago at={r.machine.reportedAt} />, right: true },
  { name: "Remark", width: "minmax(12rem, 2fr)", cell: (r) => <span title={remark(r.machine)}>{remark(r.machine)}</span> },
];

/** The host machines: what is built on them and how far it is. */
export function MachinesPage() {
  useTitle("Host machines");
  const version = ticks.machines.value;
  const rows = useMemo(
    () =>
      [...fleet.machines.values()].sort(
        (a, b) => order.indexOf(stageOf(a.machine)) - order.indexOf(stageOf(b.machine)) || (a.id < b.id ? -1 : 1),
      ),
    [version],
  );
  if (!ready.value && rows.length === 0) return <Loading what="the host machines" />;
  const failed = rows.filter((r) => statusOf(r.machine) === "unhealthy").length;
  const busy = rows.filter((r) => statusOf(r.machine) === "provisioning").length;
  const silent = rows.filter((r) => !r.machine.connected).length;
  const parts = [failed && `${failed} failed`, busy && `${busy} being built`, silent && `${silent} not connected`].filter(Boolean);
  return (
    <>
      <header class="page-head">
        <p class="eyebrow">Host machines</p>
        <h1>{rows.length === 0 ? "No host machine reports." : `${things(rows.length, "host machine")}${parts.length ? `: ${parts.join(", ")}` : ", all as assigned"}.`}</h1>
      </header>
      {rows.length === 0 ? (
        <Empty title="No instance has a node machine">
          Host machines show here once a template has a machine section, or an agent reports one. They are built from versioned configurations, and what goes on shows live.
        </Empty>
      ) : (
        <Table label="Host machines" columns={columns} rows={rows} rowKey={(r) => `${r.shard}/${r.id}`} />
      )}
    </>
  );
}
