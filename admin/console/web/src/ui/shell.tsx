// The frame of all pages: where one is, how the link to the server is, and who one is.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { session } from "../api";
import { fleet, link, linkSince, ticks } from "../live";
import { hrefOf, type Route } from "../model/route";
import { route } from "../router";
import { choose, theme, type Theme } from "../theme";
import { Ago } from "./ago";

interface Place {
  route: Route;
  name: string;
  /** Pages that are below it. */
  holds?: Route["page"][];
  badge?: () => number;
}

const places: Place[] = [
  { route: { page: "fleet" }, name: "Fleet", holds: ["group", "instance"] },
  { route: { page: "shards" }, name: "Shards", badge: () => [...fleet.shards.values()].filter((s) => !s.connected).length },
  { route: { page: "demand" }, name: "Demand" },
  { route: { page: "machines" }, name: "Host machines" },
  { route: { page: "errors" }, name: "Errors", badge: () => fleet.failures.length },
  { route: { page: "plan" }, name: "Plan" },
];

function Brand() {
  return (
    <a class="brand" href="/" aria-label="Nstance, fleet">
      <svg width="26" height="26" viewBox="0 0 32 32" aria-hidden="true">
        <g fill="currentColor">
          <rect x="3" y="3" width="7" height="7" rx="1.6" />
          <rect x="3" y="12.5" width="7" height="7" rx="1.6" />
          <rect x="3" y="22" width="7" height="7" rx="1.6" />
          <rect x="22" y="3" width="7" height="7" rx="1.6" />
          <rect x="22" y="12.5" width="7" height="7" rx="1.6" />
          <rect x="22" y="22" width="7" height="7" rx="1.6" />
        </g>
        <rect class="brand-new" x="12.5" y="12.5" width="7" height="7" rx="1.6" />
      </svg>
      <span>nstance</span>
    </a>
  );
}

function Connection() {
  const words = { connecting: "connecting", live: "live", lost: "reconnecting", ended: "signed out" }[link.value];
  return (
    <span class={`link link-${link.value}`} role="status">
      <i aria-hidden="true" /> {words}
    </span>
  );
}

const next: Record<Theme, Theme> = { system: "dark", dark: "light", light: "system" };

/** Turns the switch of the theme one further. */
export const turnTheme = (): void => choose(next[theme.value]);

function Banner() {
  if (link.value === "lost") {
    return (
      <div class="banner" role="alert">
        The link to the console's server broke <Ago at={linkSince.value} />. What you see is as of then; it is tried again by itself.
      </div>
    );
  }
  if (link.value === "ended") {
    return (
      <div class="banner" role="alert">
        The console does not know this browser any more. Open the address that <code>nstance-admin console</code> has printed.
      </div>
    );
  }
  return null;
}

interface Props {
  children: ComponentChildren;
  onSearch: () => void;
  onHelp: () => void;
}

export function Shell({ children, onSearch, onHelp }: Props) {
  const page = route.value.page;
  const main = useRef<HTMLElement>(null);
  const href = hrefOf(route.value);
  const shown = useRef(href);
  void [ticks.shards.value, ticks.failures.value]; // the badges count them
  useEffect(() => {
    if (shown.current === href) return;
    shown.current = href;
    main.current?.focus({ preventScroll: true });
  }, [href]);
  const user = session.value?.user;
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(e) => (e.preventDefault(), main.current?.focus())}>
        Skip to the page
      </a>
      <header class="side">
        <Brand />
        <button type="button" class="search-button" onClick={onSearch}>
          <span>Search</span> <kbd>/</kbd>
        </button>
        <nav aria-label="Pages">
          {places.map((place) => {
            const here = place.route.page === page || place.holds?.includes(page);
            const badge = place.badge?.() ?? 0;
            return (
              <a key={place.name} href={hrefOf(place.route)} aria-current={here ? "page" : undefined}>
                {place.name}
                {badge > 0 && <span class="badge">{badge}</span>}
              </a>
            );
          })}
        </nav>
        <div class="side-foot">
          <Connection />
          {user && (
            <p class="who">
              <span title="Cluster">{session.value?.cluster}</span>
              <span class="quiet" title={user.id}>
                {user.tenant} · {session.value?.actions?.length ? user.role : "read-only"}
              </span>
            </p>
          )}
          <div class="side-buttons">
            <button type="button" class="plain" onClick={turnTheme} aria-label={`Colours: ${theme.value}. Switch`} title="Colours (t)">
              {{ system: "◐ System", dark: "● Dark", light: "○ Light" }[theme.value]}
            </button>
            <button type="button" class="plain" onClick={onHelp} aria-label="Keys and marks" title="Keys and marks (?)">
              ?
            </button>
          </div>
        </div>
      </header>
      <div class="content">
        <Banner />
        <main id="main" ref={main} tabIndex={-1}>
          {children}
        </main>
      </div>
    </div>
  );
}
