// `tcpwhy.html` (TCPWHY_PAGE) in a real browser: its reports are those of the command, byte for byte;
// it makes no request; and what is no capture, too large or cancelled is said in words.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import {
  copyFileSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
  writeSync,
  closeSync,
} from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after, before, test } from "node:test";
import { gunzipSync, gzipSync } from "node:zlib";
import { captures, launch, opened, root, tcpwhy } from "./chromium.mjs";

const page_file = process.env.TCPWHY_PAGE ?? join(root, "target/page/tcpwhy.html");
const folder = mkdtempSync(join(tmpdir(), "tcpwhy-app-"));
let browser;

before(async () => {
  browser = await launch();
});

after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true });
});

/** The page, ready for captures. */
async function started(file = page_file, context = {}) {
  const page = await opened(browser, file, context);
  await page.tab.locator(".drop").waitFor();
  return page;
}

/** Waits for a report, and returns the page that would be saved; or for what the page says instead. */
async function outcome(tab) {
  await tab.locator("footer, .problem").first().waitFor({ timeout: 120_000 });
  if (await tab.locator(".problem").count()) {
    return { problem: await tab.locator(".problem").innerText() };
  }
  const saving = tab.waitForEvent("download");
  await tab.getByRole("button", { name: "Save this report" }).click();
  return { page: readFileSync(await (await saving).path(), "utf8") };
}

/** What the command makes of files in the folder `cwd`. */
function native(cwd, names, ...options) {
  const page = join(folder, "native.html");
  const made = spawnSync(tcpwhy, ["report", ...names, "-o", page, "--no-progress", ...options], {
    cwd,
  });
  if (made.status === 2)
    return {
      problem: String(made.stderr)
        .trim()
        .replace(/^tcpwhy: /, ""),
    };
  return { page: readFileSync(page, "utf8") };
}

async function chosen(tab, cwd, names) {
  await tab.locator("#files").setInputFiles(names.map((name) => join(cwd, name)));
  return outcome(tab);
}

/** Two outcomes are the same; without the diff of two large pages. */
function same(one, other, what) {
  assert.equal(one.problem, other.problem, what);
  assert.ok(one.page === other.page, `${what}: the pages differ`);
}

/** A capture of a few hundred bytes a record, `times` times after itself. */
function repeated(name, times) {
  const whole = readFileSync(join(captures, name));
  const file = join(folder, `repeated-${name}`);
  const out = openSync(file, "w");
  writeSync(out, whole.subarray(0, 24));
  for (let at = 0; at < times; at++) writeSync(out, whole.subarray(24));
  closeSync(out);
  return file;
}

test("reports of all stored captures are those of the command, byte for byte", async () => {
  const { tab, faults } = await started();
  for (const name of readdirSync(captures).filter((it) => it.includes(".pcap"))) {
    same(await chosen(tab, captures, [name]), native(captures, [name]), name);
    await tab.getByRole("button", { name: "Other captures" }).click();
  }
  assert.deepEqual(faults, []);
});

test("the example is one click away", async () => {
  const { tab, faults } = await started();
  await tab.getByRole("button", { name: "example" }).click();
  same(await outcome(tab), native(captures, ["nginx_nodelay_off.pcap"]), "example");
  assert.ok((await tab.locator("article.finding").count()) > 0);
  assert.ok((await tab.locator("canvas").count()) > 0);
  assert.deepEqual(faults, []);
});

test("captures of two places are dropped together", async () => {
  const names = ["both_ends-client.pcap", "both_ends-server.pcap"];
  const { tab, faults } = await started();
  const contents = names.map((name) => readFileSync(join(captures, name)).toString("base64"));
  const dropped = await tab.evaluateHandle(
    ([names, contents]) => {
      const transfer = new DataTransfer();
      for (const [at, name] of names.entries()) {
        const bytes = Uint8Array.from(atob(contents[at]), (letter) => letter.charCodeAt(0));
        transfer.items.add(new File([bytes], name));
      }
      return transfer;
    },
    [names, contents],
  );
  await tab.dispatchEvent(".drop", "drop", { dataTransfer: dropped });
  const joined = await outcome(tab);
  same(joined, native(captures, names), "two places");
  assert.ok(joined.page.includes('"both"') || joined.page.includes("places"));
  assert.deepEqual(faults, []);
});

