// What a reader does with the page: opens, filters, goes back, uses keys, a telephone, paper.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { spawnSync } from "node:child_process";
import { flood } from "./capture.mjs";
import { tcpwhy } from "./chromium.mjs";
import { dataOf, json, reports, stored } from "./reports.mjs";

const { folder, made, opened, shown } = reports();

const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true };
const SOME = [
  "nginx_nodelay_off.pcap",
  "healthy_redis.pcap.zst",
  "loss_tail.pcap",
  "accept_queue.pcap.zst",
  "dns_timeout.pcap",
  "tls_handshakes.pcap",
];
const BOTH = [stored("both_ends-client.pcap"), stored("both_ends-server.pcap")];

function flooded() {
  const file = join(folder, "flood.pcap");
  writeFileSync(file, flood());
  return file;
}

/** The captures of each page, by its name. */
const pages = () => [
  ...SOME.map((name) => [name, stored(name)]),
  ["both", BOTH],
  ["flood", flooded()],
];

const dialog = (tab) => tab.locator("dialog.detail");

test("every listed exchange and connection of a healthy capture opens its ladder and graphs", async () => {
  const { tab, faults } = await shown(stored("nginx_nodelay_off-healthy.pcap"));
  const rows = tab.locator("#exchanges tbody tr");
  const many = await rows.count();
  assert.ok(many > 10);
  for (const at of [0, 1, many - 1]) {
    await rows.nth(at).locator("button.open").click();
    const frames = (await rows.nth(at).locator(".frame").allInnerTexts()).map((it) => it.slice(1));
    const drawn = await dialog(tab).locator(".ladder .frame").allInnerTexts();
    assert.ok(drawn.includes(`#${frames[0]}`), `${drawn} has #${frames[0]}`);
    assert.ok(drawn.includes(`#${frames[1]}`), `${drawn} has #${frames[1]}`);
    assert.equal(await dialog(tab).locator("canvas").count(), 4);
    await tab.keyboard.press("Escape");
    assert.equal(await dialog(tab).isVisible(), false);
  }
  await tab.locator("#connections button.open").first().click();
  assert.ok((await dialog(tab).locator(".ladder li").count()) > 5);
  assert.equal(await dialog(tab).locator("canvas").count(), 4);
  assert.deepEqual(faults, []);
});

test("an exchange that is opened has the ladder of the terminal", async () => {
  for (const name of ["loss_tail.pcap", "healthy_redis.pcap.zst"]) {
    const { tab } = await shown(stored(name));
    const first = tab.locator("#exchanges tbody tr").nth(2);
    await first.locator("button.open").click();
    const number = /no\. (\d+)/.exec(await first.innerText())[1];
    const command = await dialog(tab).locator(".command code").last().innerText();
    assert.ok(command.endsWith(`--connection 1 --exchange ${number}`), command);
    const ladder = JSON.parse(
      spawnSync(tcpwhy, [stored(name), "--connection", "1", "--exchange", number, "--json"]).stdout,
    );
    const frames = ladder.steps.filter((it) => it.step === "segment").map((it) => `#${it.frame}`);
    const drawn = await dialog(tab).locator(".ladder .frame").allInnerTexts();
    // Of many exchanges each is drawn in less room.
    assert.ok(
      drawn.length > 1 && drawn.every((it) => frames.includes(it)),
      `${drawn} of ${frames}`,
    );
    if (name === "loss_tail.pcap") assert.deepEqual(drawn, frames);
  }
});

