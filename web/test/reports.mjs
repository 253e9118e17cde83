// Reports of captures, shown in a browser that is there for all tests of a file.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "node:test";
import { captures, launch, opened as open, tcpwhy } from "./chromium.mjs";

export const stored = (name) => join(captures, name);

export const json = (file, ...options) =>
  JSON.parse(
    spawnSync(tcpwhy, [file, "--json", "--no-progress", ...options], { maxBuffer: 1 << 28 }).stdout,
  );

/** The data of a page that is shown. */
export const dataOf = (tab) => tab.locator("#data").textContent().then(JSON.parse);

/** Begins with a browser and a folder, which end with the tests. */
export function reports() {
  const folder = mkdtempSync(join(tmpdir(), "tcpwhy-page-"));
  let browser,
    pages = 0;
  before(async () => {
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    rmSync(folder, { recursive: true });
  });

  /** Writes the page of `files`, and returns its path. */
  function made(files, options = []) {
    const page_file = join(folder, `${++pages}.html`);
    const made = spawnSync(tcpwhy, [
      "report",
      ...[files].flat(),
      "-o",
      page_file,
      "--no-progress",
      ...options,
    ]);
    assert.ok(made.status === 0 || made.status === 1, String(made.stderr));
    return page_file;
  }

  /** A page that is there, shown; `hash` is what its address has. */
  async function opened(page_file, { hash = "", ...context } = {}) {
    const page = await open(browser, page_file, context, hash);
    await page.tab.locator("footer").waitFor();
    return page;
  }

  /** The page of `files`, shown; everything that goes wrong in it is in `faults`. */
  const shown = (files, { options = [], ...context } = {}) => opened(made(files, options), context);

  return { folder, made, opened, shown };
}
