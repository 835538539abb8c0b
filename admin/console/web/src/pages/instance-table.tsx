import { useMemo, useState } from "preact/hooks";
import { orderOf, why } from "../model/state";
import type { Instance } from "../model/types";
import { Ago, Lasts } from "../ui/ago";
import { InstanceLink } from "../ui/link";
import { Status } from "../ui/shapes";
import { Table, type Column } from "../ui/table";

const percent = (n: number | undefined) => (n === undefined ? <span class="quiet">–</span> : `${Math.round(n)} %`);

const columnsFor = (shard: string): Column<Instance>[] => [
  { name: "Instance", width: "minmax(15rem, 1.6fr)", cell: (i) => <InstanceLink shard={shard} id={i.instanceId} whole /> },
  { name: "State", width: "9rem", cell: (i) => <Status status={i.status} /> },
  { name: "Age", width: "5.5rem", cell: (i) => <Lasts at={i.createdAt} />, right: true },
  { name: "Heard of", width: "6.5rem", cell: (i) => <Ago at={i.lastSeen} none="never" />, right: true },
  { name: "CPU", width: "4.5rem", cell: (i) => percent(i.cpuUsage), right: true },
  { name: "Memory", width: "5rem", cell: (i) => percent(i.memoryUsage), right: true },
  { name: "Address", width: "minmax(8rem, 0.8fr)", cell: (i) => <span class="mono">{i.addresses?.[0] ?? ""}</span> },
  {
    name: "Remark",
    width: "minmax(10rem, 1.4fr)",
    cell: (i) => (i.condemned ? `leaves: ${why(i.condemned.reason)}` : i.hold ? `on hold: ${i.hold.reason}` : i.onDemand ? "on demand" : ""),
  },
];

/** The instances of a group; what needs a look stands first. */
export function InstanceTable({ shard, instances }: { shard: string; instances: readonly Instance[] }) {
  const columns = useMemo(() => columnsFor(shard), [shard]);
  const [text, setText] = useState("");
  const rows = useMemo(() => {
    const sought = text.trim().toLowerCase();
    const fits = (i: Instance) =>
      sought === "" || [i.instanceId, i.status, i.hostname, i.providerInstanceId, ...(i.addresses ?? [])].some((s) => s?.toLowerCase().includes(sought));
    return instances.filter(fits).sort((a, b) => orderOf(a.status) - orderOf(b.status) || ((a.createdAt ?? "") < (b.createdAt ?? "") ? -1 : 1));
  }, [instances, text]);
  return (
    <>
      {instances.length > 8 && (
        <input
          class="filter"
          type="search"
          aria-label="Show instances with this in their id, state, host name or address"
          placeholder="Filter by id, state, host or address"
          value={text}
          onInput={(e) => setText(e.currentTarget.value)}
        />
      )}
      <Table label="Instances" columns={columns} rows={rows} rowKey={(i) => i.instanceId} />
      {rows.length === 0 && <p class="quiet">None fits.</p>}
    </>
  );
}