test("latency over time has each exchange, the findings marked, and opens what is clicked", async () => {
  const { tab, faults } = await shown(stored("loss_tail.pcap"));
  const { runs } = await dataOf(tab);
  const { rows } = runs[0].picture.exchanges;
  const points = tab.locator("#over-time figure .point");
  assert.equal(await points.count(), rows.length);
  const cause = runs[0].report.findings[0].cause;
  const concerned = rows.filter((row) => row.causes.includes(cause)).length;
  assert.equal(await tab.locator("#over-time figure .point.marked").count(), concerned);
  assert.ok(concerned > 0 && concerned < rows.length);
  assert.equal(await tab.locator("#over-time .flagged").innerHTML(), "1");
  // Later is further right, longer is higher.
  const boxes = await points.evaluateAll((all) =>
    all
      .map((it) => it.getBoundingClientRect())
      .map(({ x, y, width, height }) => [x + width / 2, y + height / 2]),
  );
  const spread = (values) => Math.max(...values) - Math.min(...values);
  assert.ok(spread(boxes.map(([x]) => x)) > 800);
  assert.ok(spread(boxes.map(([, y]) => y)) > 100);
  const chart = tab.locator("#over-time svg.chart");
  await chart.scrollIntoViewIfNeeded();
  const flag = await tab.locator("#over-time .point.marked").last().boundingBox();
  await tab.mouse.click(flag.x + flag.width / 2, flag.y + flag.height / 2);
  assert.ok(await dialog(tab).isVisible());
  assert.match(await tab.evaluate(() => location.hash), /open=exchange-0\.\d+\.\d+/);
  assert.deepEqual(faults, []);
});

test("a part of the time is dragged, and filters list and chart", async () => {
  const { tab } = await shown(stored("loss_tail.pcap"));
  const chart = tab.locator("#over-time svg.chart");
  await chart.scrollIntoViewIfNeeded();
  const box = await chart.boundingBox();
  await tab.mouse.move(box.x + box.width * 0.5, box.y + 100);
  await tab.mouse.down();
  await tab.mouse.move(box.x + box.width * 0.8, box.y + 120, { steps: 4 });
  await tab.mouse.up();
  const [from, to] = await tab
    .locator("#exchanges .times input")
    .evaluateAll((all) => all.map((it) => Number(it.value)));
  assert.ok(from > 0.7 && from < to && to < 1.6, `${from} to ${to}`);
  const began = await tab
    .locator("#exchanges tbody tr")
    .evaluateAll((all) => all.map((row) => Number.parseFloat(row.cells[3].innerText)));
  assert.ok(began.length > 0 && began.every((ms) => ms < to * 1e3), String(began));
  assert.ok((await tab.locator("#over-time figure .point.out").count()) > 0);
  await tab.locator("#exchanges button", { hasText: "Clear" }).click();
  assert.equal(await tab.locator("#over-time .point.out").count(), 0);
});

test("exchanges are filtered by endpoint, kind and cause, and a link restores it", async () => {
  const page_file = made(stored("accept_queue.pcap.zst"));
  const { tab } = await opened(page_file);
  const { runs } = await dataOf(tab);
  const { rows } = runs[0].picture.exchanges;
  const shownRows = () => tab.locator("#exchanges tbody tr").count();
  const all = await shownRows();
  const select = (label) => tab.locator(`#exchanges select[aria-label="${label}"]`);
  await select("All causes").selectOption("accept_queue_overflow");
  const caused = rows.filter((row) => row.causes.includes("accept_queue_overflow")).length;
  assert.ok(caused > 0 && caused < all);
  assert.equal(await shownRows(), caused);
  const client = rows[0].client.replace(/:\d+$/, "");
  await select("All endpoints").selectOption(client);
  await select("All kinds").selectOption(rows[0].kind);
  await tab.locator("#exchanges thead button", { hasText: "began" }).click();
  const first = await tab.locator("#exchanges tbody tr").first().innerText();
  await tab.locator("#exchanges tbody button.open").first().click();
  const hash = await tab.evaluate(() => location.hash);
  for (const part of ["cause=accept_queue_overflow", `end=${client}`, "sort=start_ns", "open="]) {
    assert.ok(hash.includes(part), `${hash} has ${part}`);
  }
  const again = await opened(page_file, { hash });
  assert.ok(await dialog(again.tab).isVisible());
  await again.tab.keyboard.press("Escape");
  assert.equal(await again.tab.locator("#exchanges tbody tr").count(), caused);
  assert.equal(await again.tab.locator("#exchanges tbody tr").first().innerText(), first);
  assert.equal(
    await again.tab.locator('#exchanges select[aria-label="All causes"]').inputValue(),
    "accept_queue_overflow",
  );
  assert.deepEqual(again.faults, []);
});

