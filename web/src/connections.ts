// The list of connections, each opened by its number.

import type { Connection, Run } from "./data";
import { bar } from "./bars";
import { connectionOpener } from "./detail";
import { copier, count, counted, duration, flowFilter, frameButton, h, table } from "./dom";
import { arrows } from "./keys";

export function connections(run: Run): HTMLElement | null {
  const { connections: all, connections_omitted } = run.report;
  if (all.length === 0) return null;
  const whole = (it: Connection) => Object.values(it.ledger).reduce((sum, ns) => sum + ns, 0);
  const most = all.reduce((sum, it) => Math.max(sum, whole(it)), 1);
  const row = (it: Connection) =>
    h(
      "tr",
      {},
      h("td", { class: "number" }, connectionOpener(run, it, `Connection ${it.number}`)),
      h(
        "td",
        { class: "address" },
        copier(
          it.client,
          flowFilter(it.client, it.server),
          "the Wireshark filter of the connection",
        ),
      ),
      h("td", { class: "address" }, it.server),
      h("td", {}, it.protocol),
      h("td", { class: "number" }, count(it.exchanges)),
      h("td", { class: "number" }, it.lost_ns > 0 ? duration(it.lost_ns) : "–"),
      h("td", { class: "number" }, it.rtt_min_ns > 0 ? duration(it.rtt_min_ns) : "not measured"),
      h("td", { class: "wide" }, bar(it.ledger, most)),
      h("td", {}, frameButton(it.first_frame.frame, it.first_frame.file)),
    );
  const list = table(
    { class: "list connections" },
    [
      "no.",
      "client",
      "server",
      "protocol",
      "exchanges",
      "cost of faults",
      "round trip",
      "time by owner",
      "first frame",
    ],
    all.map(row),
  );
  arrows(list.querySelector("tbody")!, "button.open");
  return h(
    "section",
    { id: `${run.id}connections` },
    h("h2", {}, "Connections, worst first"),
    list,
    connections_omitted > 0 &&
      h(
        "p",
        { class: "note" },
        `${counted(connections_omitted, "other connection is", "other connections are")} not listed.`,
      ),
  );
}
