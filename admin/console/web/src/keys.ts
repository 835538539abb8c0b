// Keys of the whole page. Two-key ones begin with g, as in other consoles of the field.

import { go } from "./router";
import type { Route } from "./model/route";

/** The keys, for the page of help. */
export const keys: readonly { keys: string[]; does: string }[] = [
  { keys: ["/"], does: "search groups, instances and pages" },
  { keys: ["?"], does: "show these keys" },
  { keys: ["g", "g"], does: "go to the fleet" },
  { keys: ["g", "s"], does: "go to the shards" },
  { keys: ["g", "d"], does: "go to demand" },
  { keys: ["g", "m"], does: "go to the host machines" },
  { keys: ["g", "e"], does: "go to the errors" },
  { keys: ["g", "p"], does: "go to the plan of a configuration" },
  { keys: ["t"], does: "switch between dark, light and the system's choice" },
  { keys: ["Esc"], does: "close what is open" },
];

const places: Record<string, Route> = {
  g: { page: "fleet" },
  s: { page: "shards" },
  d: { page: "demand" },
  m: { page: "machines" },
  e: { page: "errors" },
  p: { page: "plan" },
};

export interface Handlers {
  search: () => void;
  help: () => void;
  theme: () => void;
}

const patience = 1_200;

/** Listens for the keys, except where something is typed or a dialog is open. */
export function listen(on: Handlers): () => void {
  let first = 0;
  const handle = (e: KeyboardEvent) => {
    if (e.metaKey || e.ctrlKey || e.altKey || e.isComposing) return;
    const at = e.target as HTMLElement;
    if (at.closest("input, textarea, select, [contenteditable], dialog")) return;
    const second = Date.now() - first < patience;
    first = 0;
    const place = second ? places[e.key] : undefined;
    if (place) go(place);
    else if (e.key === "g") first = Date.now();
    else if (e.key === "/") on.search();
    else if (e.key === "?") on.help();
    else if (e.key === "t") on.theme();
    else return;
    e.preventDefault();
  };
  document.addEventListener("keydown", handle);
  return () => document.removeEventListener("keydown", handle);
}
