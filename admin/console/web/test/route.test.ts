import { describe, expect, test } from "vitest";
import { emptyFleet, apply } from "../src/model/fleet";
import { hrefOf, routeOf, type Route } from "../src/model/route";
import { search } from "../src/model/search";

const hostile = ["web", "a/b", "..", ".", "", "%2e%2e", "<img src=x onerror=alert(1)>", "ä ö?#&", "javascript:alert(1)", "\u202egro"];

describe("addresses", () => {
  test.each(hostile)("a group named %j is found again by its address", (name) => {
    const route: Route = { page: "group", shard: "us-1a", tenant: name, group: name };
    const href = hrefOf(route);
    const { pathname, origin } = new URL(href, "http://127.0.0.1:1");
    expect(origin).toBe("http://127.0.0.1:1");
    expect(routeOf(pathname)).toEqual(route);
  });

  test.each([{ page: "fleet" }, { page: "shards" }, { page: "plan" }, { page: "instance", shard: "a", id: "knd-1" }] as Route[])("%o is found again", (route) => expect(routeOf(hrefOf(route))).toEqual(route));

  test.each(["/nothing", "/groups/a", "/instances/a", "/shards/a/b", "/groups/%E0%A4%A/x/y", "/fleet"])("%s is no page", (path) => expect(routeOf(path)).toEqual({ page: "missing", path }));
});

describe("search", () => {
  const fleet = emptyFleet();
  apply(fleet, [
    { kind: "groups", shard: "us-1a", snapshot: true, groups: [{ key: "web", tenant: "acme" }, { key: "webhooks", tenant: "acme" }, { key: "api", tenant: "web" }], deleted: [] },
    { kind: "instances", shard: "us-1a", snapshot: true, last: true, instances: [{ instanceId: "knd-0web1", group: "api", tenant: "web", addresses: ["10.0.0.7"] }], deleted: [] },
  ]);
  const names = (text: string) => search(fleet, text).map((h) => h.name);

  test("shows the pages for an empty text", () => expect(search(fleet, " ").every((h) => h.kind === "page")).toBe(true));
  test("puts the whole name first", () => expect(names("WEB").slice(0, 2)).toEqual(["web", "webhooks"]));
  test("wants every word", () => expect(names("acme hooks")).toEqual(["webhooks"]));
  test("finds addresses", () => expect(names("10.0.0.7")).toEqual(["knd-0web1"]));
  test("finds nothing where there is nothing", () => expect(names("<script>")).toEqual([]));
});
