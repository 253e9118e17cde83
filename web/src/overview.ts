// The head of the page: what was read, the headline, the causes by their cost, observations.

import type { Run } from "./data";
import { bytes, count, counted, duration, frameButton, h, percent, table } from "./dom";
import { anchor } from "./findings";

/** Where a capture was made, as the terminal says it (`captured_at` of its text). */
const CAPTURED: Record<string, string> = {
  client: "captured at the client",
  server: "captured at the server",
  middle: "captured between client and server",
  local: "captured where client and server are on the same machine or link",
  mixed: "captured nearer to the client for some connections than for others",
};

export function overview(run: Run): HTMLElement {
  const { report } = run,
    { totals } = report;
  const faults = report.findings.filter((it) => it.class === "fault");
  const [headline = "Report", ...also] = report.answer;
  const problems = report.inputs.flatMap((it) =>
    it.problems.map((problem) => `${it.path}: ${problem.what}`),
  );
  const files = report.inputs.map(
    (it) => `${it.path} (${counted(it.packets, "packet", "packets")}, ${bytes(it.bytes)})`,
  );
  return h(
    "section",
    { id: `${run.id}overview`, class: faults.length > 0 ? "overview has-fault" : "overview" },
    h(
      "p",
      { class: "files" },
      files.slice(0, 4).join(", "),
      files.length > 4 && ` and ${files.length - 4} more`,
    ),
    h(run.id === "" ? "h1" : "h3", {}, headline),
    ...also.map((it) => h("p", {}, it)),
    h(
      "p",
      {},
      `${counted(totals.exchanges, "exchange", "exchanges")} on ${counted(totals.connections, "connection", "connections")}` +
        `${totals.lookups > 0 ? `, ${counted(totals.lookups, "look-up", "look-ups")}` : ""}${totals.exchanges > 0 ? `; in all ${duration(totals.wall_ns)} of waiting` : ""}. ` +
        `The capture covers ${duration(totals.last_ns - totals.first_ns)}, from ${new Date(totals.first_ns / 1e6).toISOString().replace("T", " ").slice(0, 23)} UTC${totals.vantage in CAPTURED ? `; ${CAPTURED[totals.vantage]}` : ""}.`,
    ),
    totals.exchanges > 0 &&
      h(
        "dl",
        { class: "figures" },
        ...(
          [
            ["p50", report.latency.p50_ns],
            ["p90", report.latency.p90_ns],
            ["p99", report.latency.p99_ns],
            ["max", report.latency.max_ns],
          ] as const
        ).map(([name, ns]) => h("div", {}, h("dt", {}, name), h("dd", {}, duration(ns)))),
      ),
    problems.length > 0 && h("ul", { class: "problems" }, ...problems.map((it) => h("li", {}, it))),
    causes(run),
    observations(run),
  );
}

function causes(run: Run): HTMLElement | null {
  const all = run.report.findings;
  if (all.length === 0) return null;
  const row = (finding: (typeof all)[number], at: number) =>
    h(
      "tr",
      { class: finding.class },
      h(
        "th",
        { scope: "row" },
        h("span", { class: "badge" }, finding.class),
        h("a", { href: `#${anchor(run, at)}` }, finding.cause),
      ),
      h("td", {}, finding.culprit.role, ` ${finding.culprit.endpoint}`),
      h("td", { class: "number" }, finding.lost_ns === 0 ? "–" : duration(finding.lost_ns)),
      h("td", { class: "number" }, finding.lost_ns === 0 ? "–" : percent(finding.share)),
      h(
        "td",
        { class: "number" },
        `${count(finding.affected.exchanges)} of ${count(finding.affected.of_exchanges)}`,
      ),
      h(
        "td",
        {},
        finding.fixes[0]
          ? `${finding.fixes[0].where}: ${finding.fixes[0].change.replace(/`/g, "")}`
          : "",
      ),
    );
  return table(
    { class: "causes" },
    ["cause", "who has to change it", "cost", "share", "exchanges", "first fix"],
    all.map(row),
  );
}

function observations(run: Run): HTMLElement | null {
  const all = run.report.observations;
  if (all.length === 0) return null;
  return h(
    "details",
    { class: "observations", open: all.some((it) => it.limits) },
    h("summary", {}, counted(all.length, "observation", "observations")),
    h(
      "ul",
      {},
      ...all.map((it) =>
        h(
          "li",
          { class: it.limits ? "limits" : "" },
          it.limits ? h("b", {}, "limits what can be said: ") : null,
          it.what,
          " ",
          ...it.frames.slice(0, 5).map((frame) => frameButton(frame.frame, frame.file)),
        ),
      ),
    ),
  );
}
