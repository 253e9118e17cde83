// `tcpwhy.html`: captures are dropped on the page or chosen, analysed in the browser, and shown as
// `tcpwhy report` shows them. Nothing leaves the machine: the page may not open a connection.

import { bytes, count, h } from "../dom";
import { ofBrowser, speak, spoken, word } from "../language";
import { show } from "../report";
import { Analysis, unpacked } from "./analysis";
import { PASSES, type Told } from "./messages";

/** The name of the capture that stands in the page, which build.mjs puts here. */
declare const EXAMPLE: string;

speak(ofBrowser());
const app = document.getElementById("app")!;
const page = document.getElementById("page")!;
let running: Analysis | null = null;

// The options keep their values while captures come and go.
const filter = h("input", {
  type: "text",
  id: "filter",
  placeholder: "host 10.0.0.1 and port 443 and +2s..+5s",
  spellcheck: "false",
  autocomplete: "off",
});
const min_share = h("input", { type: "text", id: "min-share", inputmode: "decimal", size: 4 });
const places = h(
  "select",
  { id: "places" },
  h("option", { value: "" }, "as the packets show"),
  h("option", { value: "1" }, "one place"),
  h("option", { value: "2" }, "two places: near the client, near the server"),
);
const show_values = h("input", { type: "checkbox", id: "show-values" });
const options = h(
  "details",
  { class: "options" },
  h("summary", {}, "Options"),
  h("label", { for: "filter" }, "Only this part"),
  filter,
  h("label", { for: "min-share" }, "A cost takes at least, per cent of the time"),
  min_share,
  h("label", { for: "places" }, "Captured at"),
  places,
  h("label", { for: "show-values" }, "Show paths literally: /items/7, not /items/{id}"),
  show_values,
);

const button = (label: string, click: () => void) => h("button", { type: "button", click }, label);

function chooser(): HTMLElement {
  const input = h("input", { type: "file", multiple: true, id: "files" });
  input.addEventListener("change", () => analyse([...(input.files ?? [])]));
  return h(
    "div",
    { class: "drop" },
    h("p", {}, "Drop captures here"),
    h("label", { for: "files" }, "or choose them: "),
    input,
    h(
      "p",
      { class: "hint" },
      "pcap or pcapng, also gzip or zstd. Several together: a rotated set, or both ends of the same connections.",
    ),
  );
}

/** The page before the first capture, or after one that could not be read for the reason `problem`. */
function start(problem?: string): void {
  running = null;
  document.title = "tcpwhy";
  page.replaceChildren();
  app.replaceChildren(
    h(
      "main",
      { class: "start" },
      h("h1", {}, "tcpwhy"),
      h(
        "p",
        {},
        "Says why a request was slow, how much each cause cost, and who must change what, from a packet capture.",
      ),
      problem !== undefined && h("p", { class: "problem", role: "alert" }, problem),
      chooser(),
      options,
      h(
        "p",
        {},
        button(`Try the example: ${EXAMPLE}`, () => void example()),
      ),
      h(
        "p",
        { class: "hint" },
        "Captures are read on this machine and never leave it: this page may not open a connection.",
      ),
    ),
  );
}

async function example(): Promise<void> {
  analyse([new File([await unpacked("example")], EXAMPLE)]);
}

function analyse(files: File[]): void {
  if (files.length === 0) return;
  running?.end();
  page.replaceChildren();
  const total_bytes = files.reduce((sum, file) => sum + file.size, 0);
  const bar = h("progress", { max: 1, value: 0, "aria-label": "Progress" });
  const state = h("p", { class: "state", role: "status" }, `Reading ${bytes(total_bytes)} …`);
  app.replaceChildren(
    h(
      "main",
      { class: "start" },
      h("h1", {}, files.length === 1 ? files[0]!.name : `${count(files.length)} captures`),
      bar,
      state,
      h(
        "p",
        {},
        button("Cancel", () => {
          running?.end();
          start();
        }),
      ),
    ),
  );
  const began_ms = performance.now();
  const elapsed_s = () => (performance.now() - began_ms) / 1e3;
  const tell = (told: Told): void => {
    switch (told.kind) {
      case "progress": {
        const consumed_bytes = told.pass * total_bytes + told.consumed_bytes;
        const rate = consumed_bytes / elapsed_s();
        const left_s = (PASSES * total_bytes - consumed_bytes) / rate;
        bar.value = consumed_bytes / (PASSES * total_bytes);
        state.textContent = word(
          `${told.pass === 0 ? "Analysing" : "Drawing"}: ${bytes(told.consumed_bytes)} of ` +
            `${bytes(total_bytes)}, ${bytes(rate)}/s, ${Math.ceil(left_s)} s left`,
        );
        break;
      }
      case "report": {
        const rate = `${elapsed_s().toFixed(1)} s, with ${bytes(told.memory_bytes)} of memory`;
        shown(told.json, told.page, `${bytes(total_bytes)} read in ${rate}`);
        break;
      }
      case "error":
        start(told.text);
        break;
      case "memory":
        start(
          `These captures need more memory than a browser gives a page (${bytes(told.memory_bytes)} were ` +
            "used): choose a part under Options, as in host 10.0.0.1 or +0s..+60s, or use the command, " +
            "which has no such bound: tcpwhy FILE",
        );
        break;
      case "fault":
        start(
          `The analysis broke off, which is a fault of tcpwhy: ${told.text}. The command may still ` +
            "read these captures: tcpwhy FILE",
        );
    }
  };
  running = new Analysis(
    files,
    {
      filter: filter.value,
      min_share: min_share.value,
      vantages: places.value === "" ? null : Number(places.value),
      show_values: show_values.checked,
      language: spoken(),
    },
    tell,
  );
}

function shown(json: string, whole: string, how: string): void {
  app.replaceChildren(
    h(
      "div",
      { class: "bar" },
      button("Other captures", () => start()),
      button("Save this report", () => save(whole)),
      h("span", { class: "hint", role: "status" }, how),
    ),
  );
  show(page, json, true);
  scrollTo(0, 0);
}

/** Saves the page that `tcpwhy report` would have written. */
function save(whole: string): void {
  const url = URL.createObjectURL(new Blob([whole], { type: "text/html" }));
  h("a", { href: url, download: "report.html" }).click();
  // The browser has begun to read it by then.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

document.addEventListener("dragover", (event) => {
  event.preventDefault();
  document.body.classList.add("dragging");
});
document.addEventListener("dragleave", (event) => {
  if (event.relatedTarget === null) document.body.classList.remove("dragging");
});
document.addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("dragging");
  const items = [...(event.dataTransfer?.items ?? [])];
  const folder = items.map((item) => item.webkitGetAsEntry()).find((entry) => entry?.isDirectory);
  if (folder) {
    running?.end();
    start(`${folder.name}: is a directory; drop the captures in it`);
  } else analyse([...(event.dataTransfer?.files ?? [])]);
});

start();
