// Builds a page into one file: markup, style sheet, script, and a Content-Security-Policy with their
// hashes.
//
//   build.mjs                  the page of `tcpwhy report`, which is committed
//   build.mjs --check          says whether the committed file is what this builds
//   build.mjs --page CORE OUT  `tcpwhy.html`, with the analysis as WebAssembly from the file CORE

import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";

const here = (path) => new URL(path, import.meta.url);
const committed = here("../crates/core/src/page/page.html");
const EXAMPLE = "nginx_nodelay_off.pcap";

async function bundle(entry, define = {}) {
  const built = await build({
    entryPoints: [here(entry).pathname],
    absWorkingDir: here(".").pathname,
    bundle: true,
    minify: true,
    format: "iife",
    target: "es2021",
    charset: "ascii",
    legalComments: "inline",
    define,
    write: false,
  });
  return built.outputFiles[0].text.trim();
}

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

/** The page with a body, a style sheet, a script, what else it may do, and the slots of its body. */
async function page({ body, style, script, may = {}, slots = {} }) {
  // The licence of what is bundled asks to go with it.
  const licence = (await readFile(here("node_modules/uplot/LICENSE"), "utf8")).trim();
  script = `/*! uPlot: ${licence} */\n${script}`;
  if (/<\/(script|style)/i.test(script + style)) {
    throw new Error("the bundle ends the element that it stands in");
  }
  const policy = [
    "default-src 'none'",
    `script-src ${[hash(script), ...(may.script ?? [])].join(" ")}`,
    `style-src ${hash(style)}`,
    ...(may.else ?? []),
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  let text = await readFile(here("src/document.html"), "utf8");
  const markup = (await readFile(here(body), "utf8")).trim();
  for (const [name, value] of Object.entries({ policy, style, body: markup, script, ...slots })) {
    // Replaced by a function: in a string `$` has a meaning.
    text = text.replace(`{{${name}}}`, () => value);
  }
  return text;
}

async function report() {
  return page({
    body: "src/page.html",
    style: await bundle("src/style.css"),
    script: await bundle("src/main.ts"),
  });
}

async function app(core) {
  const packed = async (file) => gzipSync(await readFile(file), { level: 9 }).toString("base64");
  return page({
    body: "src/app/app.html",
    style: await bundle("src/app/app.css"),
    script: await bundle("src/app/app.ts", {
      WORKER: JSON.stringify(await bundle("src/app/worker.ts")),
      EXAMPLE: JSON.stringify(EXAMPLE),
    }),
    may: {
      script: ["'wasm-unsafe-eval'"],
      else: ["worker-src blob:", "connect-src 'none'"],
    },
    slots: {
      core: await packed(core),
      example: await packed(here(`../testdata/captures/${EXAMPLE}`)),
    },
  });
}

async function write(target, text) {
  await writeFile(target, text);
  console.log(`${target.pathname ?? target}: ${Math.ceil(text.length / 1024)} KiB`);
}

const [task, core, target] = process.argv.slice(2);
if (task === "--page") {
  await write(target, await app(core));
} else if (task === "--check") {
  if ((await readFile(committed, "utf8")) !== (await report())) {
    console.error(
      "crates/core/src/page/page.html is not what web/ builds: run `make web` and commit it",
    );
    process.exit(1);
  }
} else {
  await write(committed, await report());
}
