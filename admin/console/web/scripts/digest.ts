import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const left = new Set(["dist", "node_modules"]);

function filesBelow(root: string, below: string): string[] {
  const found: string[] = [];
  for (const entry of readdirSync(join(root, below), { withFileTypes: true })) {
    const path = below === "" ? entry.name : `${below}/${entry.name}`;
    if (entry.name.startsWith(".") || entry.name.endsWith(".go")) continue;
    if (below === "" && left.has(entry.name)) continue;
    if (entry.isDirectory()) found.push(...filesBelow(root, path));
    else found.push(path);
  }
  return found;
}

/**
 * The digest of the sources below root: SHA-256 over every file but the built ones, those of npm,
 * dot-files and Go's, in the order of their paths: path, NUL, length in decimal digits, NUL, bytes.
 * The Go side computes the same.
 */
export function digestOf(root: string): string {
  const hash = createHash("sha256");
  const paths = filesBelow(root, "").sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  for (const path of paths) {
    const bytes = readFileSync(join(root, path));
    hash.update(`${path}\0${bytes.length}\0`).update(bytes);
  }
  return hash.digest("hex");
}

/** Writes the digest of the sources below root into file. */
export function writeDigest(root: string, file: string): void {
  writeFileSync(file, `${digestOf(root)}\n`);
}