test("the way back undoes what was opened, filtered and gone to", async () => {
  const { tab, faults } = await shown(stored("loss_tail.pcap"));
  const all = await tab.locator("#exchanges tbody tr").count();
  await tab.locator("header a", { hasText: "Exchanges" }).click();
  await tab
    .locator('#exchanges select[aria-label="All causes"]')
    .selectOption("retransmission_timeout");
  await tab.locator("#exchanges tbody button.open").first().click();
  await dialog(tab).locator("button.open", { hasText: "Its connection" }).click();
  assert.match(await dialog(tab).locator("h2").innerText(), /^Connection 1/);
  await tab.goBack();
  assert.match(await dialog(tab).locator("h2").innerText(), /^GET/);
  await tab.goBack();
  assert.equal(await dialog(tab).isVisible(), false);
  assert.ok((await tab.locator("#exchanges tbody tr").count()) < all);
  await tab.goBack();
  assert.equal(await tab.locator("#exchanges tbody tr").count(), all);
  await tab.goForward();
  assert.ok((await tab.locator("#exchanges tbody tr").count()) < all);
  assert.deepEqual(faults, []);
});

test("keys reach the search, move in the list, open and close", async () => {
  const { tab, faults } = await shown(stored("loss_tail.pcap"));
  await tab.keyboard.press("/");
  const focused = () => tab.evaluate(() => document.activeElement.outerHTML);
  assert.match(await focused(), /type="search"/);
  await tab.keyboard.type("get");
  assert.match(await tab.evaluate(() => location.hash), /text=get/);
  const openers = tab.locator("#exchanges tbody button.open");
  await openers.first().focus();
  await tab.keyboard.press("ArrowDown");
  await tab.keyboard.press("ArrowDown");
  assert.ok(await openers.nth(2).evaluate((it) => it === document.activeElement));
  await tab.keyboard.press("End");
  assert.ok(await openers.last().evaluate((it) => it === document.activeElement));
  await tab.keyboard.press("Home");
  await tab.keyboard.press("Enter");
  assert.ok(await dialog(tab).isVisible());
  assert.ok(await dialog(tab).evaluate((it) => it.contains(document.activeElement)));
  await tab.keyboard.press("Escape");
  assert.equal(await dialog(tab).isVisible(), false);
  assert.ok(await openers.first().evaluate((it) => it === document.activeElement));
  assert.deepEqual(faults, []);
});

test("Tab reaches every control, and the focus is seen", async () => {
  const { tab } = await shown(stored("nginx_nodelay_off-healthy.pcap"));
  const wanted = await tab.evaluate(() => {
    const all = [...document.querySelectorAll("a, button, select, input, summary, [tabindex='0']")];
    const shown = all.filter((it) => it.checkVisibility() && !it.closest("dialog"));
    shown.forEach((it, at) => (it.dataset.stop = at));
    return shown.length;
  });
  const reached = new Set();
  for (let at = 0; at < wanted + 5; at++) {
    await tab.keyboard.press("Tab");
    const [stop, ring] = await tab.evaluate(() => {
      const style = getComputedStyle(document.activeElement);
      return [document.activeElement.dataset.stop, `${style.outlineStyle} ${style.outlineWidth}`];
    });
    if (stop === undefined) continue;
    reached.add(stop);
    assert.equal(ring, "solid 2px", `of stop ${stop}`);
  }
  assert.equal(reached.size, wanted);
});

test("nothing is wider than a telephone, also when opened", async () => {
  for (const [name, files] of pages()) {
    const { tab, faults } = await shown(files, PHONE);
    const wide = () =>
      tab.evaluate(() => {
        const all = [document.documentElement, ...document.querySelectorAll("body *")];
        return all
          .filter((it) => it.checkVisibility() && it.scrollWidth > it.clientWidth + 1)
          .filter(
            (it) =>
              it === document.documentElement || /auto|scroll/.test(getComputedStyle(it).overflowX),
          )
          .map((it) => `${it.tagName}.${it.className} by ${it.scrollWidth - it.clientWidth}`);
      });
    assert.deepEqual(await wide(), [], name);
    for (const what of ["#exchanges", "#connections"]) {
      const first = tab.locator(`${what} button.open`).first();
      if ((await first.count()) === 0) continue;
      await first.tap();
      await dialog(tab).locator(".ladder").waitFor();
      assert.deepEqual(await wide(), [], `${name} ${what}`);
      await dialog(tab).locator(".close").tap();
    }
    assert.deepEqual(faults, [], name);
    await tab.context().close();
  }
});

