// Time lines that belong to no connection: handshakes at a flooded server, look-ups of names.

import type { Frame, Lookup, Run, SetUps } from "./data";
import { count, counted, duration, frameButton, h, svg } from "./dom";

const W = 980,
  LEFT = 60,
  RIGHT = 12;

export function setUps(of: SetUps): HTMLElement {
  const H = 260,
    TOP = 10,
    BOTTOM = 30;
  let open = 0;
  const halfOpen = of.begun.map(
    (begun, at) => ((open += begun - of.completed[at]! - of.ended[at]!), Math.max(open, 0)),
  );
  const a_second = (counts: number[]) => counts.map((many) => many / (of.interval_ns / 1e9));
  const lines: [string, string, number[]][] = [
    ["SYNs a second", "begun", a_second(of.begun)],
    ["SYN-ACKs a second", "answered", a_second(of.answered)],
    ["completed a second", "completed", a_second(of.completed)],
    ["half-open (begun and neither completed nor reset)", "halfopen", halfOpen],
  ];
  const plot = (height: number, shown: typeof lines) => {
    const most = Math.max(1, ...shown.flatMap(([, , values]) => values));
    const x = (at: number) => LEFT + ((W - LEFT - RIGHT) * at) / of.begun.length;
    const y = (value: number) => TOP + (height - TOP - BOTTOM) * (1 - value / most);
    const said = shown
      .map(([label, , values]) => `${label}: at most ${count(Math.max(...values))}`)
      .join("; ");
    const chart = svg("svg", {
      viewBox: `0 0 ${W} ${height}`,
      class: "chart",
      role: "img",
      "aria-label": `Handshakes at ${of.server} over time. ${said}`,
    });
    for (const share of [0, 0.5, 1]) {
      chart.append(
        svg("line", {
          x1: LEFT,
          x2: W - RIGHT,
          y1: y(most * share),
          y2: y(most * share),
          class: "grid",
        }),
        svg(
          "text",
          { x: LEFT - 6, y: y(most * share) + 4, class: "tick end" },
          count(most * share),
        ),
      );
    }
    for (let tick = 0; tick <= 6; tick++) {
      const at = (of.begun.length * tick) / 6;
      chart.append(
        svg(
          "text",
          { x: x(at), y: height - BOTTOM + 18, class: tick === 6 ? "tick end" : "tick middle" },
          duration(of.first_ns + at * of.interval_ns),
        ),
      );
    }
    for (const [, name, values] of shown) {
      const path = values
        .map(
          (value, at) =>
            `${at === 0 ? "M" : "L"}${x(at).toFixed(1)} ${y(value).toFixed(1)}H${x(at + 1).toFixed(1)}`,
        )
        .join("");
      chart.append(svg("path", { d: path, class: `step ${name}` }));
    }
    const legend = h(
      "p",
      { class: "legend" },
      ...shown.map(([label, name]) => h("span", { class: `key ${name}` }, label)),
    );
    return h("figure", {}, h("figcaption", {}, legend), chart);
  };
  return h(
    "div",
    { class: "setups" },
    h("h4", {}, `Handshakes at ${of.server}`),
    plot(H, lines.slice(0, 3)),
    plot(180, lines.slice(3)),
  );
}

export function lookups(run: Run): HTMLElement | null {
  const { lookups: all, lookups_omitted } = run.picture;
  if (all.length === 0) return null;
  const file = (frame: Frame) =>
    run.report.inputs.length > 1 ? run.report.inputs[frame[0]]?.path : undefined;
  return h(
    "section",
    { id: `${run.id}lookups` },
    h("h2", {}, "Look-ups of names"),
    h(
      "p",
      { class: "note" },
      "Each bar is a query, from its sending to its answer; a dashed frame had none. All rows have one scale.",
    ),
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
            ...["began", "client", "name", "took", "outcome", "queries", "frames"].map((label) =>
              h("th", { scope: "col" }, label),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          ...all.map((lookup) =>
            h(
              "tr",
              {},
              h("td", { class: "number" }, `${(lookup.start_ns / 1e6).toFixed(3)} ms`),
              h("td", {}, lookup.client),
              h("td", {}, lookup.name ?? h("i", {}, "not kept")),
              h("td", { class: "number" }, h("b", {}, duration(lookup.end_ns - lookup.start_ns))),
              h("td", {}, lookup.outcome),
              h("td", { class: "wide" }, queries(lookup, longest(all))),
              h(
                "td",
                {},
                ...lookup.queries
                  .slice(0, 6)
                  .flatMap((query) => [
                    frameButton(query.frame[1], file(query.frame)),
                    query.answer ? "→" : " ",
                    query.answer && frameButton(query.answer[1], file(query.answer)),
                    " ",
                  ]),
              ),
            ),
          ),
        ),
      ),
    ),
    lookups_omitted > 0 &&
      h(
        "p",
        { class: "note" },
        `${counted(lookups_omitted, "shorter look-up is", "shorter look-ups are")} not shown.`,
      ),
  );
}

const longest = (all: Lookup[]) =>
  all.reduce((most, it) => Math.max(most, it.end_ns - it.start_ns), 1);

function queries(lookup: Lookup, most: number): SVGSVGElement {
  const height = 16 * lookup.queries.length + 4,
    width = 420;
  const x = (ns: number) => width * Math.min(1, Math.max(0, (ns - lookup.start_ns) / most));
  const said = lookup.queries.map(
    (it) =>
      `${it.qtype} to ${it.server}, ${it.answered_ns === null ? "no answer" : duration(it.answered_ns - it.sent_ns)}`,
  );
  const plot = svg("svg", {
    viewBox: `0 0 ${width + 200} ${height}`,
    class: "queries",
    role: "img",
    "aria-label": said.join("; "),
  });
  lookup.queries.forEach((query, at) => {
    const from = x(query.sent_ns),
      to = x(query.answered_ns ?? lookup.end_ns);
    const state =
      query.answered_ns === null
        ? "silent"
        : query.rcode === 0 || query.rcode === null
          ? "answered"
          : "failed";
    plot.append(
      svg("rect", {
        x: from,
        y: 16 * at + 3,
        width: Math.max(2, to - from),
        height: 12,
        class: `query ${state}`,
      }),
      svg(
        "text",
        { x: Math.max(to, from + 2) + 5, y: 16 * at + 13, class: "tick" },
        `${query.qtype} ${query.server}${query.over_tcp ? " (TCP)" : ""} ${query.answered_ns === null ? "no answer" : duration(query.answered_ns - query.sent_ns)}`,
      ),
    );
  });
  return plot;
}
