// A page in Chromium, and everything that goes wrong in it. CHROMIUM names the browser, where it is not
// Debian's; TCPWHY the program.

import { fileURLToPath } from "node:url";
import { join } from "node:path";
import { chromium } from "playwright-core";

export const root = fileURLToPath(new URL("../../", import.meta.url));
export const tcpwhy = process.env.TCPWHY ?? join(root, "target/debug/tcpwhy");
export const captures = join(root, "testdata/captures");

export function launch() {
  // Root has no sandbox of Chromium's, and the page is ours.
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox"],
  });
}

/** The file `page_file` in a tab, with its faults: messages, errors, and requests but for its own. */
export async function opened(browser, page_file, context = {}, hash = "") {
  const tab = await (
    await browser.newContext({ viewport: { width: 1280, height: 900 }, ...context })
  ).newPage();
  const faults = [];
  tab.on("console", (message) => faults.push(`${message.type()}: ${message.text()}`));
  tab.on("pageerror", (error) => faults.push(error.message));
  tab.on("dialog", (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  tab.on("request", (request) => {
    // A blob is in the page's own memory: its worker, and what it saves.
    if (request.url().split("#")[0] !== `file://${page_file}` && !request.url().startsWith("blob:"))
      faults.push(`request: ${request.url()}`);
  });
  await tab.goto(`file://${page_file}${hash}`);
  return { tab, faults };
}
