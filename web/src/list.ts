// The list of exchanges: sorted, filtered, and each opened by its name.

import type { Exchange, Run } from "./data";
import { bar } from "./bars";
import { fileOf } from "./data";
import { numberOf, opener } from "./detail";
import { copier, count, counted, duration, flowFilter, frameButton, h, named, table } from "./dom";
import { controls, type Filter } from "./filter";
import { arrows } from "./keys";
import { word } from "./language";
import * as place from "./place";

const ROWS_A_PAGE = 50,
  ROWS_A_PAGE_NARROW = 15;

type By = "wall_ns" | "start_ns" | "kind" | "server" | "client" | "cause";

const COLUMNS: [By | null, string][] = [
  ["kind", "request"],
  ["wall_ns", "took"],
  ["cause", "causes"],
  ["start_ns", "began"],
  ["client", "client"],
  ["server", "server"],
  [null, "time by owner"],
  [null, "frames"],
];

export function exchanges(run: Run, filter: Filter): HTMLElement | null {
  const { rows, seen } = run.picture.exchanges;
  if (rows.length === 0) return null;
  return new List(run, rows, seen, filter).element;
}

class List {
  readonly element: HTMLElement;
  private readonly body: HTMLTableSectionElement;
  private readonly found = h("p", { class: "note", role: "status" });
  private readonly more = h(
    "button",
    {
      type: "button",
      click: () => {
        this.shown += this.step();
        this.draw();
      },
    },
    "Show more",
  );
  private readonly heads: HTMLElement[] = [];
  private shown = this.step();
  private drawn = "";

  constructor(
    private readonly run: Run,
    private readonly rows: Exchange[],
    seen: number,
    private readonly filter: Filter,
  ) {
    for (const [by, label] of COLUMNS) {
      const button = by && h("button", { type: "button", click: () => this.sort(by) }, label);
      this.heads.push(h("th", { scope: "col", role: "columnheader" }, button || label));
    }
    const listed =
      rows.length < seen ? `The ${count(rows.length)} that took longest, of ${count(seen)}.` : "";
    const list = table({ class: "list exchanges" }, this.heads, []);
    this.body = list.querySelector("tbody")!;
    arrows(this.body, "button.open");
    const order: HTMLSelectElement = h(
      "select",
      { "aria-label": "Order", class: "order", change: () => this.sort(order.value as By) },
      ...COLUMNS.filter(([by]) => by).map(([by, label]) =>
        h("option", { value: by }, `by ${word(label)}`),
      ),
    );
    order.value = this.order().by;
    this.element = h(
      "section",
      { id: `${run.id}exchanges` },
      h("h2", {}, "Exchanges"),
      controls(filter, rows),
      h("div", { class: "controls" }, this.found, order),
      list,
      this.more,
      listed !== "" && h("p", { class: "note" }, listed),
      h(
        "p",
        { class: "note keys" },
        "A request opens its ladder and graphs. Keys: / search, ↑ ↓ move in the list, Enter opens, Esc closes.",
      ),
    );
    place.listen(() => {
      order.value = this.order().by;
      this.draw();
    });
    this.draw();
  }

  private step(): number {
    return innerWidth < 640 ? ROWS_A_PAGE_NARROW : ROWS_A_PAGE;
  }

  /** The order in the address: a column, with `-` before it if the least comes first. */
  private order(): { by: By; isDown: boolean } {
    const written = place.value(`${this.run.id}sort`) || "wall_ns";
    const by = written.replace(/^[-+]/, "") as By;
    const isKnown = COLUMNS.some(([column]) => column === by);
    return isKnown
      ? { by, isDown: by === "wall_ns" ? !written.startsWith("-") : written.startsWith("+") }
      : { by: "wall_ns", isDown: true };
  }

  private sort(by: By): void {
    const now = this.order();
    const isDown = now.by === by ? !now.isDown : by === "wall_ns";
    const written = by === "wall_ns" ? (isDown ? "" : `-${by}`) : isDown ? `+${by}` : by;
    place.set({ [`${this.run.id}sort`]: written });
  }

  private draw(): void {
    const { by, isDown } = this.order();
    const value = (row: Exchange): number | string =>
      by === "cause" ? row.causes.join() : row[by];
    const found = this.rows.filter(this.filter.matcher()).sort((one, other) => {
      const [first, second] = [value(one), value(other)];
      const order = first < second ? -1 : first > second ? 1 : 0;
      return isDown ? -order : order;
    });
    // Opening and scrolling change the address as well, but not the list.
    const asked = JSON.stringify([by, isDown, found.map((row) => row.first)]);
    if (asked !== this.drawn) {
      if (this.drawn !== "") this.shown = Math.min(this.shown, this.step());
      this.drawn = asked;
    } else if (this.body.childElementCount === Math.min(found.length, this.shown)) return;
    COLUMNS.forEach(([column], at) => {
      if (column === by)
        this.heads[at]!.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      else this.heads[at]!.removeAttribute("aria-sort");
    });
    const most = this.rows[0]?.wall_ns ?? 1;
    this.body.replaceChildren(...found.slice(0, this.shown).map((row) => this.row(row, most)));
    const said =
      found.length === this.rows.length
        ? counted(found.length, "exchange", "exchanges")
        : `${count(found.length)} of ${counted(this.rows.length, "exchange", "exchanges")}`;
    this.found.textContent = word(said);
    this.more.hidden = found.length <= this.shown;
  }

  private row(row: Exchange, most: number): HTMLElement {
    const outcome = row.outcome === "answered" ? null : h("small", { class: "odd" }, row.outcome);
    const cells = h(
      "tr",
      {},
      h(
        "td",
        { class: "request" },
        opener(this.run, row, row.kind === "" ? "kind not known" : row.kind),
        outcome,
      ),
      h("td", { class: "number took" }, h("b", {}, duration(row.wall_ns))),
      h(
        "td",
        { class: "ids" },
        ...row.causes.flatMap((it, at) => [at > 0 ? ", " : "", h("span", {}, it)]),
      ),
      h("td", { class: "number" }, `${(row.start_ns / 1e6).toFixed(3)} ms`),
      h(
        "td",
        { class: "address" },
        copier(
          row.client,
          flowFilter(row.client, row.server),
          "Wireshark filter of the connection",
        ),
        h("small", {}, `no. ${numberOf(this.run, row)} on it`),
      ),
      h("td", { class: "address" }, row.server),
      h("td", { class: "wide" }, bar(row.ledger, most)),
      h(
        "td",
        { class: "frames" },
        frameButton(row.first[1], fileOf(this.run, row.first[0])),
        "–",
        frameButton(row.last[1], fileOf(this.run, row.last[0])),
      ),
    );
    return named(
      cells,
      COLUMNS.map(([, label]) => label),
    );
  }
}
