// The page of `tcpwhy report` in a real browser: no errors, no requests, the numbers of the JSON, and what
// is in a capture stays text.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { flood, hostile } from "./capture.mjs";
import { tcpwhy } from "./chromium.mjs";
import { json, reports, stored } from "./reports.mjs";

const { folder, opened, shown } = reports();

const NAMES = [
  "nginx_nodelay_off.pcap",
  "loss_tail.pcap",
  "dns_slow.pcap",
  "dns_timeout.pcap",
  "zero_window.pcap.zst",
  "receive_window.pcap.zst",
  "send_buffer.pcap.zst",
  "tls_handshakes.pcap",
  "healthy_redis.pcap.zst",
  "vlan.pcapng",
  "ipv6_python.pcap",
  "mtu_black_hole.pcap",
];

test("pages are shown without errors and without a request", async () => {
  for (const name of NAMES) {
    const { tab, faults } = await shown(stored(name));
    assert.deepEqual(faults, [], name);
    await tab.context().close();
  }
});

test("numbers on the page are those of the JSON", async () => {
  for (const name of ["nginx_nodelay_off.pcap", "loss_tail.pcap", "dns_slow.pcap"]) {
    const report = json(stored(name));
    const { tab } = await shown(stored(name));
    const head = await tab.locator("#overview").innerText();
    assert.ok(head.includes(report.answer[0]), name);
    assert.ok(head.includes(`${report.totals.exchanges} exchange`), name);
    assert.equal(await tab.locator("article.finding").count(), report.findings.length);
    for (const [label, ns] of [
      ["p50", report.latency.p50_ns],
      ["p99", report.latency.p99_ns],
    ]) {
      const cell = tab.locator(".figures div", { hasText: label }).locator("dd");
      const [value, unit] = (await cell.innerText()).split(" ");
      const scale = { µs: 1e3, ms: 1e6, s: 1e9 }[unit];
      assert.ok(
        Math.abs(Number(value) * scale - ns) <= ns * 0.005,
        `${name} ${label}: ${value} ${unit} for ${ns} ns`,
      );
    }
    for (const [at, finding] of report.findings.entries()) {
      const article = tab.locator(`#finding-${at + 1}`);
      const text = await article.innerText();
      assert.ok(
        text.includes(finding.verify.replace(/\s+/g, " ").slice(0, 60)) ||
          text.replace(/\s+/g, " ").includes(finding.verify.slice(0, 60)),
        finding.verify,
      );
      for (const link of finding.evidence.filter((it) => it.kind === "packets")) {
        assert.ok(
          (await article.locator(".chain .frame", { hasText: `#${link.frame}` }).count()) > 0,
          `${name} #${link.frame}`,
        );
      }
    }
    await tab.context().close();
  }
});

test("the ladder is the one of the terminal", async () => {
  const file = stored("loss_tail.pcap");
  const finding = json(file).findings[0];
  const words = finding.draw.split(" ").slice(2);
  const ladder = JSON.parse(spawnSync(tcpwhy, [file, ...words, "--json"]).stdout);
  const { tab } = await shown(file);
  const rows = await tab
    .locator("#finding-1 .ladder li")
    .evaluateAll((all) => all.map((row) => row.className.split(" ")[0]));
  assert.deepEqual(
    rows,
    ladder.steps.map((step) => step.step),
  );
  const frames = await tab.locator("#finding-1 .ladder .frame").allInnerTexts();
  assert.deepEqual(
    frames,
    ladder.steps.filter((step) => step.step === "segment").map((step) => `#${step.frame}`),
  );
  // Silences are to scale.
  const heights = await tab
    .locator("#finding-1 .ladder .gap.fault")
    .evaluateAll((all) => all.map((row) => row.getBoundingClientRect().height));
  const gaps = ladder.steps
    .filter((step) => step.step === "gap" && step.owner === "retransmission_timeout")
    .map((step) => step.duration_ns);
  assert.ok(Math.abs(heights[0] / heights[1] - gaps[0] / gaps[1]) < 0.05, `${heights} for ${gaps}`);
});

