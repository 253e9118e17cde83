// Each finding: what happened, the proof, the fix, the ladder, the graphs, the manual.

import type { Evidence, Finding, Run } from "./data";
import { copier, counted, duration, frameButton, h, percent, range, words } from "./dom";
import { graphs, type Graphs } from "./graphs";
import { ladder } from "./ladder";
import { inline, manual } from "./markdown";
import { setUps } from "./timelines";

export const anchor = (run: Run, at: number): string => `${run.id}finding-${at + 1}`;

export function findings(run: Run, boards: Graphs[]): HTMLElement {
  const all = run.report.findings;
  return h(
    "section",
    { id: `${run.id}findings` },
    h("h2", {}, all.length === 1 ? "The finding" : "Findings"),
    ...all.map((finding, at) => one(run, finding, at, boards)),
  );
}

function one(run: Run, finding: Finding, at: number, boards: Graphs[]): HTMLElement {
  const { culprit, affected } = finding;
  const where = culprit.endpoint === "" ? culprit.role : `${culprit.role} ${culprit.endpoint}`;
  const facts: [string, string][] = [
    ["who", where],
    [
      "affected",
      `${affected.exchanges} of ${counted(affected.of_exchanges, "exchange", "exchanges")}, ${counted(affected.connections, "connection", "connections")}`,
    ],
    [
      "lost",
      finding.lost_ns === 0
        ? "no time"
        : `${duration(finding.lost_ns)}, ${percent(finding.share)} of all time`,
    ],
    ["confidence", percent(finding.confidence)],
  ];
  const { least, most } = finding.counterfactual;
  if (most.p99_ns < finding.latency.p99_ns) {
    facts.push([
      "p99",
      `${duration(finding.latency.p99_ns)} now, ${range(least.p99_ns, most.p99_ns)} without it`,
    ]);
  }
  const of = run.picture.manuals[finding.cause];
  return h(
    "article",
    { id: anchor(run, at), class: `finding ${finding.class}` },
    h("h3", {}, h("span", { class: "badge" }, finding.class), finding.headline),
    h(
      "dl",
      { class: "facts" },
      ...facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
    ),
    h("p", {}, finding.what),
    fixes(finding),
    proof(run, finding),
    drawings(run, finding, at, boards),
    of &&
      h(
        "details",
        { class: "manual" },
        h("summary", {}, `The manual of ${words(finding.cause)}`),
        manual(of),
      ),
  );
}

function fixes(finding: Finding): HTMLElement | null {
  if (finding.fixes.length === 0) return null;
  const commands: [string, string | null][] = [
    ["try it", finding.treat],
    ["verify", finding.verify],
    ["draw", finding.draw],
  ];
  return h(
    "div",
    { class: "fix" },
    h("h4", {}, "Fix"),
    h(
      "ul",
      {},
      ...finding.fixes.map((fix) =>
        h(
          "li",
          {},
          h("b", {}, ...inline(fix.where), ": "),
          ...inline(fix.change),
          " → ",
          ...inline(fix.effect),
        ),
      ),
    ),
    ...commands.map(
      ([name, command]) =>
        command &&
        h(
          "p",
          { class: "command" },
          h("span", {}, name),
          h("code", {}, command),
          copier("copy", command, "command"),
        ),
    ),
  );
}

function proof(run: Run, finding: Finding): HTMLElement {
  const files = run.report.inputs.length > 1;
  const packets = finding.evidence.find((it) => it.kind === "packets");
  const filter = packets?.kind === "packets" ? packets.wireshark_filter : null;
  const line = (it: Evidence): HTMLElement => {
    if (it.kind !== "packets")
      return h(
        "li",
        { class: it.agrees ? "" : "against" },
        `${it.agrees ? "agrees" : "disagrees"} (${it.kind}): ${it.what}`,
      );
    const size = it.payload_bytes > 0 ? `, ${it.payload_bytes} B` : "";
    return h(
      "li",
      {},
      frameButton(it.frame, files ? it.file : undefined),
      h("span", { class: "after" }, it.after_ns > 0 ? `+${duration(it.after_ns)}` : ""),
      ` ${it.from}${size}: ${it.what}`,
    );
  };
  return h(
    "div",
    { class: "proof" },
    h("h4", {}, "Proof"),
    h("ol", { class: "chain" }, ...finding.evidence.map(line)),
    filter !== null &&
      h(
        "p",
        { class: "command" },
        h("span", {}, "Wireshark"),
        h("code", {}, filter),
        copier("copy", filter, "Wireshark filter"),
      ),
    finding.ruled_out.length > 0 &&
      h(
        "details",
        {},
        h("summary", {}, "What it is not"),
        h(
          "ul",
          {},
          ...finding.ruled_out.map((it) => h("li", {}, h("b", {}, `${words(it.cause)}: `), it.why)),
        ),
      ),
  );
}

function drawings(run: Run, finding: Finding, at: number, boards: Graphs[]): HTMLElement {
  const box = h("div", { class: "drawings" });
  const drawing = run.picture.drawings.find((it) => it.finding === at);
  const packets = finding.evidence.find((it) => it.kind === "packets");
  const file =
    run.report.inputs.length > 1 && packets?.kind === "packets" ? packets.file : undefined;
  if (drawing) {
    const faults = new Set(
      run.report.findings.filter((it) => it.class === "fault").map((it) => it.cause),
    );
    const board = drawing.graphs && graphs(drawing, drawing.graphs, anchor(run, at));
    box.append(
      h("h4", {}, "An exchange that shows it"),
      ladder(drawing.ladder, faults, file, board && ((ms) => board.show(ms))),
    );
    if (board) {
      boards.push(board);
      box.append(h("h4", {}, "Its connection"), board.element);
    }
  }
  const flood =
    finding.cause === "syn_flood" &&
    run.picture.set_ups.find((it) => it.server === finding.culprit.endpoint);
  if (flood) box.append(setUps(flood));
  return box;
}