test("a summary prints on two pages, without what has to be opened", async () => {
  const sheets = async (tab) =>
    (await tab.pdf({ format: "A4" })).toString("latin1").match(/\/Type\s*\/Page[^s]/g).length;
  for (const [name, files] of pages()) {
    const { tab } = await shown(files);
    assert.ok((await sheets(tab)) <= 2, name);
    await tab.emulateMedia({ media: "print" });
    const headline = (await dataOf(tab)).runs[0].report.answer[0];
    assert.ok((await tab.locator("#overview").innerText()).includes(headline), name);
    for (const hidden of [".ladder", "canvas", ".filter", "header"])
      for (const it of await tab.locator(hidden).all()) assert.equal(await it.isVisible(), false);
    await tab.context().close();
  }
  const file = join(folder, "comparison.html");
  const [before, after] = ["nginx_nodelay_off.pcap", "nginx_nodelay_off-healthy.pcap"].map(stored);
  spawnSync(tcpwhy, ["compare", before, after, "-o", file, "--no-progress"]);
  assert.ok((await sheets((await opened(file)).tab)) <= 2, "comparison");
});

test("the page has the terminal's words: owners, cost, durations, shares", async () => {
  for (const name of ["nginx_nodelay_off.pcap", "loss_tail.pcap", "healthy_redis.pcap.zst"]) {
    const terminal = String(
      spawnSync(tcpwhy, [stored(name), "--no-progress"], {
        env: { ...process.env, COLUMNS: "200" },
      }).stdout,
    ).replace(/\s+/g, " ");
    const { tab } = await shown(stored(name));
    const shares = await tab
      .locator("#time > .legend li")
      .evaluateAll((all) =>
        all.map((it) => [it.firstChild.nextSibling.data.trim(), it.lastChild.data]),
      );
    assert.ok(shares.length > 0);
    for (const [owner, share] of shares) {
      // The terminal sums up what is below a thousandth.
      if (share.trim() !== "< 0.1 %")
        assert.ok(terminal.includes(`${owner}${share}`), `${name}: ${owner}${share}`);
    }
    for (const [at, finding] of json(stored(name)).findings.entries()) {
      const cost = await tab.locator(`#finding-${at + 1} .facts`).innerText();
      const [, time] = /cost\s+([\d.]+ \S+ of [\d.]+ \S+)/.exec(cost);
      assert.ok(terminal.includes(`cost ${time}`), `${name}: cost ${time}`);
      assert.ok(terminal.includes(`confidence ${finding.confidence.toFixed(2)}`));
    }
    for (const value of await tab
      .locator(".figures dd")
      .allInnerTexts()
      .then((all) => all.slice(0, 1)))
      assert.ok(terminal.includes(value), `${name}: ${value}`);
  }
});

