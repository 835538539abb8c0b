// Dark and light: as the system says, or as the switch does.

import { signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const key = "nstance-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function stored(): Theme {
  try {
    const value = localStorage.getItem(key);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system"; // the browser keeps nothing for this page
  }
}

/** What the switch says. */
export const theme = signal<Theme>(stored());

export interface Palette {
  run: string;
  start: string;
  bad: string;
  leave: string;
  gone: string;
  off: string;
  paper: string;
  ink: string;
  quiet: string;
  faint: string;
  line: string;
}

const colours = signal<Palette | undefined>(undefined);

/** The colours in force, for canvases; whoever reads them is drawn again when they change. */
export function palette(): Palette {
  return colours.value ?? read();
}

function read(): Palette {
  const style = getComputedStyle(document.documentElement);
  const get = (name: string) => style.getPropertyValue(name).trim();
  return {
    run: get("--state-run"),
    start: get("--state-start"),
    bad: get("--state-bad"),
    leave: get("--state-leave"),
    gone: get("--state-gone"),
    off: get("--state-off"),
    paper: get("--paper"),
    ink: get("--ink"),
    quiet: get("--quiet"),
    faint: get("--faint"),
    line: get("--line"),
  };
}

function use(): void {
  const dark = theme.value === "dark" || (theme.value === "system" && system.matches);
  document.documentElement.dataset["theme"] = dark ? "dark" : "light";
  colours.value = read();
}

/** Sets the switch and remembers it. */
export function choose(next: Theme): void {
  theme.value = next;
  try {
    if (next === "system") localStorage.removeItem(key);
    else localStorage.setItem(key, next);
  } catch {
    // It is remembered until the page is closed.
  }
  use();
}

/** Uses the theme, and follows the system. */
export function beginTheme(): void {
  use();
  system.addEventListener("change", use);
}