test("options are those of the command", async () => {
  const names = ["both_ends-client.pcap", "both_ends-server.pcap"];
  const { tab, faults } = await started();
  await tab.locator(".options summary").click();
  await tab.locator("#filter").fill("+0s..+1s");
  await tab.locator("#min-share").fill("40");
  await tab.locator("#places").selectOption("1");
  await tab.locator("#show-values").check();
  const options = ["--filter", "+0s..+1s", "--min-share", "40", "--vantages", "1", "--show-values"];
  same(await chosen(tab, captures, names), native(captures, names, ...options), "options");
  await tab.getByRole("button", { name: "Other captures" }).click();
  await tab.locator("#filter").fill("hots 10.0.0.1");
  const { problem } = await chosen(tab, captures, [names[0]]);
  assert.match(problem, /host/);
  await tab.locator("#filter").fill("port 1");
  assert.match((await chosen(tab, captures, [names[0]])).problem, /^nothing to judge: --filter/);
  assert.deepEqual(faults, []);
});

test("gzip is read, also of several members, and zstd by its bytes", async () => {
  const plain = readFileSync(join(captures, "loss_tail.pcap"));
  const half = plain.length >> 1;
  const members = [plain.subarray(0, half), plain.subarray(half)].map((it) => gzipSync(it));
  writeFileSync(join(folder, "members.gz"), Buffer.concat(members));
  copyFileSync(join(captures, "zero_window.pcap.zst"), join(folder, "no-extension"));
  const { tab, faults } = await started();
  for (const name of ["members.gz", "no-extension"]) {
    const shown = await chosen(tab, folder, [name]);
    assert.ok(shown.page, shown.problem);
    same(shown, native(folder, [name]), name);
    await tab.getByRole("button", { name: "Other captures" }).click();
  }
  assert.deepEqual(faults, []);
});

test("what is damaged or no capture is said as the command says it", async () => {
  const whole = readFileSync(join(captures, "nginx_nodelay_off.pcap"));
  const packed = readFileSync(join(captures, "zero_window.pcap.zst"));
  let state = 1;
  const noise = Buffer.from({ length: 100_000 }, () => 0).map(
    () => (state = (state * 48_271) % 0x7fffffff) & 255,
  );
  const records = Buffer.concat([whole.subarray(0, 24), noise]);
  const turned = Buffer.from(whole);
  for (let at = 24; at < turned.length; at += 97) turned[at] ^= 0x55;
  const files = {
    "cut.pcap": whole.subarray(0, whole.length / 2),
    "cut.pcap.zst": packed.subarray(0, packed.length / 2),
    "cut.pcap.gz": gzipSync(whole).subarray(0, 3_000),
    "header.pcap": whole.subarray(0, 24),
    "noise.pcap": noise,
    "records.pcap": records,
    "turned.pcap": turned,
    "empty.pcap": Buffer.alloc(0),
    "page.html": Buffer.from("<!doctype html><p>no capture"),
  };
  const { tab, faults } = await started();
  for (const [name, bytes] of Object.entries(files)) {
    writeFileSync(join(folder, name), bytes);
    const said = await chosen(tab, folder, [name]);
    same(said, native(folder, [name]), name);
    if (said.page) await tab.getByRole("button", { name: "Other captures" }).click();
  }
  assert.deepEqual(faults, []);
});

test("what is no capture is said in the language of the page, as by the command", async () => {
  writeFileSync(join(folder, "text.pcap"), "<!doctype html><p>no capture");
  const { tab } = await started(page_file, { locale: "zh-CN" });
  const said = await chosen(tab, folder, ["text.pcap"]);
  assert.match(said.problem, /不是抓包文件/);
  const command = native(folder, ["text.pcap"], "--lang", "zh");
  assert.equal(command.problem, `tcpwhy：${said.problem}`);
});

