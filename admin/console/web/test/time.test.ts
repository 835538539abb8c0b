import { describe, expect, test } from "vitest";
import { absolute, clock, duration, instant, relative, span } from "../src/format/time";

const s = 1000;
const m = 60 * s;
const h = 60 * m;
const d = 24 * h;

describe("times", () => {
  test.each([
    [0, "0s"],
    [999, "1s"],
    [59 * s, "59s"],
    [3 * m + 20 * s, "3m 20s"],
    [12 * m + 20 * s, "12m"],
    [2 * h + 5 * m, "2h 5m"],
    [4 * d, "4d"],
    [40 * d + h, "40d"],
    [-5, "0s"],
  ])("a length of %d ms is %s", (length, want) => expect(duration(length)).toBe(want));

  test.each([
    [0, "just now"],
    [-12 * s, "12s ago"],
    [4 * m, "in 4m"],
  ])("%d ms from now is %s", (ahead, want) => expect(relative(1e12 + ahead, 1e12)).toBe(want));

  test("what is absent or malformed is no time", () => {
    expect(instant(undefined)).toBeUndefined();
    expect(instant("soon")).toBeUndefined();
    expect(instant("1970-01-01T00:00:01Z")).toBe(1000);
    expect(span("1.5s")).toBe(1500);
    expect(span("5m")).toBeUndefined();
  });

  test("an absolute time names its zone", () => {
    const t = new Date(2026, 4, 6, 14, 3, 9).getTime();
    expect(clock(t)).toBe("14:03:09");
    expect(absolute(t)).toMatch(/^2026-05-06 14:03:09 UTC([+−]\d+(:\d\d)?)?$/);
  });
});
