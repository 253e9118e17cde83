// Where the time went: stacked bars by owner.

import type { Exchange, Ledger, Run } from "./data";
import { counted, duration, h, percent, table } from "./dom";
import { word } from "./language";
import { colourOf, inkOn, isFault } from "./palette";

/** One bar and its sum; `of_ns` is what the whole width stands for. */
export function bar(ledger: Ledger, of_ns: number): HTMLElement {
  const parts = Object.entries(ledger)
    .filter(([, ns]) => ns > 0)
    .sort((one, other) => other[1] - one[1]);
  const sum = parts.reduce((all, [, ns]) => all + ns, 0);
  const said = parts.map(([owner, ns]) => `${word(owner)} ${percent(ns / sum)}`).join(", ");
  const element = h("div", { class: "bar", role: "img", "aria-label": said });
  for (const [owner, ns] of parts) {
    const share = ns / of_ns;
    const part = h("span", {
      class: isFault(owner) ? "part fault" : "part",
      title: `${word(owner)}: ${duration(ns)}, ${percent(ns / sum)}`,
    });
    part.style.width = `${share * 100}%`;
    part.style.backgroundColor = colourOf(owner);
    if (share > 0.14) {
      const inside = h("span", { class: "inside" }, `${word(owner)} ${percent(ns / sum)}`);
      inside.style.backgroundColor = colourOf(owner);
      inside.style.color = inkOn(colourOf(owner));
      part.append(inside);
    }
    element.append(part);
  }
  return element;
}

/** The owners of a ledger, with their colours. */
export function legend(ledger: Ledger): HTMLElement {
  const parts = Object.entries(ledger)
    .filter(([, ns]) => ns > 0)
    .sort((one, other) => other[1] - one[1]);
  const sum = parts.reduce((all, [, ns]) => all + ns, 0);
  return h(
    "ul",
    { class: "legend" },
    ...parts.map(([owner, ns]) => {
      const swatch = h("span", { class: isFault(owner) ? "swatch fault" : "swatch" });
      swatch.style.backgroundColor = colourOf(owner);
      return h(
        "li",
        {},
        swatch,
        `${word(owner)} `,
        h("b", {}, duration(ns)),
        ` ${percent(ns / sum)}`,
      );
    }),
  );
}

interface Row {
  label: string;
  detail: string;
  ledger: Ledger;
  wall: number;
  indent: boolean;
}

export function whereTheTimeWent(run: Run): HTMLElement {
  const { report, picture } = run;
  const rows: Row[] = [];
  for (const at of report.endpoints) {
    const wall = Object.values(at.ledger).reduce((all, ns) => all + ns, 0);
    const software = at.software ? `, ${at.software}` : "";
    rows.push({
      label: at.endpoint,
      indent: false,
      ledger: at.ledger,
      wall,
      detail: `${at.protocol}${software}; ${counted(at.exchanges, "exchange", "exchanges")}, p99 ${duration(at.latency.p99_ns)}`,
    });
    rows.push(...kinds(picture.exchanges.rows.filter((it) => it.server === at.endpoint)));
  }
  const most = rows.reduce((all, row) => Math.max(all, row.wall), 1);
  const body = rows.map((row) =>
    h(
      "tr",
      { class: row.indent ? "kind" : "endpoint" },
      h("th", { scope: "row" }, row.label, h("small", {}, row.detail)),
      h("td", { class: "wide" }, bar(row.ledger, most)),
      h("td", { class: "number" }, duration(row.wall)),
    ),
  );
  const { seen, rows: listed } = picture.exchanges;
  const note =
    listed.length < seen
      ? `Kinds of requests are those of the ${counted(listed.length, "longest exchange", "longest exchanges")} of ${seen}.`
      : "";
  return h(
    "section",
    { id: `${run.id}time` },
    h("h2", {}, "Where the time went"),
    legend(report.ledger),
    table(
      { class: "bars" },
      ["server, kind of request", "time by owner (hatched: owned by a fault)", "sum"],
      body,
    ),
    note !== "" && h("p", { class: "note" }, note),
    report.endpoints_omitted > 0 &&
      h(
        "p",
        { class: "note" },
        `${counted(report.endpoints_omitted, "more server is", "more servers are")} not shown.`,
      ),
  );
}

const KINDS_MAX = 6;

function kinds(exchanges: Exchange[]): Row[] {
  const byKind = new Map<string, { ledger: Ledger; wall: number; count: number }>();
  for (const exchange of exchanges) {
    const kind = exchange.kind === "" ? "kind not known" : exchange.kind;
    const sum = byKind.get(kind) ?? { ledger: {}, wall: 0, count: 0 };
    byKind.set(kind, sum);
    sum.wall += exchange.wall_ns;
    sum.count += 1;
    for (const [owner, ns] of Object.entries(exchange.ledger))
      sum.ledger[owner] = (sum.ledger[owner] ?? 0) + ns;
  }
  const sorted = [...byKind].sort((one, other) => other[1].wall - one[1].wall);
  if (sorted.length < 2) return [];
  return sorted.slice(0, KINDS_MAX).map(([kind, sum]) => ({
    label: kind,
    indent: true,
    ledger: sum.ledger,
    wall: sum.wall,
    detail: `${counted(sum.count, "exchange", "exchanges")}, mean ${duration(sum.wall / sum.count)}`,
  }));
}
