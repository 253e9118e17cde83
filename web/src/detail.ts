// One exchange or connection, opened: its time by owner, its ladder, the graphs of its connection.

import { bar, legend } from "./bars";
import {
  briefly,
  faultsOf,
  fileOf,
  type Connection,
  type DrawnConnection,
  type DrawnExchange,
  type Exchange,
  type Frame,
  type RawGraphs,
  type Run,
} from "./data";
import { copier, counted, duration, ends, flowFilter, frameButton, h, quoted } from "./dom";
import { anchor } from "./findings";
import { graphs, type Graphs } from "./graphs";
import { ladder } from "./ladder";
import * as place from "./place";

const isSame = (one: Frame, other: Frame | null) =>
  other !== null && one[0] === other[0] && one[1] === other[1];

/** Name of a connection in the address of the page; with a number, of one of its exchanges. */
const key = (run: Run, [file, frame]: Frame, number?: number) =>
  `${run.id}${number === undefined ? "connection" : "exchange"}-${file}.${frame}${number === undefined ? "" : `.${number}`}`;

/** An exchange that is drawn, and its connection. */
type Place = [DrawnConnection, DrawnExchange];

const places = new WeakMap<Run, Map<string, Place>>();

function drawnOf(run: Run, row: Exchange): Place | undefined {
  let all = places.get(run);
  if (!all) {
    const named = (on: DrawnConnection) =>
      on.exchanges.map((it): [string, Place] => [key(run, ...it.row), [on, it]]);
    all = new Map(run.picture.connections.flatMap(named));
    places.set(run, all);
  }
  return all.get(key(run, row.first, row.number));
}

/** The number of an exchange on its connection, in the order of requests as far as that is known. */
export const numberOf = (run: Run, row: Exchange): number =>
  drawnOf(run, row)?.[1].number ?? row.number;

const open = (what: string, asked: string, label: string) =>
  h(
    "button",
    {
      type: "button",
      class: "open",
      title: `Open the ladder and graphs of this ${what}`,
      "aria-haspopup": "dialog",
      click: () => place.set({ open: asked }),
    },
    label,
  );

/** A button with the name of an exchange, which opens it. */
export const opener = (run: Run, row: Exchange, label: string): HTMLButtonElement =>
  open("exchange", key(run, row.first, row.number), label);

/** Opens an exchange. */
export const show = (run: Run, row: Exchange): void =>
  place.set({ open: key(run, row.first, row.number) });

/** A button that opens a connection of the report's list. */
export const connectionOpener = (run: Run, of: Connection, label: string): HTMLButtonElement =>
  open("connection", key(run, firstOf(run, of)), label);

function firstOf(run: Run, of: Connection): Frame {
  const file = run.report.inputs.findIndex((it) => it.path === of.first_frame.file);
  return [Math.max(file, 0), of.first_frame.frame];
}

const listed = (run: Run, drawn: DrawnConnection | undefined) =>
  drawn && run.report.connections.find((it) => isSame(firstOf(run, it), drawn.first));

/** The listed connection of an exchange: addresses are reused, so it is the last that began before. */
function connectionOf(run: Run, row: Exchange): DrawnConnection | undefined {
  const before = (it: DrawnConnection) =>
    it.first[0] < row.first[0] || (it.first[0] === row.first[0] && it.first[1] <= row.first[1]);
  return run.picture.connections
    .filter((it) => it.client === row.client && it.server === row.server && before(it))
    .sort((one, other) => one.first[0] - other.first[0] || one.first[1] - other.first[1])
    .pop();
}

function graphsOf(run: Run, drawn: DrawnConnection | undefined): RawGraphs | null {
  if (!drawn) return null;
  const shown = () => run.picture.drawings.find((it) => isSame(drawn.first, it.connection));
  return drawn.graphs ?? shown()?.graphs ?? null;
}

