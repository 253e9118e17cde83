// The page in Chinese: nothing of its own words is left in English, and the switch shows it in English again.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { reports, stored } from "./reports.mjs";

const { folder, shown } = reports();

const NAMES = [
  "nginx_nodelay_off.pcap",
  "loss_tail.pcap",
  "dns_timeout.pcap",
  "zero_window.pcap.zst",
  "tls_handshakes.pcap",
  "healthy_redis.pcap.zst",
];

/** Words of English sentences that are neither names nor commands. */
const ENGLISH =
  /(?<![\w./:-])(the|of|is|are|was|were|that|with|its|which|without|exchanges?|connections?|captured|longest|drag|share)(?![\w./:-])/;

/** The text of the page, but for commands, filters, code, addresses and names of requests. */
const words = (tab) =>
  tab.locator("body").evaluate((body) => {
    const copy = body.cloneNode(true);
    for (const it of copy.querySelectorAll(
      "code, script, noscript, style, .command, .open, .copy, .files, option",
    ))
      it.remove();
    return [...copy.querySelectorAll("*")]
      .flatMap((it) => [...it.childNodes])
      .filter((it) => it.nodeType === 3)
      .map((it) => it.textContent.trim())
      .filter((it) => it !== "");
  });

test("a page in Chinese has no English sentence", async () => {
  const cut = join(folder, "cut.pcap");
  writeFileSync(cut, readFileSync(stored("nginx_nodelay_off.pcap")).subarray(0, 3_000));
  for (const name of [...NAMES.map(stored), cut]) {
    const { tab, faults } = await shown(name, { options: ["--lang", "zh"] });
    assert.deepEqual(faults, [], name);
    assert.equal(await tab.locator("html").getAttribute("lang"), "zh-CN");
    const left = (await words(tab)).filter((text) => ENGLISH.test(text));
    assert.deepEqual(left, [], name);
    await tab.context().close();
  }
});

test("the switch changes the language, and the address keeps it", async () => {
  const { tab } = await shown(stored("nginx_nodelay_off.pcap"), { options: ["--lang", "zh"] });
  const headline = await tab.locator("h1").innerText();
  assert.match(headline, /Nagle 算法/);
  await tab.locator("select.language").selectOption("en");
  assert.match(await tab.locator("h1").innerText(), /Nagle's algorithm/);
  assert.match(await tab.evaluate(() => location.hash), /lang=en/);
  await tab.reload();
  await tab.locator("footer").waitFor();
  assert.match(await tab.locator("h1").innerText(), /Nagle's algorithm/);
  await tab.locator("select.language").selectOption("zh");
  assert.equal(await tab.locator("h1").innerText(), headline);
  await tab.context().close();
});

test("a page in Chinese does not scroll sideways at 390 px", async () => {
  const viewport = { width: 390, height: 844 };
  const { tab } = await shown(stored("loss_tail.pcap"), { options: ["--lang", "zh"], viewport });
  const wide = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, `${wide} px`);
  await tab.context().close();
});
