// Puts the page together from the data that stands in it.

import type { Run } from "./data";
import { h } from "./dom";
import { exchanges } from "./list";
import { findings } from "./findings";
import { latency } from "./latency";
import { connections, overview } from "./overview";
import { whereTheTimeWent } from "./bars";
import { lookups } from "./timelines";
import type { Graphs } from "./graphs";

const LINKS: [string, string][] = [
  ["overview", "Overview"], ["time", "Time"], ["latency", "Latency"], ["findings", "Findings"],
  ["lookups", "Look-ups"], ["exchanges", "Exchanges"], ["connections", "Connections"],
];

function theme(boards: Graphs[]): HTMLElement {
  const root = document.documentElement;
  const isDark = () => root.dataset["theme"] === "dark" ||
    root.dataset["theme"] === undefined && matchMedia("(prefers-color-scheme: dark)").matches;
  const redraw = () => boards.forEach((board) => board.rebuild());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  return h("button", { type: "button", class: "theme", click: () => {
    root.dataset["theme"] = isDark() ? "light" : "dark";
    redraw();
  } }, "Light / dark");
}

function main(): void {
  const page = document.getElementById("page")!;
  const run = JSON.parse(document.getElementById("data")!.textContent ?? "") as Run;
  const boards: Graphs[] = [];
  document.title = `tcpwhy: ${run.report.findings[0]?.headline ?? "no fault"}`;
  const sections = [
    overview(run), run.report.endpoints.length > 0 && whereTheTimeWent(run), latency(run.report),
    run.report.findings.length > 0 && findings(run, boards), lookups(run), exchanges(run), connections(run),
  ].filter((it): it is HTMLElement => it instanceof HTMLElement);
  const shown = new Set(sections.map((it) => it.id));
  page.append(
    h("a", { class: "skip", href: "#overview" }, "Skip to the report"),
    h("header", {}, h("span", { class: "brand" }, "tcpwhy"),
      h("nav", { "aria-label": "Sections" }, ...LINKS.filter(([id]) => shown.has(id)).map(([id, label]) => h("a", { href: `#${id}` }, label))),
      theme(boards)),
    h("main", {}, ...sections),
    h("footer", {}, `Made by tcpwhy ${run.report.tool_version}. Times count from the first frame of the capture.`));
}

main();