test("an analysis is cancelled, and another begins", async () => {
  const large = repeated("nginx_nodelay_off.pcap", 2_000);
  const { tab, faults } = await started();
  await tab.locator("#files").setInputFiles(large);
  await tab.locator(".state", { hasText: /MB\/s/ }).waitFor();
  assert.ok((await tab.locator("progress").getAttribute("value")) > 0);
  await tab.getByRole("button", { name: "Cancel" }).click();
  await tab.locator(".drop").waitFor();
  await tab.waitForTimeout(500);
  assert.equal(await tab.locator("footer").count(), 0);
  await tab.getByRole("button", { name: "example" }).click();
  await tab.locator("article.finding").first().waitFor();
  assert.deepEqual(faults, []);
});

/** The core of the page, with a memory that cannot grow by more than so many pages of 64 KiB. */
function limited(core, pages) {
  let at = 8;
  const number = () => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = core[at++];
      value += (byte & 127) * 2 ** shift;
      if (byte < 128) return value;
    }
  };
  const written = (value) => {
    const bytes = [];
    for (; value > 127; value >>= 7) bytes.push((value & 127) | 128);
    return [...bytes, value];
  };
  for (;;) {
    const start = at,
      id = core[at++],
      size = number(),
      next = at + size;
    if (id === 5) {
      at += 2;
      const least = number();
      const limits = [1, 1, ...written(least), ...written(least + pages)];
      const section = Buffer.from([5, ...written(limits.length), ...limits]);
      return Buffer.concat([core.subarray(0, start), section, core.subarray(next)]);
    }
    at = next;
  }
}

test("what needs more memory than there is says so", async () => {
  const stored = /id="core">([^<]*)</.exec(readFileSync(page_file, "utf8"))[1];
  const core = join(folder, "limited.wasm"),
    small = join(folder, "small.html");
  writeFileSync(core, limited(gunzipSync(Buffer.from(stored, "base64")), 8));
  execFileSync("node", [join(root, "web/build.mjs"), "--page", core, small]);
  const { tab, faults } = await started(small);
  const { problem } = await chosen(tab, captures, ["nginx_nodelay_off.pcap"]);
  assert.match(problem, /need more memory than a browser gives a page .* tcpwhy FILE$/);
  assert.deepEqual(faults, []);
});

test("nothing leaves the page, whatever its scripts try", async () => {
  let requests = 0;
  const server = createServer((_, answer) => {
    requests++;
    answer.end();
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const url = `127.0.0.1:${server.address().port}/`;
  const { tab } = await started();
  await tab.evaluate(async (url) => {
    const tried = [
      () => fetch(`http://${url}`),
      () => new WebSocket(`ws://${url}`),
      () => navigator.sendBeacon(`http://${url}`, "a"),
      () => (new Image().src = `http://${url}`),
      () =>
        document.body.append(
          Object.assign(document.createElement("iframe"), { src: `http://${url}` }),
        ),
      () =>
        new Promise((done) => {
          const script = `fetch("http://${url}").finally(() => postMessage(0))`;
          new Worker(URL.createObjectURL(new Blob([script]))).onmessage = done;
        }),
    ];
    for (const attempt of tried) {
      try {
        await attempt();
      } catch {
        // Refused, as it should be.
      }
    }
  }, url);
  await tab.waitForTimeout(300);
  server.close();
  assert.equal(requests, 0);
});

test("the page is served as well as opened from disk, on a narrow screen, by keyboard", async () => {
  const content = readFileSync(page_file);
  const server = createServer((_, answer) => answer.end(content));
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const tab = await (await browser.newContext({ viewport: { width: 390, height: 800 } })).newPage();
  await tab.goto(`http://127.0.0.1:${server.address().port}/${basename(page_file)}`);
  await tab.locator(".drop").waitFor();
  const overflow = () =>
    tab.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok((await overflow()) <= 0);
  await tab.locator(".options summary").focus();
  await tab.keyboard.press("Enter");
  assert.ok(await tab.locator("#filter").isVisible());
  assert.ok((await overflow()) <= 0);
  await tab.getByRole("button", { name: "example" }).focus();
  await tab.keyboard.press("Enter");
  await tab.locator("article.finding").first().waitFor();
  server.close();
  server.closeAllConnections();
});