/** The dialog that shows what the address has open; `boards` has the graphs that are shown. */
export function detail(runs: Run[], boards: Set<Graphs>): HTMLDialogElement {
  const body = h("div", { class: "body" });
  const close = h(
    "button",
    { type: "button", class: "close", click: () => dialog.close() },
    "Close",
  );
  const dialog = h(
    "dialog",
    { class: "detail", "aria-labelledby": "detail-title" },
    h("form", { class: "bar-of-dialog", submit: (event) => event.preventDefault() }, close),
    body,
  );
  let shown = "",
    board: Graphs | null = null;
  let from: HTMLElement | null = null;
  const leave = () => {
    if (board) boards.delete(board);
    board = null;
    body.replaceChildren();
  };
  const follow = () => {
    const asked = place.value("open");
    if (asked === shown) return;
    leave();
    const content = asked === "" ? null : contents(runs, asked);
    shown = content ? asked : "";
    if (!content) {
      if (dialog.open) dialog.close();
      return;
    }
    board = content.board;
    if (board) boards.add(board);
    body.replaceChildren(...content.parts);
    if (!dialog.open) {
      from = document.activeElement instanceof HTMLElement ? document.activeElement : null;
      dialog.showModal();
    }
    dialog.scrollTop = 0;
    close.focus();
  };
  dialog.addEventListener("close", () => {
    shown = "";
    leave();
    place.set({ open: "" });
    // The list may have been drawn anew since.
    if (from?.isConnected) from.focus({ preventScroll: true });
  });
  // A click on the backdrop has the dialog itself as its target.
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  place.listen(follow);
  queueMicrotask(follow);
  return dialog;
}

interface Contents {
  parts: HTMLElement[];
  board: Graphs | null;
}

function contents(runs: Run[], asked: string): Contents | null {
  for (const run of runs) {
    const row = run.picture.exchanges.rows.find((it) => key(run, it.first, it.number) === asked);
    if (row) return exchange(run, row);
    const drawn = run.picture.connections.find((it) => key(run, it.first) === asked);
    if (drawn) return connection(run, drawn);
  }
  return null;
}

const facts = (all: [string, (Node | string)[]][]) =>
  h(
    "dl",
    { class: "facts" },
    ...all.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, ...value))),
  );

const title = (text: string) => h("h2", { id: "detail-title" }, text);

const command = (name: string, text: string, what: string, of = "") =>
  h(
    "p",
    { class: "command" },
    h("span", {}, name),
    h("code", {}, text),
    copier("copy", text, what, of),
  );

/** The command that draws the same in a terminal. */
function draw(run: Run, drawn: DrawnConnection | undefined, row: Exchange | null): string {
  const files = run.report.inputs.map((it) => quoted(it.path)).join(" ");
  const number = row ? ` --exchange ${numberOf(run, row)}` : "";
  const known = listed(run, drawn);
  if (known) return `tcpwhy ${files} --connection ${known.number}${number}`;
  const { address, port } = ends((row ?? drawn!).client);
  return `tcpwhy ${files} --filter 'host ${address} and port ${port}' --connection 1${number}`;
}

function exchange(run: Run, row: Exchange): Contents {
  const [drawn, own] = drawnOf(run, row) ?? [connectionOf(run, row), undefined];
  const file = fileOf(run, row.first[0]);
  const findings = run.report.findings
    .map((it, at) => [it, at] as const)
    .filter(([it]) => row.causes.includes(it.cause));
  const parts: HTMLElement[] = [
    title(`${row.kind === "" ? "Exchange" : row.kind}: ${duration(row.wall_ns)}`),
    facts([
      ["client", [row.client]],
      ["server", [row.server]],
      ["began", [`${(row.start_ns / 1e6).toFixed(3)} ms`]],
      ["outcome", [row.outcome]],
      [
        "frames",
        [frameButton(row.first[1], file), "–", frameButton(row.last[1], fileOf(run, row.last[0]))],
      ],
    ]),
    legend(row.ledger),
    bar(row.ledger, Math.max(row.wall_ns, 1)),
    h(
      "p",
      { class: "ways" },
      ...findings.flatMap(([it, at]) => [
        h("a", { href: `#${anchor(run, at)}` }, `Finding: ${it.cause}`),
        " ",
      ]),
      ...neighbours(run, row),
      drawn ? open("connection", key(run, drawn.first), "Its connection") : "",
    ),
    command("Wireshark", flowFilter(row.client, row.server), "the Wireshark filter", file),
    command("draw", draw(run, drawn, row), "the command"),
  ];
  if (!own) {
    parts.push(
      h(
        "p",
        { class: "note" },
        "Its ladder is not on this page, which draws the longest exchanges of the connections that it lists: the command above draws it.",
      ),
    );
  }
  const start_ms = (own?.start_ns ?? row.start_ns) / 1e6;
  const steps = own ? briefly(own.steps) : [];
  const end_ms = Math.max(
    start_ms + (steps[steps.length - 1]?.time_ns ?? 0) / 1e6,
    (row.start_ns + row.wall_ns) / 1e6,
  );
  const raw = graphsOf(run, drawn);
  const board =
    raw &&
    graphs({ ...raw, exchange_ms: [start_ms, end_ms] }, row, "detail", (at) => fileOf(run, at));
  if (own) {
    const show = board && ((ms: number) => board.show(ms));
    parts.push(ladder({ client: row.client, server: row.server, steps }, faultsOf(run), run, show));
  }
  if (board) parts.push(h("h3", {}, "Its connection"), board.element);
  return { parts, board };
}

