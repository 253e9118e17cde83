// Puts a report together from its data.

import type { Data, Run } from "./data";
import { comparison } from "./comparison";
import { h } from "./dom";
import { exchanges } from "./list";
import { findings } from "./findings";
import { LANGUAGES, isLanguage, ofBrowser, speak, translate } from "./language";
import { latency } from "./latency";
import { connections } from "./connections";
import { detail } from "./detail";
import { Filter } from "./filter";
import { overTime } from "./overtime";
import { overview } from "./overview";
import * as place from "./place";
import { whereTheTimeWent } from "./bars";
import { lookups } from "./timelines";
import type { Graphs } from "./graphs";

const LINKS: [string, string][] = [
  ["overview", "Overview"],
  ["time", "Time"],
  ["findings", "Findings"],
  ["over-time", "Over time"],
  ["latency", "Latency"],
  ["lookups", "Look-ups"],
  ["exchanges", "Exchanges"],
  ["connections", "Connections"],
];

/** The graphs of the report that is shown. */
const boards = new Set<Graphs>();
const redraw = () => boards.forEach((board) => board.rebuild());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

function theme(): HTMLElement {
  const root = document.documentElement;
  const isDark = () =>
    root.dataset["theme"] === "dark" ||
    (root.dataset["theme"] === undefined && matchMedia("(prefers-color-scheme: dark)").matches);
  return h(
    "button",
    {
      type: "button",
      class: "theme",
      click: () => {
        root.dataset["theme"] = isDark() ? "light" : "dark";
        redraw();
      },
    },
    "Light / dark",
  );
}

/** A choice of the language, which shows the page anew. */
function languages(again: () => void): HTMLElement {
  const choice: HTMLSelectElement = h(
    "select",
    {
      "aria-label": "Language",
      class: "language",
      change: () => {
        place.set({ lang: choice.value });
        again();
      },
    },
    ...LANGUAGES.map(([id, name]) => h("option", { value: id }, name)),
  );
  choice.value = document.documentElement.lang.split("-")[0]!;
  return choice;
}

/** The sections of one run, in their order. */
function sections(run: Run): HTMLElement[] {
  const filter = new Filter(run);
  const all = [
    overview(run),
    run.report.endpoints.length > 0 && whereTheTimeWent(run),
    run.report.findings.length > 0 && findings(run, boards),
    overTime(run, filter),
    latency(run),
    lookups(run),
    exchanges(run, filter),
    connections(run),
  ];
  return all.filter((it): it is HTMLElement => it instanceof HTMLElement);
}

/**
 * Shows a report (the JSON of its data) on `page`, in the place of what is shown there. One that `isNew`
 * is shown from its beginning, whatever the address has.
 */
export function show(page: HTMLElement, json: string, isNew = false): void {
  const data = JSON.parse(json) as Data;
  boards.clear();
  place.reset(isNew);
  const asked = place.value("lang") || (data.language ?? ofBrowser());
  speak(isLanguage(asked) ? asked : "en");
  // Reports of earlier versions have percentiles only, and no answer.
  for (const { report } of data.runs) {
    report.latency_histogram ??= [];
    report.answer ??= report.findings.slice(0, 1).map((it) => it.headline);
  }
  translate(data);
  const names = data.runs.length === 1 ? [""] : ["before", "after"];
  const runs: Run[] = data.runs.map((run, at) => ({
    ...run,
    id: names[at] === "" ? "" : `${names[at]}-`,
  }));
  const first = runs[0]!;
  document.title = `tcpwhy: ${data.comparison?.sentence ?? first.report.answer[0] ?? "report"}`;
  const links: [string, string][] = data.comparison
    ? [
        ["comparison", "Comparison"],
        ["before", "Before"],
        ["after", "After"],
      ]
    : LINKS;
  const shown = data.comparison
    ? [
        comparison(data.comparison, runs),
        ...runs.map((run, at) =>
          h(
            "div",
            { id: names[at]!, class: "run" },
            h("h2", { class: "run" }, at === 0 ? "Before" : "After"),
            ...sections(run),
          ),
        ),
      ]
    : sections(first);
  const ids = new Set(shown.map((it) => it.id));
  page.replaceChildren(
    h("a", { class: "skip", href: `#${links[0]![0]}` }, "Skip to the report"),
    h(
      "header",
      {},
      h("span", { class: "brand" }, "tcpwhy"),
      h(
        "nav",
        { "aria-label": "Sections" },
        ...links
          .filter(([id]) => ids.has(id))
          .map(([id, label]) => h("a", { href: `#${id}` }, label)),
      ),
      languages(() => show(page, json)),
      theme(),
    ),
    h("main", {}, ...shown),
    h(
      "footer",
      {},
      `Made by tcpwhy ${first.report.tool_version}. Times count from the first frame of the capture.`,
      h(
        "span",
        { class: "on-paper" },
        " This is a summary: the page itself has the proof in full, each exchange with its ladder, the graphs and the manuals.",
      ),
    ),
    detail(runs, boards),
  );
  place.arrive();
}
