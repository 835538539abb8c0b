import { useState } from "preact/hooks";
import { confirm, may, pause, resume, scale } from "../api";
import { count, things } from "../format/number";
import type { GroupEntry } from "../model/fleet";
import type { Counts } from "../model/summary";
import type { Group } from "../model/types";
import { Ask } from "./ask";

type Open = "scale" | "pause" | "resume" | "confirm" | undefined;

interface Props {
  entry: GroupEntry;
  group: Group;
  counts: Counts;
}

/** What may be done to a group, where the server allows it. */
export function GroupActions({ entry, group, counts }: Props) {
  const [open, setOpen] = useState<Open>(undefined);
  const close = () => setOpen(undefined);
  const own = group.pause?.scope === "group";
  return (
    <div class="actions">
      {may("confirm") && group.rebuilt && (
        <button type="button" class="primary" onClick={() => setOpen("confirm")}>
          Confirm…
        </button>
      )}
      {may("scale") && group.mode !== "demand" && !group.deleting && (
        <button type="button" onClick={() => setOpen("scale")}>
          Scale…
        </button>
      )}
      {may("pause") && (
        <button type="button" onClick={() => setOpen(own ? "resume" : "pause")}>
          {own ? "Resume…" : "Pause…"}
        </button>
      )}
      {open === "scale" && <Scale entry={entry} group={group} counts={counts} onClose={close} />}
      {open === "pause" && <Pause entry={entry} group={group} onClose={close} />}
      {open === "resume" && (
        <Ask title={`Resume ${group.key}`} does="Resume" act={() => resume(entry.shard, group.key)} onClose={close}>
          <p>What was decided meanwhile is carried out at once: creates, replacements and deletions that are listed under Decisions.</p>
        </Ask>
      )}
      {open === "confirm" && (
        <Ask title={`Confirm ${group.key}`} does="Confirm the group" act={() => confirm(entry.shard, group.key)} onClose={close}>
          <p>
            What the API had set of this group was lost and rebuilt: {things(group.size ?? 0, "machine")} of {group.instanceType || "its type"}. After your word the server goes on with it.
          </p>
        </Ask>
      )}
    </div>
  );
}

function Scale({ entry, group, counts, onClose }: Props & { onClose: () => void }) {
  const was = group.size ?? 0;
  const [text, setText] = useState(String(was));
  const size = /^\d+$/.test(text.trim()) ? Number(text.trim()) : NaN;
  const valid = size >= 0 && size <= 10_000;
  const fewer = valid && size < was;
  return (
    <Ask
      title={`Scale ${group.key}`}
      does={fewer ? `End ${things(was - size, "machine")}` : "Scale"}
      ends={fewer}
      ready={valid && size !== was}
      act={() => scale(entry.shard, group.key, size, group.etag)}
      onClose={onClose}
    >
      <label class="field-label">
        Size, now {count(was)}
        <input type="number" min={0} max={10_000} step={1} inputMode="numeric" value={text} onInput={(e) => setText(e.currentTarget.value)} />
      </label>
      {!valid && <p class="warn">A whole number from 0 to 10,000.</p>}
      {valid && size > was && <p>{things(size - was, "machine")} will be created.</p>}
      {fewer && (
        <p class="warn">
          {things(was - size, "machine")} of {things(counts.all, "instance")} will be drained and deleted; the server chooses which. Work on them ends.
        </p>
      )}
    </Ask>
  );
}

function Pause({ entry, group, onClose }: Omit<Props, "counts"> & { onClose: () => void }) {
  const [reason, setReason] = useState("");
  const [hours, setHours] = useState("1");
  const until = hours === "" ? undefined : new Date(Date.now() + Number(hours) * 3_600_000).toISOString();
  return (
    <Ask title={`Pause ${group.key}`} does="Pause" ready={reason.trim() !== ""} act={() => pause(entry.shard, group.key, reason.trim(), until)} onClose={onClose}>
      <p>Nothing is created, deleted or replaced in the group meanwhile, even where a machine fails.</p>
      <label class="field-label">
        Reason, for the others
        <input type="text" value={reason} maxLength={200} required onInput={(e) => setReason(e.currentTarget.value)} />
      </label>
      <label class="field-label">
        Until
        <select value={hours} onChange={(e) => setHours(e.currentTarget.value)}>
          <option value="1">in an hour</option>
          <option value="4">in four hours</option>
          <option value="24">in a day</option>
          <option value="">it is resumed</option>
        </select>
      </label>
    </Ask>
  );
}
