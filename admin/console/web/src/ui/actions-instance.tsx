import { useState } from "preact/hooks";
import { drained, may, remove, replace } from "../api";
import type { Group, Instance } from "../model/types";
import { Ask } from "./ask";

type Open = "replace" | "delete" | "drained" | undefined;

interface Props {
  shard: string;
  instance: Instance;
  group: Group | undefined;
}

/** What may be done to an instance, where the server allows it. */
export function InstanceActions({ shard, instance, group }: Props) {
  const [open, setOpen] = useState<Open>(undefined);
  const close = () => setOpen(undefined);
  const id = instance.instanceId;
  const leaving = instance.condemned !== undefined;
  return (
    <div class="actions">
      {may("drained") && leaving && (
        <button type="button" onClick={() => setOpen("drained")}>
          Acknowledge…
        </button>
      )}
      {may("replace") && !leaving && !instance.onDemand && group?.mode !== "demand" && (
        <button type="button" onClick={() => setOpen("replace")}>
          Replace…
        </button>
      )}
      {may("delete") && !leaving && (
        <button type="button" class="danger-quiet" onClick={() => setOpen("delete")}>
          Delete…
        </button>
      )}
      {open === "replace" && (
        <Ask title="Replace an instance" does="Replace it" ends act={() => replace(shard, id)} onClose={close}>
          <p>
            Another instance of <b>{instance.group}</b> is created. Once that has registered, <b class="mono">{id}</b> is drained and deleted.
          </p>
        </Ask>
      )}
      {open === "delete" && <Delete shard={shard} instance={instance} group={group} onClose={close} />}
      {open === "drained" && (
        <Ask title="Acknowledge the drain" does={`Delete it now`} ends act={() => drained(shard, id)} onClose={close}>
          <p>
            You say that the work has left <b class="mono">{id}</b>. It is deleted at once, without waiting for its deadline.
          </p>
        </Ask>
      )}
    </div>
  );
}

function Delete({ shard, instance, group, onClose }: Props & { onClose: () => void }) {
  const [decrement, setDecrement] = useState(false);
  const [skip, setSkip] = useState(false);
  const id = instance.instanceId;
  const managed = !instance.onDemand && group?.mode !== "demand";
  return (
    <Ask title="Delete an instance" does="Delete it" ends act={() => remove(shard, id, decrement, skip)} onClose={onClose}>
      <p class="warn">
        <b class="mono">{id}</b> of group <b>{instance.group}</b> ends{skip ? " at once, with the work on it" : ", after its drain time"}.{" "}
        {managed && !decrement && "Another one takes its place."}
        {decrement && `The group shrinks to ${Math.max(0, (group?.size ?? 1) - 1)}.`}
      </p>
      {managed && (
        <label class="tick">
          <input type="checkbox" checked={decrement} onChange={(e) => setDecrement(e.currentTarget.checked)} /> Make the group smaller by one
        </label>
      )}
      <label class="tick">
        <input type="checkbox" checked={skip} onChange={(e) => setSkip(e.currentTarget.checked)} /> Do not wait for its work to leave
      </label>
    </Ask>
  );
}
