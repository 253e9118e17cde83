// Colours of owners: Okabe and Ito's, which colour-blind readers tell apart. What a fault owns is hatched as
// well, so that nothing depends on hue alone.

const COLOURS: Record<string, string> = {
  path: "#0072b2",
  bandwidth: "#56b4e9",
  queueing: "#3b8ea5",
  server: "#8c8c8c",
  client: "#bdbdbd",
  dns: "#009e73",
  connect: "#66c2a5",
  tls: "#2f6f5e",
  nagle_delayed_ack: "#d55e00",
  delayed_ack: "#e69f00",
  send_buffer: "#cc79a7",
  receive_window: "#a6559d",
  zero_window: "#7a3b8f",
  http2_flow_control: "#5b2a86",
  congestion_window: "#f0c419",
  retransmission_timeout: "#b2182b",
  fast_recovery: "#e0736b",
  syn_retransmit: "#8b1a4a",
  http_100_continue: "#b5651d",
  unknown: "#555555",
};

const FAULTS = new Set([
  "nagle_delayed_ack",
  "delayed_ack",
  "send_buffer",
  "receive_window",
  "zero_window",
  "http2_flow_control",
  "retransmission_timeout",
  "fast_recovery",
  "syn_retransmit",
  "http_100_continue",
]);

export const colourOf = (owner: string): string => COLOURS[owner] ?? "#555555";
export const isFault = (owner: string): boolean => FAULTS.has(owner);

/** Black or white, whichever has more contrast on `colour` (WCAG 2.2, relative luminance). */
export function inkOn(colour: string): string {
  const channel = (at: number) => {
    const value = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  const luminance = 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
  return (luminance + 0.05) ** 2 > 1.05 * 0.05 ? "#000" : "#fff";
}

/** The colour of a style sheet's variable, for a canvas. */
export const themed = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();
