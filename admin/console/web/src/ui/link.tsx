import { groupId, type GroupEntry } from "../model/fleet";
import { hrefOf } from "../model/route";
import { short } from "../model/tell";

/** A link to a group. */
export function GroupLink({ shard, tenant, group }: { shard: string; tenant: string | undefined; group: string }) {
  return (
    <a href={hrefOf({ page: "group", shard, tenant: tenant ?? "", group })} key={groupId(shard, tenant, group)}>
      {group}
    </a>
  );
}

export const entryHref = (entry: GroupEntry, key: string, tenant: string): string =>
  hrefOf({ page: "group", shard: entry.shard, tenant, group: key });

/** A link to an instance, by its whole id or the end of it. */
export function InstanceLink({ shard, id, whole }: { shard: string; id: string; whole?: boolean }) {
  return (
    <a class="mono" href={hrefOf({ page: "instance", shard, id })} title={whole ? undefined : id}>
      {whole ? id : short(id)}
    </a>
  );
}
