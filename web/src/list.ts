// The list of exchanges: sort, filter by cause and server, search.

import type { Exchange, Run } from "./data";
import { bar } from "./bars";
import { copier, count, counted, duration, flowFilter, frameButton, h, words } from "./dom";

const ROWS_A_PAGE = 50;

type By = "wall_ns" | "start_ns" | "kind" | "server" | "client" | "cause";

const COLUMNS: [By | null, string][] = [
  ["start_ns", "began"],
  ["kind", "request"],
  ["client", "client"],
  ["server", "server"],
  ["wall_ns", "took"],
  ["cause", "causes"],
  [null, "time by owner"],
  [null, "frames"],
];

export function exchanges(run: Run): HTMLElement | null {
  const { rows, seen } = run.picture.exchanges;
  if (rows.length === 0) return null;
  return new List(run, rows, seen).element;
}

class List {
  readonly element: HTMLElement;
  private readonly body = h("tbody");
  private readonly found = h("p", { class: "note", role: "status" });
  private readonly more = h(
    "button",
    {
      type: "button",
      click: () => {
        this.shown += ROWS_A_PAGE;
        this.draw();
      },
    },
    "Show more",
  );
  private readonly heads: HTMLElement[] = [];
  private by: By = "wall_ns";
  private down = true;
  private text = "";
  private cause = "";
  private server = "";
  private shown = ROWS_A_PAGE;

  constructor(
    private readonly run: Run,
    private readonly rows: Exchange[],
    seen: number,
  ) {
    const causes = [...new Set(rows.flatMap((row) => row.causes))].sort();
    const servers = [...new Set(rows.map((row) => row.server))].sort();
    const search = h("input", {
      type: "search",
      placeholder: "GET /items, 10.0.0.7:50112, #241 …",
      "aria-label": "Search exchanges",
      input: () =>
        this.change(() => {
          this.text = search.value.trim().toLowerCase();
        }),
    });
    const choose = (label: string, values: string[], set: (value: string) => void) => {
      const select: HTMLSelectElement = h(
        "select",
        { "aria-label": label, change: () => this.change(() => set(select.value)) },
        h("option", { value: "" }, label),
        ...values.map((value) =>
          h("option", { value }, label.includes("cause") ? words(value) : value),
        ),
      );
      return select;
    };
    for (const [by, label] of COLUMNS) {
      const button = by && h("button", { type: "button", click: () => this.sort(by) }, label);
      this.heads.push(h("th", { scope: "col" }, button || label));
    }
    const listed =
      rows.length < seen ? `The ${count(rows.length)} that took longest, of ${count(seen)}.` : "";
    this.element = h(
      "section",
      { id: `${run.id}exchanges` },
      h("h2", {}, "Exchanges"),
      h(
        "div",
        { class: "controls" },
        search,
        choose("All causes", causes, (value) => {
          this.cause = value;
        }),
        choose("All servers", servers, (value) => {
          this.server = value;
        }),
      ),
      this.found,
      h(
        "div",
        { class: "scroll" },
        h("table", { class: "list" }, h("thead", {}, h("tr", {}, ...this.heads)), this.body),
      ),
      this.more,
      listed !== "" && h("p", { class: "note" }, listed),
    );
    this.draw();
  }

  private change(apply: () => void): void {
    apply();
    this.shown = ROWS_A_PAGE;
    this.draw();
  }

  private sort(by: By): void {
    this.down = this.by === by ? !this.down : by === "wall_ns";
    this.by = by;
    this.draw();
  }

  private matches(row: Exchange): boolean {
    if (this.cause !== "" && !row.causes.includes(this.cause)) return false;
    if (this.server !== "" && row.server !== this.server) return false;
    if (this.text === "") return true;
    if (/^#\d+$/.test(this.text)) {
      const frame = Number(this.text.slice(1));
      return row.first[1] <= frame && frame <= row.last[1];
    }
    return `${row.kind} ${row.client} ${row.server} ${row.causes.map(words).join(" ")} ${row.outcome}`
      .toLowerCase()
      .includes(this.text);
  }

  private draw(): void {
    const value = (row: Exchange): number | string =>
      this.by === "cause" ? row.causes.join() : row[this.by];
    const found = this.rows
      .filter((row) => this.matches(row))
      .sort((one, other) => {
        const [first, second] = [value(one), value(other)];
        const order = first < second ? -1 : first > second ? 1 : 0;
        return this.down ? -order : order;
      });
    COLUMNS.forEach(([by], at) => {
      if (by === this.by)
        this.heads[at]!.setAttribute("aria-sort", this.down ? "descending" : "ascending");
      else this.heads[at]!.removeAttribute("aria-sort");
    });
    const most = this.rows[0]?.wall_ns ?? 1;
    this.body.replaceChildren(...found.slice(0, this.shown).map((row) => this.row(row, most)));
    this.found.textContent = counted(found.length, "exchange", "exchanges");
    this.more.hidden = found.length <= this.shown;
  }

  private row(row: Exchange, most: number): HTMLElement {
    const file =
      this.run.report.inputs.length > 1 ? this.run.report.inputs[row.first[0]]?.path : undefined;
    const outcome = row.outcome === "answered" ? null : h("small", { class: "odd" }, row.outcome);
    return h(
      "tr",
      {},
      h("td", { class: "number" }, `${(row.start_ns / 1e6).toFixed(3)} ms`),
      h("td", { class: "request" }, row.kind === "" ? h("i", {}, "not known") : row.kind, outcome),
      h(
        "td",
        { class: "address" },
        copier(
          row.client,
          flowFilter(row.client, row.server),
          "Wireshark filter of the connection",
        ),
        h("small", {}, `no. ${row.number} on it`),
      ),
      h("td", { class: "address" }, row.server),
      h("td", { class: "number" }, h("b", {}, duration(row.wall_ns))),
      h("td", {}, row.causes.map(words).join(", ")),
      h("td", { class: "wide" }, bar(row.ledger, most)),
      h("td", {}, frameButton(row.first[1], file), "–", frameButton(row.last[1], file)),
    );
  }
}