test("a frame's number copies a Wireshark filter", async () => {
  const { tab, faults } = await shown(stored("nginx_nodelay_off.pcap"), {
    permissions: ["clipboard-read", "clipboard-write"],
  });
  const frame = tab.locator("#finding-1 .chain .frame").first();
  const number = (await frame.innerText()).slice(1);
  await frame.click();
  await tab.locator(".toast.shown").waitFor();
  assert.equal(
    await tab.evaluate(() => navigator.clipboard.readText()),
    `frame.number == ${number}`,
  );
  assert.deepEqual(faults, []);
});

test("filters that the page copies are ones that Wireshark takes", async (context) => {
  if (spawnSync("tshark", ["--version"]).status !== 0) {
    return context.skip("there is no tshark");
  }
  for (const name of ["nginx_nodelay_off.pcap", "ipv6_python.pcap"]) {
    const { tab } = await shown(stored(name));
    const titles = await tab
      .locator("#exchanges .address .copy, #finding-1 .command .copy, #finding-1 .frame")
      .evaluateAll((all) =>
        all.map((it) => it.dataset.copy).filter((it) => /frame\.number|\.addr ==/.test(it)),
      );
    for (const filter of new Set(titles.slice(0, 6))) {
      const found = execFileSync(
        "tshark",
        ["-r", stored(name), "-Y", filter, "-T", "fields", "-e", "frame.number"],
        { stdio: ["ignore", "pipe", "ignore"] },
      );
      assert.ok(String(found).trim() !== "", `${name}: ${filter}`);
    }
    await tab.context().close();
  }
});

test("exchanges are sorted, filtered and searched", async () => {
  const { tab, faults } = await shown(stored("loss_tail.pcap"));
  const rows = tab.locator("#exchanges tbody tr");
  const took = () =>
    rows.evaluateAll((all) => all.map((row) => row.querySelector("td.took").innerText));
  const ns = (text) =>
    Number(text.split(" ")[0]) * { µs: 1e3, ms: 1e6, s: 1e9 }[text.split(" ")[1]];
  const sorted = (values) => values.every((value, at) => at === 0 || values[at - 1] >= value);
  assert.ok(sorted((await took()).map(ns)));
  await tab.locator("#exchanges thead button", { hasText: "took" }).click();
  assert.ok(sorted((await took()).map(ns).reverse()));
  assert.equal(
    await tab.locator("#exchanges th[aria-sort]").getAttribute("aria-sort"),
    "ascending",
  );
  const all = await rows.count();
  await tab
    .locator('#exchanges select[aria-label="All causes"]')
    .selectOption("retransmission_timeout");
  const lost = await rows.count();
  assert.ok(lost > 0 && lost < all, `${lost} of ${all}`);
  await tab.locator('#exchanges select[aria-label="All causes"]').selectOption("");
  await tab.locator("#exchanges input[type=search]").fill("nothing like it");
  assert.equal(await rows.count(), 0);
  await tab.locator("#exchanges input[type=search]").fill("get");
  assert.equal(await rows.count(), all);
  assert.deepEqual(faults, []);
});

