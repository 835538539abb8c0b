import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { digestOf } from "../scripts/digest";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "digest-"));
});
afterEach(() => rmSync(root, { recursive: true }));

function write(path: string, text: string): void {
  mkdirSync(join(root, path, ".."), { recursive: true });
  writeFileSync(join(root, path), text);
}

test("the digest is that of paths, lengths and bytes in the order of the paths", () => {
  write("b.ts", "two");
  write("a/z.ts", "one");
  const want = createHash("sha256").update("a/z.ts\x003\x00oneb.ts\x003\x00two").digest("hex");
  expect(digestOf(root)).toBe(want);
});

test("what is built, of npm, hidden or Go's is no source", () => {
  write("a.ts", "one");
  const before = digestOf(root);
  for (const path of ["dist/app.js", "node_modules/x/index.js", ".gitignore", "embed.go"]) write(path, "other");
  expect(digestOf(root)).toBe(before);
  write("src/dist/a.ts", "one");
  expect(digestOf(root)).not.toBe(before);
});
