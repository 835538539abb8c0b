// What screen readers are told without being asked: rarely, and the newest thing alone.

import { signal } from "@preact/signals";

const said = signal("");
const pauseBetween = 6_000;

let next: string | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;
let last = 0;

/** Says something politely; of what comes too fast only the newest is said. */
export function announce(text: string): void {
  next = text;
  if (timer !== undefined) return;
  timer = setTimeout(
    () => {
      timer = undefined;
      last = Date.now();
      said.value = next ?? "";
      next = undefined;
    },
    Math.max(50, last + pauseBetween - Date.now()),
  );
}

export function Announcer() {
  return (
    <div class="unseen" role="status" aria-live="polite">
      {said.value}
    </div>
  );
}
