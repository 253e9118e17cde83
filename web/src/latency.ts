// Latency now and without a cause: the share of exchanges that take no longer, and percentiles.

import type { Finding, Latency, Prediction, Report, Run } from "./data";
import { duration, fluid, h, range, svg, table } from "./dom";

const PERCENTILES: [keyof Latency, string][] = [
  ["p50_ns", "p50"],
  ["p90_ns", "p90"],
  ["p99_ns", "p99"],
  ["max_ns", "max"],
];
const H = 230,
  LEFT = 46,
  RIGHT = 14,
  TOP = 12,
  BOTTOM = 34;

export function latency(run: Run): HTMLElement | null {
  const { report } = run;
  if (report.latency_histogram.length === 0) return null;
  const changes = report.findings.filter((it) =>
    PERCENTILES.some(([name]) => it.counterfactual.most[name] < it.latency[name]),
  );
  // A prediction is one of its server's exchanges: it stands beside those of all where these are the same.
  const main = changes.find((it) => it.affected.of_exchanges === report.totals.exchanges);
  return h(
    "section",
    { id: `${run.id}latency` },
    h("h2", {}, "Latency of exchanges"),
    h(
      "div",
      { class: "columns" },
      h(
        "figure",
        {},
        fluid((width) => distribution(width, [report], main)),
        h(
          "figcaption",
          {},
          `Share of all exchanges that take no longer (logarithmic time)${main ? `; dashed, by its percentiles, in its interval: without ${main.cause}` : ""}`,
        ),
      ),
      changes.length > 0 &&
        h(
          "figure",
          {},
          percentiles(changes),
          h("figcaption", {}, "Now, and without the cause, at its server"),
        ),
    ),
  );
}

function axis(width: number, lowest: number, highest: number) {
  const low = Math.log10(Math.max(lowest, 1_000)),
    high = Math.max(Math.log10(Math.max(highest, 2_000)), low + 0.3);
  const x = (ns: number) =>
    LEFT + ((width - LEFT - RIGHT) * (Math.log10(Math.max(ns, 1_000)) - low)) / (high - low);
  const ticks: number[] = [];
  for (let power = Math.floor(low); power <= Math.ceil(high); power++) {
    const decades = ((high - low) * 640) / width;
    for (const digit of decades > 3 ? [1] : decades > 1.2 ? [1, 3] : [1, 2, 3, 5, 7]) {
      const ns = digit * 10 ** power;
      if (Math.log10(ns) >= low - 1e-9 && Math.log10(ns) <= high + 1e-9) ticks.push(ns);
    }
  }
  return { x, ticks };
}

