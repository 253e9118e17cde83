// Time lines that belong to no connection: handshakes at a flooded server, look-ups of names.

import { fileOf, type Frame, type Lookup, type Run, type SetUps } from "./data";
import { count, counted, duration, fluid, frameButton, h, svg, table } from "./dom";
import { word } from "./language";

const LEFT = 60,
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
  const plot = (W: number, height: number, shown: typeof lines) => {
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
    const ticks = W < 600 ? 3 : 6;
    for (let tick = 0; tick <= ticks; tick++) {
      const at = (of.begun.length * tick) / ticks;
      chart.append(
        svg(
          "text",
          { x: x(at), y: height - BOTTOM + 18, class: tick === ticks ? "tick end" : "tick middle" },
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
    return chart;
  };
  const figure = (height: number, shown: typeof lines) =>
    h(
      "figure",
      {},
      h(
        "figcaption",
        { class: "legend" },
        ...shown.map(([label, name]) => h("span", { class: `key ${name}` }, label)),
      ),
      fluid((width) => plot(width, height, shown)),
    );
  return h(
    "div",
    { class: "setups" },
    h("h4", {}, `Handshakes at ${of.server}`),
    figure(H, lines.slice(0, 3)),
    figure(180, lines.slice(3)),
  );
}

export function lookups(run: Run): HTMLElement | null {
  const { lookups: all, lookups_omitted } = run.picture;
  if (all.length === 0) return null;
  const most = all.reduce((sum, it) => Math.max(sum, it.end_ns - it.start_ns), 1);
  const button = ([file, frame]: Frame) => frameButton(frame, fileOf(run, file));
  const row = (lookup: Lookup) =>
    h(
      "tr",
      {},
      h("td", { class: "request" }, lookup.name ?? h("i", {}, "not kept")),
      h("td", { class: "number took" }, h("b", {}, duration(lookup.end_ns - lookup.start_ns))),
      h("td", {}, lookup.outcome),
      h("td", { class: "number" }, `${(lookup.start_ns / 1e6).toFixed(3)} ms`),
      h("td", { class: "address" }, lookup.client),
      h("td", { class: "wide" }, queries(lookup, most)),
      h(
        "td",
        { class: "frames" },
        ...lookup.queries
          .slice(0, 6)
          .flatMap((query) => [
            button(query.frame),
            query.answer ? "→" : " ",
            query.answer && button(query.answer),
            " ",
          ]),
      ),
    );
  return h(
    "section",
    { id: `${run.id}lookups` },
    h("h2", {}, "Look-ups of names"),
    h(
      "p",
      { class: "note" },
      "Each bar is a query, from its sending to its answer; a dashed frame had none. All rows have one scale.",
    ),
    table(
      { class: "list lookups" },
      ["name", "took", "outcome", "began", "client", "queries", "frames"],
      all.map(row),
    ),
    lookups_omitted > 0 &&
      h(
        "p",
        { class: "note" },
        `${counted(lookups_omitted, "shorter look-up is", "shorter look-ups are")} not shown.`,
      ),
  );
}

/** A bar for each query of a look-up; `most` is what the whole width stands for, ns. */
function queries(lookup: Lookup, most: number): HTMLElement {
  const share = (ns: number) => Math.min(1, Math.max(0, (ns - lookup.start_ns) / most)) * 100;
  return h(
    "div",
    { class: "queries" },
    ...lookup.queries.map((query) => {
      const { answered_ns, sent_ns, rcode } = query;
      const state =
        answered_ns === null ? "silent" : rcode === 0 || rcode === null ? "answered" : "failed";
      const bar = h("span", { class: `query ${state}` });
      bar.style.marginLeft = `${share(sent_ns)}%`;
      bar.style.width = `${share(answered_ns ?? lookup.end_ns) - share(sent_ns)}%`;
      const took = answered_ns === null ? word("no answer") : duration(answered_ns - sent_ns);
      const way = query.over_tcp ? " (TCP)" : "";
      return h(
        "div",
        {},
        h("span", { class: "track", "aria-hidden": "true" }, bar),
        h("small", {}, `${query.qtype} ${query.server}${way} ${took}`),
      );
    }),
  );
}
