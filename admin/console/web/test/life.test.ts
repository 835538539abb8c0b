import { describe, expect, test } from "vitest";
import { series } from "../src/model/history";
import { layout, place, tileAt } from "../src/model/layout";
import { spread, steps } from "../src/model/life";
import { lookOf, looks, why } from "../src/model/state";
import { eventLook, short, tell } from "../src/model/tell";

describe("a life", () => {
  test("is told from the instance where the server records no steps", () => {
    const found = steps({ instanceId: "i", createdAt: "1970-01-01T00:00:10Z", registeredAt: "1970-01-01T00:00:31Z", condemned: { reason: "expired", deleteAt: "1970-01-01T00:02:00Z" } });
    expect(found.map((s) => [s.name, s.at, s.ahead ?? false])).toEqual([
      ["created", 10_000, false],
      ["registered", 31_000, false],
      ["deleted at the latest", 120_000, true],
    ]);
  });

  test("has what the server recorded, each step once, and the reason of its end", () => {
    const found = steps({
      instanceId: "i",
      createdAt: "1970-01-01T00:00:10Z",
      life: [{ state: "created", at: "1970-01-01T00:00:10Z" }, { state: "condemned", at: "1970-01-01T00:01:00Z" }, { state: "odd", at: "never" }],
      condemned: { reason: "unhealthy" },
    });
    expect(found.map((s) => [s.name, s.note])).toEqual([["created", undefined], ["end decided", "it was unhealthy"]]);
  });

  test("stands on its line by time, with room for each word", () => {
    expect(spread([], 0.1)).toEqual([]);
    expect(spread([5], 0.1)).toEqual([0]);
    expect(spread([0, 50, 100], 0.1)).toEqual([0, 0.5, 1]);
    expect(spread([0, 1, 2, 1000], 0.2)).toEqual([0, 0.2, 0.4, 1]);
    const late = spread([0, 998, 999, 1000], 0.2);
    expect(late.map((x) => Math.round(x * 10) / 10)).toEqual([0, 0.6, 0.8, 1]);
    const many = spread(Array.from({ length: 30 }, (_, n) => n * n), 0.2);
    expect(many.every((x, n) => x >= 0 && x <= 1 && (n === 0 || x > (many[n - 1] as number)))).toBe(true);
  });
});

describe("tiles", () => {
  test("a point finds the tile that was placed there", () => {
    for (const n of [1, 42, 500, 10_000]) {
      const l = layout(n, 700);
      for (const i of [0, Math.floor(n / 2), n - 1]) {
        const { x, y } = place(l, i);
        expect(tileAt(l, n, x + 1, y + 1)).toBe(i);
        expect(x + l.size).toBeLessThanOrEqual(700);
        expect(y + l.size).toBeLessThanOrEqual(l.height);
      }
      expect(tileAt(l, n, -1, 0)).toBe(-1);
      expect(tileAt(l, n, 5, l.height + 50)).toBe(-1);
    }
  });
  test("a narrow place still has a column", () => expect(layout(5, 3).columns).toBe(1));
});

test("every state differs from the others in its shape, or in both word and colour", () => {
  const alive = looks.filter((l) => l.status !== "terminated");
  expect(new Set(alive.map((l) => l.shape)).size).toBe(alive.length);
  expect(lookOf("never heard of").status).toBe("unknown");
  expect(lookOf(undefined).status).toBe("unknown");
});

test("events are told in sentences", () => {
  const e = { shard: "a", at: 0, serial: 1, instanceId: "knd-1" };
  expect(tell({ ...e, status: "pending_deletion", reason: "config-drift" })).toBe("leaves: its configuration has changed");
  expect(tell({ ...e, status: "news" })).toBe("news");
  expect(eventLook({ ...e, status: "binding" })).toBeUndefined();
  expect(why(undefined)).toBe("no reason was given");
  expect(short("knd-16vp5meq3m8hdte2pmy9")).toBe("knd-…e2pmy9");
  expect(short("short")).toBe("short");
});

test("the history ends now, and repeats no moment", () => {
  const s = series([{ t: "1970-01-01T00:00:10Z", size: 3 }, { t: "1970-01-01T00:00:10Z", size: 4 }, { t: "1970-01-01T00:00:20Z", size: 5, running: 4, draining: 1, unhealthy: 1 }], 30_000);
  expect(s.t).toEqual([10, 20, 30]);
  expect(s.wanted).toEqual([3, 5, 5]);
  expect(s.leaving).toEqual([0, 2, 2]);
  expect(series([], 5).t).toEqual([]);
});