/** The share of exchanges that take no longer: of one run, or of the run before and the one after. */
export function distribution(W: number, reports: Report[], without?: Finding): SVGSVGElement {
  const least = reports.map((it) => it.latency_histogram[0]![0]);
  const lowest = Math.min(...least, ...(without ? [without.counterfactual.least.p50_ns] : []));
  const highest = Math.max(
    ...reports.map((it) => it.latency_histogram[it.latency_histogram.length - 1]![0]),
    ...(without ? [without.counterfactual.most.max_ns] : []),
  );
  const { x, ticks } = axis(W, lowest * 0.8, highest * 1.1);
  const y = (share: number) => TOP + (H - TOP - BOTTOM) * (1 - share);
  const said = reports
    .map((it) =>
      PERCENTILES.map(([name, label]) => `${label} ${duration(it.latency[name])}`).join(", "),
    )
    .join("; after: ");
  const plot = svg("svg", {
    viewBox: `0 0 ${W} ${H}`,
    class: "chart",
    role: "img",
    "aria-label": `Distribution of latency: ${said}`,
  });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    plot.append(
      svg("line", { x1: LEFT, x2: W - RIGHT, y1: y(share), y2: y(share), class: "grid" }),
      svg("text", { x: LEFT - 6, y: y(share) + 4, class: "tick end" }, `${share * 100} %`),
    );
  }
  for (const ns of ticks) {
    plot.append(
      svg("line", { x1: x(ns), x2: x(ns), y1: TOP, y2: H - BOTTOM, class: "grid" }),
      svg("text", { x: x(ns), y: H - BOTTOM + 16, class: "tick middle" }, duration(ns)),
    );
  }
  reports.forEach((report, at) => {
    const name = reports.length === 1 ? "" : at === 0 ? "before" : "after";
    const points = report.latency_histogram;
    const all = points.reduce((sum, [, many]) => sum + many, 0);
    let sum = 0,
      path = `M${LEFT} ${y(0)}`;
    for (const [ns, many] of points) {
      path += `H${x(ns).toFixed(1)}`;
      sum += many;
      path += `V${y(sum / all).toFixed(1)}`;
    }
    plot.append(svg("path", { d: `${path}H${W - RIGHT}`, class: `curve ${name}` }));
    const marks: [number, number, string][] = [
      [report.latency.p50_ns, 0.5, "p50"],
      [report.latency.p99_ns, 0.99, "p99"],
    ];
    for (const [ns, share, label] of marks) {
      // Labels stand on the side that has room.
      const isLeft = x(ns) > W / 2,
        text = `${name} ${label} ${duration(ns)}`.trim();
      plot.append(
        svg("circle", { cx: x(ns), cy: y(share), r: 4, class: `mark ${name}` }),
        svg(
          "text",
          {
            x: x(ns) + (isLeft ? -8 : 8),
            y: y(share) + (share > 0.9 ? 18 : -6),
            class: isLeft ? "value end" : "value",
          },
          text,
        ),
      );
    }
  });
  if (without) {
    const { least, most } = without.counterfactual;
    const places = (of: Latency): [number, number][] => [
      [of.p50_ns, 0.5],
      [of.p90_ns, 0.9],
      [of.p99_ns, 0.99],
      [of.max_ns, 1],
    ];
    const points = (of: [number, number][]) =>
      of.map(([ns, share]) => `${x(ns).toFixed(1)},${y(share).toFixed(1)}`).join(" ");
    const likely = places(without.counterfactual);
    plot.append(
      svg("polygon", {
        points: points([...places(least), ...places(most).reverse()]),
        class: "interval",
      }),
      svg("polyline", { points: points(likely), class: "curve without" }),
      ...likely.map(([ns, share]) =>
        svg("circle", { cx: x(ns), cy: y(share), r: 3, class: "mark without" }),
      ),
      svg(
        "text",
        { x: x(most.p50_ns) + 8, y: y(0.5) + 16, class: "value" },
        `without: p50 ${range(least.p50_ns, most.p50_ns)}`,
      ),
    );
  }
  return plot;
}

/** A line for each percentile from where it is to where it would be. */
function percentiles(findings: Finding[]): HTMLElement {
  const servers = new Set(findings.map((it) => it.culprit.endpoint)).size > 1;
  return table(
    { class: "percentiles" },
    ["without", ...(servers ? ["server"] : []), ...PERCENTILES.map(([, label]) => label)],
    findings.map((finding) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, finding.cause),
        servers && h("td", {}, finding.culprit.endpoint),
        ...PERCENTILES.map(([name]) => cell(finding.latency[name], finding.counterfactual, name)),
      ),
    ),
  );
}

function cell(now: number, then: Prediction, name: keyof Latency): HTMLElement {
  const meter = h("span", { class: "meter", "aria-hidden": "true" });
  const kept = h("span");
  kept.style.width = `${now > 0 ? Math.max(1, (then[name] / now) * 100) : 100}%`;
  meter.append(kept);
  return h(
    "td",
    { class: "number" },
    h("s", {}, duration(now)),
    " ",
    h("b", {}, range(then.least[name], then.most[name])),
    meter,
  );
}
