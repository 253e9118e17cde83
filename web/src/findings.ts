// Each finding: what happened, the proof, the fix, the ladder, the graphs, the manual.

import { faultsOf, fileOf, type Evidence, type Finding, type Run } from "./data";
import { copier, counted, duration, frameButton, h, percent, range } from "./dom";
import { graphs, type Graphs } from "./graphs";
import { ladder } from "./ladder";
import { word } from "./language";
import { inline, manual } from "./markdown";
import { setUps } from "./timelines";

export const anchor = (run: Run, at: number): string => `${run.id}finding-${at + 1}`;

export function findings(run: Run, boards: Set<Graphs>): HTMLElement {
  const all = run.report.findings;
  return h(
    "section",
    { id: `${run.id}findings` },
    h("h2", {}, all.length === 1 ? "The finding" : "Findings"),
    ...all.map((finding, at) => one(run, finding, at, boards)),
  );
}

function one(run: Run, finding: Finding, at: number, boards: Set<Graphs>): HTMLElement {
  const { culprit, affected } = finding;
  const role = word(culprit.role);
  const where = culprit.endpoint === "" ? role : `${role} ${culprit.endpoint}`;
  const facts: [string, string][] = [
    ["who", where],
    [
      "affected",
      `${affected.exchanges} of ${counted(affected.of_exchanges, "exchange", "exchanges")}, ${counted(affected.connections, "connection", "connections")}`,
    ],
    [
      "cost",
      finding.lost_ns === 0
        ? "no time"
        : `${duration(finding.lost_ns)} of ${duration(wholeOf(run, finding))} (${percent(finding.share)})`,
    ],
    ["confidence", finding.confidence.toFixed(2)],
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
    proof(finding),
    drawings(run, finding, at, boards),
    of &&
      h(
        "details",
        { class: "manual" },
        h("summary", {}, `The manual of ${finding.cause}`),
        manual(of),
      ),
  );
}

/** The time that a finding has a share of: that of all exchanges, but for a load on its server. */
export function wholeOf(run: Run, { lost_ns, share }: Finding): number {
  const { wall_ns } = run.report.totals;
  return Math.abs(lost_ns / wall_ns - share) < 0.001 ? wall_ns : lost_ns / share;
}

function fixes(finding: Finding): HTMLElement | null {
  if (finding.fixes.length === 0) return null;
  const commands: [string, string | null][] = [
    ["treat", finding.treat],
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
    h(
      "div",
      { class: "commands" },
      ...commands.map(
        ([name, command]) =>
          command &&
          h(
            "p",
            { class: "command" },
            h("span", {}, name),
            h("code", {}, command),
            copier("copy", command, "the command"),
          ),
      ),
    ),
  );
}

function proof(finding: Finding): HTMLElement {
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
      frameButton(it.frame, it.file),
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
        copier(
          "copy",
          filter,
          "the Wireshark filter",
          packets?.kind === "packets" ? packets.file : "",
        ),
      ),
    finding.ruled_out.length > 0 &&
      h(
        "details",
        { class: "ruled-out" },
        h("summary", {}, "ruled out"),
        h(
          "ul",
          {},
          ...finding.ruled_out.map((it) => h("li", {}, h("b", {}, `${it.cause}: `), it.why)),
        ),
      ),
  );
}

function drawings(run: Run, finding: Finding, at: number, boards: Set<Graphs>): HTMLElement {
  const box = h("div", { class: "drawings" });
  const drawing = run.picture.drawings.find((it) => it.finding === at);
  if (drawing) {
    const named = (at: number) => fileOf(run, at);
    const board = drawing.graphs && graphs(drawing.graphs, drawing.ladder, anchor(run, at), named);
    box.append(
      h("h4", {}, "An exchange that shows it"),
      ladder(drawing.ladder, faultsOf(run), run, board && ((ms) => board.show(ms))),
    );
    if (board) {
      boards.add(board);
      box.append(h("h4", {}, "Its connection"), board.element);
    }
  }
  const flood =
    finding.cause === "syn_flood" &&
    run.picture.set_ups.find((it) => it.server === finding.culprit.endpoint);
  if (flood) box.append(setUps(flood));
  return box;
}
