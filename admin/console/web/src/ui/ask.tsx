// The question before an action, which names what ends.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { announce } from "./announce";
import { Dialog } from "./dialog";
import { Failed } from "./states";

interface Props {
  title: string;
  /** What the button does, as a verb with its object. */
  does: string;
  /** It ends machines or work. */
  ends?: boolean;
  act: () => Promise<unknown>;
  onClose: () => void;
  children: ComponentChildren;
  ready?: boolean;
}

export function Ask({ title, does, ends, act, onClose, children, ready = true }: Props) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | undefined>(undefined);
  const go = async () => {
    setBusy(true);
    setError(undefined);
    try {
      await act();
      announce(`${title}: done`);
      onClose();
    } catch (e) {
      setError(e instanceof Error ? e : new Error(String(e)));
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} onClose={onClose} small>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          if (ready && !busy) void go();
        }}
      >
        <div class="ask">{children}</div>
        {error && <Failed error={error} />}
        <footer class="ask-foot">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class={ends ? "danger" : "primary"} disabled={!ready || busy} autoFocus={!ends}>
            {busy ? "…" : does}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