/** In the page: texts with too little contrast (WCAG 2.2, 1.4.3) on any colour that is behind them. */
function faint() {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parsed = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  };
  const over = ([r, g, b, a], below) =>
    [r, g, b].map((it, at) => it * a + below[at] * (1 - a)).concat(1);
  const colours = /(?:rgba?|color)\([^()]*\)/g;
  const behind = (element) => {
    if (!element) return [[255, 255, 255, 1]];
    const { backgroundColor, backgroundImage } = getComputedStyle(element);
    const own = parsed(backgroundColor);
    const below = own[3] === 1 ? [own] : behind(element.parentElement).map((it) => over(own, it));
    const painted = (backgroundImage.match(colours) ?? []).map(parsed);
    return painted.length === 0
      ? below
      : below.flatMap((it) => painted.map((colour) => over(colour, it)));
  };
  const luminance = ([...colour]) => {
    const [r, g, b] = colour
      .slice(0, 3)
      .map((it) => it / 255)
      .map((it) => (it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const found = [];
  let seen = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    if (element.closest("script, option, .visually-hidden, .skip, .u-axis")) continue;
    seen += 1;
    const svg = element.closest("svg");
    const { color, fill } = getComputedStyle(element);
    const ink = parsed(svg ? fill : color);
    // A flag's number stands on its flag.
    const grounds =
      svg && element.matches(".flagged")
        ? [parsed(getComputedStyle(svg.querySelector(".flag")).fill)]
        : behind(svg ?? element);
    const least = Math.min(...grounds.map((ground) => contrast(over(ink, ground), ground)));
    if (least < 4.5)
      found.push(`${least.toFixed(2)} ${element.className} ${element.textContent.slice(0, 40)}`);
  }
  return [found, seen];
}

test("all text has a contrast of 4.5, also on bars, light and dark", async () => {
  for (const [name, files] of pages()) {
    for (const colorScheme of ["light", "dark"]) {
      const { tab } = await shown(files, { colorScheme });
      const [found, seen] = await tab.evaluate(faint);
      assert.deepEqual(found, [], `${name} ${colorScheme}`);
      assert.ok(seen > 40, `${name}: ${seen} texts`);
      const first = tab.locator("#exchanges button.open").first();
      if (await first.count()) {
        await first.click();
        assert.deepEqual((await tab.evaluate(faint))[0], [], `${name} ${colorScheme}, opened`);
      }
      await tab.context().close();
    }
  }
});

test("a bar's label is legible on the colour of every owner", async () => {
  const { tab } = await shown(stored("loss_tail.pcap"));
  const data = await dataOf(tab);
  const owners = Object.keys(data.runs[0].report.ledger);
  assert.ok(owners.length > 10);
  const report = data.runs[0].report;
  const page_file = made(stored("loss_tail.pcap"));
  const many = owners.flatMap((owner) => [
    { ...report.endpoints[0], endpoint: owner, ledger: { [owner]: 1e9 } },
  ]);
  report.endpoints = many;
  const { readFileSync } = await import("node:fs");
  const page = readFileSync(page_file, "utf8").replace(
    /(id="data">).*?(<\/script>)/s,
    (_, before, after) => before + JSON.stringify(data).replaceAll("<", "\\u003c") + after,
  );
  writeFileSync(page_file, page);
  for (const colorScheme of ["light", "dark"]) {
    const { tab: all } = await opened(page_file, { colorScheme });
    assert.equal(await all.locator("#time .inside").count(), owners.length);
    assert.deepEqual((await all.evaluate(faint))[0], []);
  }
});

test("a frame's filter names its file, also of two places", async () => {
  const { tab } = await shown(BOTH, { permissions: ["clipboard-read", "clipboard-write"] });
  const proof = (await dataOf(tab)).runs[0].report.findings[0].evidence[0];
  await tab.locator("#finding-1 .chain .frame").first().click();
  await tab.locator(".toast.shown").waitFor();
  assert.equal(
    await tab.locator(".toast").innerText(),
    `Copied for ${proof.file}: frame.number == ${proof.frame}`,
  );
  assert.equal(
    await tab.evaluate(() => navigator.clipboard.readText()),
    `frame.number == ${proof.frame}`,
  );
  // The ladder of a finding is that of the place of its evidence.
  const label = await tab.locator("#finding-1 .ladder .frame").first().getAttribute("aria-label");
  assert.ok(label.includes(proof.file), label);
  const rows = (await dataOf(tab)).runs[0].picture.exchanges.rows;
  await tab.locator("#exchanges button.open").first().click();
  const own = (await dataOf(tab)).runs[0].report.inputs[rows[0].first[0]].path;
  const labels = await dialog(tab)
    .locator(".ladder .frame")
    .evaluateAll((all) => all.map((it) => it.getAttribute("aria-label")));
  assert.ok(labels.length > 2 && labels.every((it) => it.includes(own)), labels.join("\n"));
});
