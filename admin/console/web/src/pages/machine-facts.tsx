import { bytes, num } from "../format/number";
import type { MachineState, Version } from "../model/types";
import { Ago, Lasts } from "../ui/ago";

/** The word of a value of an enumeration: `MACHINE_STAGE_BOOT` is `boot`. */
export const word = (value: string | undefined, prefix: string): string =>
  (value ?? "").replace(new RegExp(`^${prefix}_`), "").toLowerCase().replaceAll("_", " ");

/** A version of a configuration, as people name it. */
export const versionName = (v: Version | undefined): string => (v?.name ? `${v.name} v${v.version ?? 0}` : "–");

/** How a host and its node machine are. */
export function MachineFacts({ machine: m }: { machine: MachineState }) {
  const s = m.status;
  const active = s?.slots?.find((slot) => slot.name === s.activeSlot);
  const troubles = [
    ...(s?.failure ? [{ reason: s.failure.reason, message: s.failure.message }] : []),
    ...(s?.problems ?? []),
    ...(s?.preflight ?? []).filter((p) => p.message).map((p) => ({ reason: p.id, message: p.message })),
  ];
  const facts: [string, preact.ComponentChildren][] = [
    ["Agent", m.connected ? "connected" : <span>not connected; last report <Ago at={m.reportedAt} /></span>],
    ["Stage", s?.stage && <span>{word(s.stage, "MACHINE_STAGE")}, for <Lasts at={s.stageStartedAt} /></span>],
    ["Progress", s?.progress?.what && `${s.progress.what}${num(s.progress.totalBytes) ? ` · ${bytes(num(s.progress.doneBytes))} of ${bytes(num(s.progress.totalBytes))}` : ""}`],
    ["Is to run", m.assignment && `${versionName(m.assignment.configuration)}, epoch ${num(m.assignment.epoch)}`],
    ["Runs", active && `${versionName(active.configuration)} in slot ${active.name}`],
    ["Kubelet", s && (s.kubeletActive ? "active" : "not active")],
    ["Host", s?.host && [s.host.os, s.host.arch, s.host.cpus && `${s.host.cpus} CPUs`, num(s.host.memoryBytes) && bytes(num(s.host.memoryBytes))].filter(Boolean).join(" · ")],
    ["Last error", s?.lastError],
  ];
  return (
    <>
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
      {troubles.length > 0 && (
        <ul class="conditions">
          {troubles.map((p, i) => (
            <li key={i}>
              <b>{p.reason}</b>
              <p>{p.message}</p>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
