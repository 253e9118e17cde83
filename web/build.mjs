// Builds the page of `tcpwhy report` into one file: markup, style sheet, script, and a
// Content-Security-Policy with their hashes. `--check` says whether the committed file is what this builds.

import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";

const here = (path) => new URL(path, import.meta.url);
const target = here("../crates/cli/src/page/page.html");

async function bundle(entry) {
  const built = await build({
    entryPoints: [here(entry).pathname],
    absWorkingDir: here(".").pathname,
    bundle: true,
    minify: true,
    format: "iife",
    target: "es2021",
    charset: "ascii",
    legalComments: "inline",
    write: false,
  });
  return built.outputFiles[0].text.trim();
}

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

// The licence of what is bundled asks to go with it.
const licence = (await readFile(here("node_modules/uplot/LICENSE"), "utf8")).trim();
const script = `/*! uPlot: ${licence} */\n${await bundle("src/main.ts")}`;
const style = await bundle("src/style.css");
if (/<\/(script|style)/i.test(script + style)) {
  throw new Error("the bundle ends the element that it stands in");
}
const policy = [
  "default-src 'none'",
  `script-src ${hash(script)}`,
  `style-src ${hash(style)}`,
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");
const template = await readFile(here("src/page.html"), "utf8");
// Replaced by functions: in a string `$` has a meaning.
const page = template
  .replace("{{policy}}", () => policy)
  .replace("{{style}}", () => style)
  .replace("{{script}}", () => script);

if (process.argv.includes("--check")) {
  const committed = await readFile(target, "utf8");
  if (committed !== page) {
    console.error(
      "crates/cli/src/page/page.html is not what web/ builds: run `make web` and commit it",
    );
    process.exit(1);
  }
} else {
  await writeFile(target, page);
  console.log(`crates/cli/src/page/page.html: ${Math.ceil(page.length / 1024)} KiB`);
}
