// Moving between pages without loading them anew.

import { computed, signal } from "@preact/signals";
import { hrefOf, routeOf, type Route } from "./model/route";

const path = signal(location.pathname);

/** The route of the page that is shown. */
export const route = computed(() => routeOf(path.value));

/** Goes to a page. */
export function go(to: Route): void {
  const href = hrefOf(to);
  if (href !== location.pathname) history.pushState(null, "", href);
  path.value = location.pathname;
}

/** Follows the browser's buttons and the links of the page. */
export function follow(): void {
  addEventListener("popstate", () => (path.value = location.pathname));
  document.addEventListener("click", (e) => {
    if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    const link = (e.target as Element).closest?.("a[href]");
    if (!(link instanceof HTMLAnchorElement) || link.target || link.origin !== location.origin || link.hash) return;
    if (link.hasAttribute("download") || link.pathname.startsWith("/api/")) return;
    e.preventDefault();
    history.pushState(null, "", link.href);
    path.value = link.pathname;
    scrollTo(0, 0);
  });
}
