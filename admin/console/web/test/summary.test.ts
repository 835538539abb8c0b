import { describe, expect, test } from "vitest";
import { amount, bytes, count, latency, list, money, num, things } from "../src/format/number";
import type { GroupEntry } from "../src/model/fleet";
import { headline, countsOf, sum, urgency, type Counts } from "../src/model/summary";

const counts = (wanted: number, by: Record<string, number>): Counts => ({
  wanted,
  all: Object.values(by).reduce((a, b) => a + b, 0),
  by: new Map(Object.entries(by)),
});

describe("the sentence about a fleet", () => {
  test.each([
    [0, {}, "No machine is wanted, and none runs."],
    [1, { running: 1 }, "The machine is running."],
    [312, { running: 312 }, "All 312 machines are running."],
    [3, { running: 2, "powered-off": 1 }, "All 3 machines are running."],
    [10_000, { running: 9_998, unhealthy: 1, pending: 1 }, "9,998 of 10,000 machines running: 1 unhealthy and 1 starting."],
    [9, { running: 7, provisioning: 1, draining: 2 }, "7 of 9 machines running: 1 starting, 2 leaving and 1 missing."],
    [5, { running: 3 }, "3 of 5 machines running: 2 missing."],
    [0, { draining: 2 }, "0 of 0 machines running: 2 leaving."],
  ])("%d wanted, %o", (wanted, by, want) => expect(headline(counts(wanted, by))).toBe(want));
});

const entry = (size: number, mode: string, statuses: string[]): GroupEntry => ({
  id: "a/t/g",
  shard: "a",
  group: { key: "g", size, mode },
  instances: new Map(statuses.map((status, n) => [`i-${n}`, { instanceId: `i-${n}`, status }])),
  version: 1,
});

test("a group of mode demand wants what it has", () => {
  expect(countsOf(entry(0, "demand", ["running", "pending"])).wanted).toBe(2);
  expect(countsOf(entry(5, "fixed", ["running"])).wanted).toBe(5);
});

test("counts add up", () => {
  const total = sum([counts(2, { running: 1 }), counts(3, { running: 2, draining: 1 })]);
  expect([total.wanted, total.all, total.by.get("running")]).toEqual([5, 4, 3]);
});

test("what is unhealthy needs a look before what moves, and that before what rests", () => {
  const of = (e: GroupEntry) => urgency(e, countsOf(e));
  const [bad, missing, busy, fine] = [entry(1, "fixed", ["unhealthy"]), entry(2, "fixed", ["running"]), entry(2, "fixed", ["running", "pending"]), entry(1, "fixed", ["running"])];
  expect(of(bad)).toBeGreaterThan(of(missing));
  expect(of(missing)).toBeGreaterThan(of(busy));
  expect(of(busy)).toBeGreaterThan(of(fine));
});

test("a condition that says that all is well needs no look", () => {
  const e = entry(1, "fixed", ["running"]);
  const of = (type: string) => urgency({ ...e, group: { key: "g", size: 1, conditions: [{ type }] } }, countsOf(e));
  expect(of("at-size")).toBe(0);
  expect(of("back-off")).toBeGreaterThan(of("scaling"));
});

test("numbers are written for people", () => {
  expect(count(1234567)).toBe("1,234,567");
  expect([things(1, "shard"), things(2, "shard"), things(0, "entry", "entries")]).toEqual(["1 shard", "2 shards", "0 entries"]);
  expect([money(0), money(204_800), money(1_843_200), money(12_345_678_900)]).toEqual(["$0.00", "$0.205", "$1.84", "$12,345.68"]);
  expect([latency(0.0004), latency(0.0123), latency(1.26)]).toEqual(["0.4 ms", "12 ms", "1.3 s"]);
  expect([bytes(0), bytes(1536), bytes(68719476736)]).toEqual(["0 B", "1.5 KiB", "64 GiB"]);
  expect([amount("cpu", 1500), amount("memory", 1 << 30), amount("nvidia.com/gpu", 4)]).toEqual(["1.5 cpu", "1 GiB memory", "4 nvidia.com/gpu"]);
  expect([num("9007"), num(undefined), num("x"), num(3)]).toEqual([9007, 0, 0, 3]);
  expect([list([]), list(["a"]), list(["a", "b"]), list(["a", "b", "c"])]).toEqual(["", "a", "a and b", "a, b and c"]);
});
