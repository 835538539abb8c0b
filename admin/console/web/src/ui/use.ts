// Hooks that several pages use.

import { useEffect, useRef, useState } from "preact/hooks";

export interface Loaded<T> {
  value: T | undefined;
  error: Error | undefined;
  /** Reads it again now. */
  again: () => void;
}

/**
 * Reads something when the page opens, and again when one of the keys changes, but not more often
 * than every interval. The last value stays while the next one is on its way.
 */
export function useLoaded<T>(read: (signal: AbortSignal) => Promise<T>, what: string, version: unknown, interval = 1_000): Loaded<T> {
  const [state, set] = useState<{ what: string; value?: T; error?: Error }>({ what });
  const [turn, setTurn] = useState(0);
  const last = useRef({ what: "", at: 0, turn: 0 });
  useEffect(() => {
    const stop = new AbortController();
    const fresh = last.current.what !== what || last.current.turn !== turn;
    const wait = fresh ? 0 : Math.max(0, last.current.at + interval - Date.now());
    const timer = setTimeout(() => {
      last.current = { what, at: Date.now(), turn };
      read(stop.signal).then(
        (value) => {
          if (!stop.signal.aborted) set({ what, value });
        },
        (error: unknown) => {
          if (!stop.signal.aborted) set((old) => ({ ...(old.what === what && old), what, error: error instanceof Error ? error : new Error(String(error)) }));
        },
      );
    }, wait);
    return () => {
      clearTimeout(timer);
      // An answer that is under way is still of use, unless it is about something else.
      if (last.current.what !== what) stop.abort();
    };
  }, [what, version, turn]);
  const same = state.what === what;
  return { value: same ? state.value : undefined, error: same ? state.error : undefined, again: () => setTurn((n) => n + 1) };
}

/** Sets the title of the page, and moves the focus to its heading after a change of page. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = title === "" ? "Nstance" : `${title} · Nstance`;
  }, [title]);
}
