// The head of the page: what was read, the headline, the causes by lost time, observations, connections.

import type { Run } from "./data";
import { anchor } from "./findings";
import {
  bytes,
  copier,
  count,
  counted,
  duration,
  flowFilter,
  frameButton,
  h,
  percent,
  words,
} from "./dom";
import { bar } from "./bars";

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
        `${totals.lookups > 0 ? `, ${counted(totals.lookups, "look-up", "look-ups")}` : ""}; in all ${duration(totals.wall_ns)} of waiting. ` +
        `The capture covers ${duration(totals.last_ns - totals.first_ns)}, from ${new Date(totals.first_ns / 1e6).toISOString().replace("T", " ").slice(0, 23)} UTC; seen from: ${totals.vantage}.`,
    ),
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
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      { class: "causes" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ...["", "cause", "who has to change it", "lost", "share", "exchanges", "first fix"].map(
            (it) => h("th", { scope: "col" }, it),
          ),
        ),
      ),
      h(
        "tbody",
        {},
        ...all.map((finding, at) =>
          h(
            "tr",
            { class: finding.class },
            h("td", {}, h("span", { class: "badge" }, finding.class)),
            h(
              "th",
              { scope: "row" },
              h("a", { href: `#${anchor(run, at)}` }, words(finding.cause)),
            ),
            h("td", {}, `${finding.culprit.role} ${finding.culprit.endpoint}`),
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
          ),
        ),
      ),
    ),
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
          ...it.frames
            .slice(0, 5)
            .map((frame) =>
              frameButton(frame.frame, run.report.inputs.length > 1 ? frame.file : undefined),
            ),
        ),
      ),
    ),
  );
}

export function connections(run: Run): HTMLElement | null {
  const { connections: all, connections_omitted } = run.report;
  if (all.length === 0) return null;
  const most = all.reduce(
    (sum, it) =>
      Math.max(
        sum,
        Object.values(it.ledger).reduce((all, ns) => all + ns, 0),
      ),
    1,
  );
  return h(
    "section",
    { id: `${run.id}connections` },
    h("h2", {}, "Connections, worst first"),
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        { class: "list" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ...[
              "no.",
              "client",
              "server",
              "protocol",
              "exchanges",
              "lost",
              "round trip",
              "time by owner",
              "first frame",
            ].map((it) => h("th", { scope: "col" }, it)),
          ),
        ),
        h(
          "tbody",
          {},
          ...all.map((it) =>
            h(
              "tr",
              {},
              h("td", { class: "number" }, String(it.number)),
              h(
                "td",
                {},
                copier(
                  it.client,
                  flowFilter(it.client, it.server),
                  "Wireshark filter of the connection",
                ),
              ),
              h("td", {}, it.server),
              h("td", {}, it.protocol),
              h("td", { class: "number" }, count(it.exchanges)),
              h("td", { class: "number" }, it.lost_ns > 0 ? duration(it.lost_ns) : "–"),
              h(
                "td",
                { class: "number" },
                it.rtt_min_ns > 0 ? duration(it.rtt_min_ns) : "not measured",
              ),
              h("td", { class: "wide" }, bar(it.ledger, most)),
              h(
                "td",
                {},
                frameButton(
                  it.first_frame.frame,
                  run.report.inputs.length > 1 ? it.first_frame.file : undefined,
                ),
              ),
            ),
          ),
        ),
      ),
    ),
    connections_omitted > 0 &&
      h(
        "p",
        { class: "note" },
        `${counted(connections_omitted, "other connection is", "other connections are")} not listed.`,
      ),
  );
}
