// The small card beside the tile under the pointer.

import { signal } from "@preact/signals";
import { duration, instant } from "../format/time";
import { why } from "../model/state";
import type { Instance } from "../model/types";
import { Status } from "./shapes";

const tip = signal<{ instance: Instance; x: number; y: number; now: number } | undefined>(undefined);

export const showTip = (instance: Instance, x: number, y: number, now: number): void => {
  tip.value = { instance, x, y, now };
};

export const hideTip = (): void => {
  tip.value = undefined;
};

export function Tip() {
  const shown = tip.value;
  if (!shown) return null;
  const { instance, now } = shown;
  const born = instant(instance.createdAt);
  const left = Math.min(shown.x, innerWidth - 280);
  const above = shown.y > innerHeight - 160;
  return (
    <div class="tip" style={{ left: `${left}px`, ...(above ? { bottom: `${innerHeight - shown.y + 8}px` } : { top: `${shown.y + 26}px` }) }} aria-hidden="true">
      <b class="mono">{instance.instanceId}</b>
      <span>
        <Status status={instance.status} />
        {born !== undefined && <span class="quiet"> · {duration(now - born)} old</span>}
      </span>
      {instance.condemned && <span>leaves: {why(instance.condemned.reason)}</span>}
      <span class="quiet">{[instance.instanceType, instance.addresses?.[0]].filter(Boolean).join(" · ")}</span>
    </div>
  );
}