/** The listed exchanges before and behind on the same connection. */
function neighbours(run: Run, row: Exchange): HTMLElement[] {
  const drawn = connectionOf(run, row);
  const mates = run.picture.exchanges.rows
    .filter((it) => it.client === row.client && it.server === row.server)
    .filter((it) => connectionOf(run, it) === drawn)
    .sort((one, other) => one.start_ns - other.start_ns || one.number - other.number);
  const at = mates.indexOf(row);
  const way = (to: Exchange | undefined, label: string) => {
    if (!to) return null;
    return opener(run, to, label);
  };
  return [way(mates[at - 1], "← Earlier"), way(mates[at + 1], "Later →")].filter(
    (it): it is HTMLButtonElement => it !== null,
  );
}

const MATES_MAX = 12;

function connection(run: Run, drawn: DrawnConnection): Contents {
  const known = listed(run, drawn);
  const file = fileOf(run, drawn.first[0]);
  const on = run.picture.exchanges.rows.filter((it) => drawnOf(run, it)?.[0] === drawn);
  const parts: HTMLElement[] = [
    title(`Connection ${known?.number ?? ""}: ${drawn.client} → ${drawn.server}`),
    facts([
      ["protocol", [known?.protocol ?? ""]],
      ["exchanges", [String(known?.exchanges ?? on.length)]],
      ["cost", [known && known.lost_ns > 0 ? duration(known.lost_ns) : "–"]],
      ["round trip", [known && known.rtt_min_ns > 0 ? duration(known.rtt_min_ns) : "not measured"]],
      ["first frame", [frameButton(drawn.first[1], file)]],
    ]),
  ];
  if (known && Object.values(known.ledger).some((ns) => ns > 0)) {
    const all = Object.values(known.ledger).reduce((sum, ns) => sum + ns, 0);
    parts.push(legend(known.ledger), bar(known.ledger, all));
  }
  parts.push(
    h(
      "p",
      { class: "ways" },
      on.length > 0 ? "Longest: " : "",
      ...on
        .slice(0, MATES_MAX)
        .map((it) => opener(run, it, `${it.kind || "exchange"} ${duration(it.wall_ns)}`)),
      on.length > MATES_MAX
        ? `and ${counted(on.length - MATES_MAX, "more exchange", "more exchanges")} in the list`
        : "",
    ),
    command("Wireshark", flowFilter(drawn.client, drawn.server), "the Wireshark filter", file),
    command("draw", draw(run, drawn, null), "the command"),
  );
  const raw = graphsOf(run, drawn);
  const { client, server } = drawn;
  const steps = briefly(drawn.steps),
    start_ms = drawn.start_ns / 1e6;
  const end_ms = start_ms + (steps[steps.length - 1]?.time_ns ?? 0) / 1e6;
  const whole: RawGraphs | null = raw && { ...raw, exchange_ms: [start_ms, end_ms] };
  const board = whole && graphs(whole, drawn, "detail", (at) => fileOf(run, at));
  const show = board && ((ms: number) => board.show(ms));
  parts.push(ladder({ client, server, steps }, faultsOf(run), run, show));
  if (board) parts.push(h("h3", {}, "Its graphs"), board.element);
  return { parts, board };
}