test("graphs are drawn, zoomed by keys, and follow the ladder", async () => {
  const { tab, faults } = await shown(stored("loss_tail.pcap"));
  const plots = tab.locator("#finding-1 .plots");
  assert.equal(await plots.locator("canvas").count(), 4);
  const ink = () =>
    plots
      .locator("canvas")
      .first()
      .evaluate((canvas) => canvas.toDataURL());
  let before = await ink();
  const changes = async (what, does) => {
    await does();
    await tab.waitForTimeout(80);
    const now = await ink();
    assert.notEqual(now, before, what);
    before = now;
  };
  await plots.focus();
  await changes("zoom", () => tab.keyboard.press("+"));
  await changes("drag", async () => {
    const area = await plots.locator(".u-over").nth(1).boundingBox();
    await tab.mouse.move(area.x + area.width * 0.3, area.y + area.height / 2);
    await tab.mouse.down();
    await tab.mouse.move(area.x + area.width * 0.6, area.y + area.height / 2, { steps: 5 });
    await tab.mouse.up();
  });
  await changes("move", () => tab.keyboard.press("ArrowRight"));
  await changes("all", () => tab.keyboard.press("0"));
  await changes("the stall", () =>
    tab.locator("#finding-1 button", { hasText: "The stall" }).click(),
  );
  await changes("the other side's data", () =>
    tab.locator("#finding-1 .controls select").selectOption("0"),
  );
  await changes("the ladder's moment", () =>
    tab.locator("#finding-1 .ladder button.time").last().click(),
  );
  const box = await plots.locator(".u-over").first().boundingBox();
  await tab.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  assert.match(await tab.locator("#finding-1 .readout").innerText(), /^#\d+ /);
  assert.deepEqual(faults, []);
});

test("what is in a capture stays text", async () => {
  const file = join(folder, "hostile.pcap");
  writeFileSync(file, hostile());
  const { tab, faults } = await shown(file, { options: ["--show-values"] });
  assert.deepEqual(faults, []);
  const text = await tab.locator("body").innerText();
  assert.ok(text.includes("<script>"), "the strings are shown as they stand");
  assert.equal(
    await tab.evaluate(
      () => document.querySelectorAll("img, iframe, body script:not(#data)").length,
    ),
    1,
  );
  assert.equal(await tab.evaluate(() => window.hit), undefined);
});

test("a script that is put into the page does not run", async () => {
  const { tab } = await shown(stored("nginx_nodelay_off.pcap"));
  await tab.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.hit = 1";
    document.body.append(script);
    document.body.insertAdjacentHTML("beforeend", "<img src='data:,' onerror='window.hit = 2'>");
  });
  await tab.waitForTimeout(100);
  assert.equal(await tab.evaluate(() => window.hit), undefined);
});

test("a flood shows its handshakes", async () => {
  const file = join(folder, "flood.pcap");
  writeFileSync(file, flood());
  const { tab, faults } = await shown(file);
  assert.deepEqual(faults, []);
  const said = await tab.locator("#finding-1 .setups svg").first().getAttribute("aria-label");
  assert.match(said, /Handshakes at 192\.0\.2\.80:80/);
  assert.match(
    await tab.locator("#finding-1 .setups svg").last().getAttribute("aria-label"),
    /at most 400/,
  );
});

test("a comparison shows both runs side by side", async () => {
  const file = join(folder, "comparison.html");
  const made = spawnSync(tcpwhy, [
    "compare",
    stored("nginx_nodelay_off.pcap"),
    stored("nginx_nodelay_off-healthy.pcap"),
    "--json",
    "-o",
    file,
    "--no-progress",
  ]);
  const compared = JSON.parse(made.stdout);
  const { tab, faults } = await opened(file);
  assert.equal(await tab.locator("h1").innerText(), compared.sentence);
  assert.equal(await tab.locator("#before-finding-1 canvas").count(), 4);
  assert.equal(await tab.locator("#after #after-exchanges").count(), 1);
  assert.equal(
    await tab.evaluate(
      () =>
        new Set([...document.querySelectorAll("[id]")].map((it) => it.id)).size ===
        document.querySelectorAll("[id]").length,
    ),
    true,
  );
  assert.deepEqual(faults, []);
});

test("the dark page and the printed page are readable", async () => {
  const { tab, faults } = await shown(stored("dns_slow.pcap"), { colorScheme: "dark" });
  const colour = () => tab.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(await colour(), "rgb(20, 23, 27)");
  await tab.locator("button.theme").click();
  assert.equal(await colour(), "rgb(255, 255, 255)");
  await tab.emulateMedia({ media: "print" });
  assert.equal(await tab.locator("header").isVisible(), false);
  assert.ok((await tab.pdf()).length > 10_000);
  assert.deepEqual(faults, []);
});

test("everything that can be clicked has a name, and every picture a description", async () => {
  const { tab } = await shown(stored("receive_window.pcap.zst"));
  const nameless = await tab.evaluate(() =>
    [...document.querySelectorAll("button, select, input, a, [role=img]")]
      .filter((it) => !(it.getAttribute("aria-label") ?? it.textContent ?? "").trim())
      .map((it) => it.outerHTML.slice(0, 80)),
  );
  assert.deepEqual(nameless, []);
});
