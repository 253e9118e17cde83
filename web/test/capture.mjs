// Captures made in a test: Ethernet frames with IPv4 and TCP, as a pcap file of microseconds.

const address = (text) => Buffer.from(text.split(".").map(Number));

function frame({
  source,
  destination,
  source_port,
  destination_port,
  seq,
  ack,
  flags,
  payload = "",
}) {
  const data = Buffer.from(payload, "latin1");
  const tcp = Buffer.alloc(20);
  tcp.writeUInt16BE(source_port, 0);
  tcp.writeUInt16BE(destination_port, 2);
  tcp.writeUInt32BE(seq >>> 0, 4);
  tcp.writeUInt32BE(ack >>> 0, 8);
  tcp[12] = 5 << 4;
  tcp[13] = flags;
  tcp.writeUInt16BE(64_240, 14);
  const ip = Buffer.alloc(20);
  ip[0] = 0x45;
  ip.writeUInt16BE(40 + data.length, 2);
  ip.writeUInt16BE(0x4000, 6);
  ip[8] = 64;
  ip[9] = 6;
  address(source).copy(ip, 12);
  address(destination).copy(ip, 16);
  return Buffer.concat([Buffer.alloc(12), Buffer.from([8, 0]), ip, tcp, data]);
}

/** A file of segments, each with `at_us`, in the order given. */
export function capture(segments) {
  const header = Buffer.alloc(24);
  header.writeUInt32LE(0xa1b2c3d4, 0);
  header.writeUInt16LE(2, 4);
  header.writeUInt16LE(4, 6);
  header.writeUInt32LE(65_535, 16);
  header.writeUInt32LE(1, 20);
  const records = segments.map((segment) => {
    const bytes = frame(segment),
      record = Buffer.alloc(16);
    record.writeUInt32LE(1_700_000_000 + Math.floor(segment.at_us / 1e6), 0);
    record.writeUInt32LE(segment.at_us % 1e6, 4);
    record.writeUInt32LE(bytes.length, 8);
    record.writeUInt32LE(bytes.length, 12);
    return Buffer.concat([record, bytes]);
  });
  return Buffer.concat([header, ...records]);
}

const ATTACK = "</script><script>window.hit=1</script><img/src=x/onerror=window.hit=2>";

/** Requests with markup in target, Host and Server, answered after 200 ms each. */
export function hostile() {
  const [client, server] = ["198.51.100.7", "192.0.2.80"];
  const request = `GET /${ATTACK} HTTP/1.1\r\nHost: ${ATTACK}\r\n\r\n`;
  const response = `HTTP/1.1 200 OK\r\nServer: ${ATTACK}\r\nContent-Length: 2\r\n\r\nok`;
  const segments = [];
  let [seq, ack, at_us] = [1_000, 5_000, 0];
  const send = (from_client, flags, payload = "") => {
    const [source, destination] = from_client ? [client, server] : [server, client];
    const [source_port, destination_port] = from_client ? [40_000, 80] : [80, 40_000];
    segments.push({
      at_us,
      source,
      destination,
      source_port,
      destination_port,
      seq: from_client ? seq : ack,
      ack: from_client ? ack : seq,
      flags,
      payload,
    });
    const length = payload.length + (flags & 3 ? 1 : 0);
    if (from_client) seq += length;
    else ack += length;
    at_us += 500;
  };
  send(true, 2);
  send(false, 18);
  send(true, 16);
  for (let at = 0; at < 10; at++) {
    send(true, 24, request);
    at_us += 200_000;
    send(false, 24, response);
    send(true, 16);
  }
  return capture(segments);
}

/** SYNs of 400 addresses without an answer. */
export function flood() {
  const syns = Array.from({ length: 400 }, (_, at) => ({
    at_us: at * 2_500,
    source: `10.1.${at >> 8}.${at & 255}`,
    destination: "192.0.2.80",
    source_port: 1024 + at,
    destination_port: 80,
    seq: at * 77,
    ack: 0,
    flags: 2,
  }));
  return capture(syns);
}
