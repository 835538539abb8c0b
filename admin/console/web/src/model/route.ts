// Addresses of pages. Names of groups and shards are data: each is one segment, percent-encoded.

/** A page with what it is about. */
export type Route =
  | { page: "fleet" }
  | { page: "group"; shard: string; tenant: string; group: string }
  | { page: "instance"; shard: string; id: string }
  | { page: "shards" }
  | { page: "demand" }
  | { page: "machines" }
  | { page: "errors" }
  | { page: "plan" }
  | { page: "missing"; path: string };

/** The address of a route. */
export function hrefOf(route: Route): string {
  const e = encodeURIComponent;
  switch (route.page) {
    case "fleet":
      return "/";
    case "group":
      // A dot alone would be resolved as a step up, and an empty segment lost.
      return `/groups/${[route.shard, route.tenant, route.group].map((part) => e(part).replace(/^\.{0,2}$/, (dots) => `~${dots}`)).join("/")}`;
    case "instance":
      return `/instances/${e(route.shard)}/${e(route.id)}`;
    case "missing":
      return route.path;
    default:
      return `/${route.page}`;
  }
}

/** The route of a path; `missing` for one that is no page. */
export function routeOf(path: string): Route {
  let parts: string[];
  try {
    parts = path.split("/").filter(Boolean).map((part) => decodeURIComponent(part).replace(/^~(?=\.{0,2}$)/, ""));
  } catch {
    return { page: "missing", path };
  }
  const [page, a, b, c] = parts;
  if (page === undefined) return { page: "fleet" };
  if (page === "groups" && parts.length === 4) return { page: "group", shard: a ?? "", tenant: b ?? "", group: c ?? "" };
  if (page === "instances" && parts.length === 3 && a && b) return { page: "instance", shard: a, id: b };
  if (parts.length === 1 && (page === "shards" || page === "demand" || page === "machines" || page === "errors" || page === "plan")) return { page };
  return { page: "missing", path };
}
