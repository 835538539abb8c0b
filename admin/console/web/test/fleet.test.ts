import { beforeEach, describe, expect, test } from "vitest";
import { apply, emptyFleet, findInstance, groupId, kept, type Fleet, type Message } from "../src/model/fleet";
import type { Group, Instance } from "../src/model/types";

let fleet: Fleet;
beforeEach(() => {
  fleet = emptyFleet();
});

const groups = (list: Group[], snapshot = false, deleted: { tenant: string; key: string }[] = []): Message => ({ kind: "groups", shard: "a", snapshot, groups: list, deleted });
const instances = (list: Instance[], more: Partial<Extract<Message, { kind: "instances" }>> = {}): Message => ({
  kind: "instances",
  shard: "a",
  snapshot: false,
  last: false,
  instances: list,
  deleted: [],
  ...more,
});
const web = { key: "web", tenant: "t", size: 2, revision: "5" };
const one = { instanceId: "i-1", tenant: "t", group: "web", status: "running", revision: "3" };
const two = { instanceId: "i-2", tenant: "t", group: "web", status: "pending", revision: "4" };
const ids = () => [...(fleet.groups.get(groupId("a", "t", "web"))?.instances.keys() ?? [])];

describe("the fleet", () => {
  test("holds the groups and instances of snapshots", () => {
    const changes = apply(fleet, [groups([web], true), instances([one, two], { snapshot: true, last: true })]);
    expect(ids()).toEqual(["i-1", "i-2"]);
    expect(fleet.groups.get("a/t/web")?.group?.size).toBe(2);
    expect([...changes.groups].map((g) => g.id)).toEqual(["a/t/web"]);
    expect(changes.moved.size).toBe(0);
  });

  test("forgets what a later snapshot does not name, once its last batch is there", () => {
    apply(fleet, [groups([web], true), instances([one, two], { snapshot: true, last: true })]);
    const three = { ...one, instanceId: "i-3" };
    apply(fleet, [instances([two], { snapshot: true })]);
    expect(ids()).toEqual(["i-1", "i-2"]);
    apply(fleet, [instances([three], { snapshot: true, last: true })]);
    expect(ids()).toEqual(["i-2", "i-3"]);
  });

  test("a snapshot that broke off counts for nothing in the next one", () => {
    apply(fleet, [groups([web], true), instances([one, two], { snapshot: true, last: true })]);
    apply(fleet, [groups([web], true), instances([one], { snapshot: true })]);
    apply(fleet, [groups([web], true), instances([two], { snapshot: true, last: true })]);
    expect(ids()).toEqual(["i-2"]);
  });

  test("a snapshot of one shard leaves the others as they are", () => {
    apply(fleet, [groups([web], true), instances([one], { snapshot: true, last: true })]);
    apply(fleet, [{ ...groups([], true), shard: "b" } as Message, { ...instances([], { snapshot: true, last: true }), shard: "b" } as Message]);
    expect(ids()).toEqual(["i-1"]);
  });

  test("an older revision does not win over a newer one, a snapshot does", () => {
    apply(fleet, [instances([one])]);
    apply(fleet, [instances([{ ...one, status: "unhealthy", revision: "2" }])]);
    expect(findInstance(fleet, "a", "i-1")?.instance.status).toBe("running");
    apply(fleet, [instances([{ ...one, status: "unhealthy", revision: "1" }], { snapshot: true, last: true })]);
    expect(findInstance(fleet, "a", "i-1")?.instance.status).toBe("unhealthy");
  });

  test("names the instances whose state has changed", () => {
    apply(fleet, [instances([one, two], { snapshot: true, last: true })]);
    const changes = apply(fleet, [instances([{ ...one, cpuUsage: 3, revision: "6" }, { ...two, status: "running", revision: "7" }, { ...two, instanceId: "i-9" }])]);
    expect([...changes.moved]).toEqual(["a/i-2", "a/i-9"]);
  });

  test("forgets a group with its last instance, and not before", () => {
    apply(fleet, [groups([web]), instances([one])]);
    apply(fleet, [groups([], false, [{ tenant: "t", key: "web" }])]);
    expect(ids()).toEqual(["i-1"]);
    apply(fleet, [instances([], { deleted: ["i-1", "unknown"] })]);
    expect(fleet.groups.size).toBe(0);
    expect(fleet.homes.size).toBe(0);
  });

  test("groups of two tenants with one name are two", () => {
    apply(fleet, [groups([web, { ...web, tenant: "u" }])]);
    expect(fleet.groups.size).toBe(2);
  });

  test("a change without conditions keeps those that a list gave", () => {
    const conditions = [{ type: "back-off" }];
    apply(fleet, [groups([{ ...web, conditions }], true)]);
    apply(fleet, [groups([{ ...web, revision: "6" }])]);
    expect(fleet.groups.get("a/t/web")?.group?.conditions).toEqual(conditions);
    apply(fleet, [groups([web], true)]);
    expect(fleet.groups.get("a/t/web")?.group?.conditions).toBeUndefined();
  });

  test("keeps so many events, newest first, and what is recent replaces them", () => {
    const event = (n: number): Message => ({ kind: "event", shard: "a", at: n, event: { instanceId: `i-${n}`, status: "running" } });
    apply(fleet, Array.from({ length: kept.events + 5 }, (_, n) => event(n)));
    expect(fleet.events).toHaveLength(kept.events);
    expect(fleet.events[0]?.at).toBe(kept.events + 4);
    apply(fleet, [{ kind: "recent", messages: [event(1), event(2)] }]);
    expect(fleet.events.map((e) => e.at)).toEqual([2, 1]);
  });

  test("machines come and go", () => {
    const machines = (ids: string[], snapshot: boolean, deleted: string[] = []): Message => ({ kind: "machines", shard: "a", snapshot, machines: ids.map((id) => ({ id, machine: {} })), deleted });
    apply(fleet, [machines(["i-1", "i-2"], true)]);
    apply(fleet, [machines(["i-3"], false, ["i-1"])]);
    expect([...fleet.machines.keys()]).toEqual(["a/i-2", "a/i-3"]);
    apply(fleet, [machines([], true)]);
    expect(fleet.machines.size).toBe(0);
  });
});
