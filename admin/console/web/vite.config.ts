import { readFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";
import { writeDigest } from "./scripts/digest.ts";

// What is bundled into the built files, with the licences that ask to be kept.
const bundled = [
  "preact",
  "@preact/signals",
  "@preact/signals-core",
  "uplot",
  "@fontsource-variable/geist",
  "@fontsource-variable/geist-mono",
];

// licences puts the texts of the bundled packages' licences beside them.
function licences(): Plugin {
  return {
    name: "licences",
    generateBundle() {
      const texts = bundled.map((name) => {
        const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")) as { version: string };
        const text = readFileSync(`node_modules/${name}/LICENSE`, "utf8").replace(/\r\n/g, "\n").trim();
        return `${name} ${version}\n\n${text}\n`;
      });
      this.emitFile({ type: "asset", name: "licences.txt", source: texts.join(`\n${"-".repeat(72)}\n\n`) });
    },
  };
}

// digest names in the built files the sources that they were built from.
function digest(): Plugin {
  let into = "dist";
  return {
    name: "digest",
    apply: "build",
    configResolved(config) {
      into = config.build.outDir;
    },
    closeBundle() {
      writeDigest(".", `${into}/sources.sha256`);
    },
  };
}

export default defineConfig({
  base: "/",
  plugins: [licences(), digest()],
  build: {
    target: "es2022",
    assetsInlineLimit: 0, // a data: address is more than the content security policy allows
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    reportCompressedSize: false,
    rollupOptions: {
      output: {
        entryFileNames: "assets/app-[hash].js",
        chunkFileNames: "assets/[name]-[hash].js",
        assetFileNames: "assets/[name]-[hash][extname]",
      },
    },
  },
  server: { proxy: { "/api": { target: process.env["CONSOLE"] ?? "http://127.0.0.1:8992" } } },
});
