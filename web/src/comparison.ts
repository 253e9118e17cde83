// Before and after a change: the verdict, latency, owners and causes side by side.

import type { Comparison, Run } from "./data";
import { bar } from "./bars";
import { count, duration, fluid, h, table } from "./dom";
import { distribution } from "./latency";

export function comparison(of: Comparison, runs: Run[]): HTMLElement {
  const { before, after } = of;
  const reports = runs.map((run) => run.report);
  const known = reports.every((report) => report.latency_histogram?.length > 0);
  return h(
    "section",
    { id: "comparison", class: of.worse ? "has-fault" : "" },
    h("p", { class: "files" }, `${before.name} → ${after.name}`),
    h("h1", {}, of.sentence),
    h(
      "div",
      { class: "columns" },
      known &&
        h(
          "figure",
          {},
          fluid((width) => distribution(width, reports)),
          h("figcaption", {}, "Share of exchanges that take no longer (logarithmic time)"),
        ),
      latencies(of),
    ),
    h("h4", {}, "Where the time of a mean exchange went"),
    owners(of),
    h("h4", {}, "Causes, cost of a mean exchange"),
    causes(of),
  );
}

function latencies({ before, after }: Comparison): HTMLElement {
  const row = (name: string, was: number, is: number) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, name),
      h("td", { class: "number" }, duration(was)),
      h("td", { class: "number" }, h("b", {}, duration(is))),
      h("td", { class: "number" }, change(was, is)),
    );
  return table(
    {},
    ["", "before", "after", "change"],
    [
      ...(["p50_ns", "p90_ns", "p99_ns", "max_ns"] as const).map((name) =>
        row(name.slice(0, -3), before.latency[name], after.latency[name]),
      ),
      row("mean", before.mean_ns, after.mean_ns),
      h(
        "tr",
        {},
        h("th", { scope: "row" }, "exchanges"),
        h("td", { class: "number" }, count(before.exchanges)),
        h("td", { class: "number" }, count(after.exchanges)),
        h("td", {}, ""),
      ),
    ],
  );
}

function change(was: number, is: number): string {
  if (was === is) return "same";
  if (was === 0) return "new";
  const share = ((is - was) / was) * 100;
  return `${share > 0 ? "+" : "−"}${Math.abs(share) >= 99 && Math.abs(share) < 100 ? Math.abs(share).toFixed(2) : Math.abs(share) >= 10 ? Math.abs(share).toFixed(0) : Math.abs(share).toFixed(1)} %`;
}

function owners(of: Comparison): HTMLElement {
  const ledger = (which: "before_per_exchange_ns" | "after_per_exchange_ns") =>
    Object.fromEntries(of.owners.map((it) => [it.owner, it[which]]));
  const most = Math.max(of.before.mean_ns, of.after.mean_ns, 1);
  const row = (
    name: string,
    which: "before_per_exchange_ns" | "after_per_exchange_ns",
    mean: number,
  ) =>
    h(
      "tr",
      { class: "endpoint" },
      h("th", { scope: "row" }, name),
      h("td", { class: "wide" }, bar(ledger(which), most)),
      h("td", { class: "number" }, duration(mean)),
    );
  return table(
    { class: "bars" },
    ["run", "time by owner", "mean"],
    [
      row("before", "before_per_exchange_ns", of.before.mean_ns),
      row("after", "after_per_exchange_ns", of.after.mean_ns),
    ],
  );
}

function causes(of: Comparison): HTMLElement {
  if (of.causes.length === 0) return h("p", {}, "Neither run has a finding.");
  const cell = (side: { lost_per_exchange_ns: number } | null) =>
    h("td", { class: "number" }, side ? duration(side.lost_per_exchange_ns) : "–");
  const fate = (cause: string) =>
    of.new_faults.some((it) => it.cause === cause)
      ? "new"
      : of.gone_faults.some((it) => it.cause === cause)
        ? "gone"
        : "";
  return table(
    {},
    ["cause", "who", "before", "after", ""],
    of.causes.map((it) =>
      h(
        "tr",
        { class: it.class },
        h("th", { scope: "row" }, h("span", { class: "badge" }, it.class), it.cause),
        h("td", {}, it.role),
        cell(it.before),
        cell(it.after),
        h("td", {}, h("b", {}, fate(it.cause))),
      ),
    ),
  );
}
