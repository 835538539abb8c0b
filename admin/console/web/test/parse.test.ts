import { expect, test } from "vitest";
import { parse } from "../src/model/parse";

test.each([
  ["shard", "not JSON"],
  ["shard", "null"],
  ["shard", "7"],
  ["event", "{}"],
  ["stranger", '{"shard":"a"}'],
])("%s with %s is no message", (name, data) => expect(parse(name, data, 1)).toBeUndefined());

test("what is malformed in a list is left out", () => {
  expect(parse("groups", '{"shard":"a","snapshot":true,"groups":[{"key":"web"},{"key":7},null],"deleted":[{"key":"old"},3]}', 1)).toEqual({
    kind: "groups",
    shard: "a",
    snapshot: true,
    groups: [{ key: "web" }],
    deleted: [{ tenant: "", key: "old" }],
  });
  expect(parse("instances", '{"shard":"a","instances":[{"instanceId":"i"},{}],"deleted":["x",null]}', 1)).toMatchObject({ instances: [{ instanceId: "i" }], deleted: ["x"], last: false });
});

test("an event has the time of the message, or now", () => {
  expect(parse("event", '{"shard":"a","time":"1970-01-01T00:00:05Z","event":{"status":"running"}}', 1)).toMatchObject({ at: 5000 });
  expect(parse("failure", '{"shard":"a","event":{"class":"quota"}}', 7)).toMatchObject({ at: 7, failure: { class: "quota" } });
});

test("recent ones are messages of their own", () => {
  const m = parse("recent", '{"events":[{"shard":"a","time":"1970-01-01T00:00:05Z","event":{"status":"running"}},{}],"failures":[{"shard":"b","event":{}}]}', 1);
  expect(m?.kind === "recent" && m.messages.map((x) => x.kind)).toEqual(["event", "failure"]);
});

test("a removed machine is deleted", () => {
  expect(parse("machines", '{"shard":"a","machines":[{"instanceId":"i","type":"removed"},{"instanceId":"j","type":"machine","machine":{"connected":true}}]}', 1)).toMatchObject({
    machines: [{ id: "j", machine: { connected: true } }],
    deleted: ["i"],
  });
});
