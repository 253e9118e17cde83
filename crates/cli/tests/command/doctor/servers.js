// Servers of HTTP/2 and WebSockets with the library of Node: servers.js KIND ADDRESS PORT
const crypto = require("node:crypto");
const http = require("node:http");
const http2 = require("node:http2");
const [kind, address, port] = process.argv.slice(2);
const WINDOW = 16 << 20;

// Answers when it has read the body.
function answer(stream, body) {
  stream.on("data", () => {});
  stream.on("end", () => {
    stream.respond({ ":status": 200 });
    stream.end(body);
  });
}

// The message of a HealthCheckResponse behind its prefix, and the status in trailers.
function health(stream, headers, status) {
  const chunks = [];
  stream.on("data", (chunk) => chunks.push(chunk));
  stream.on("end", () => {
    const body = Buffer.concat(chunks);
    const isCall =
      headers[":method"] === "POST" && headers["content-type"] === "application/grpc" && headers.te === "trailers";
    const isKnown = headers[":path"] === "/grpc.health.v1.Health/Check" && body.readUInt32BE(1) === body.length - 5;
    const type = { ":status": 200, "content-type": "application/grpc" };
    if (!isCall || !isKnown || status === "unimplemented") {
      stream.respond({ ...type, "grpc-status": "12", "grpc-message": "unknown service" }, { endStream: true });
      return;
    }
    const service = body.length > 7 ? body.subarray(7).toString() : "";
    if (service !== "" && service !== "shop.Cart") {
      stream.respond({ ...type, "grpc-status": "5" }, { endStream: true });
      return;
    }
    stream.respond(type, { waitForTrailers: true });
    stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
    stream.end(Buffer.from([0, 0, 0, 0, 2, 8, status === "serving" ? 1 : 2]));
  });
}

const kinds = {
  // The windows of the standard, 65,535 bytes.
  narrow: () => http2.createServer().on("stream", (stream) => answer(stream, "ok")),
  wide: () =>
    http2
      .createServer({ settings: { initialWindowSize: WINDOW } })
      .on("session", (session) => session.setLocalWindowSize(WINDOW))
      .on("stream", (stream) => answer(stream, "ok")),
  // Reads a frame of 16 KiB in 100 ms, which is slower than its window and the path are.
  slow: () =>
    http2.createServer().on("stream", (stream) => {
      stream.on("data", () => {
        stream.pause();
        setTimeout(() => stream.resume(), 100);
      });
      stream.on("end", () => {
        stream.respond({ ":status": 200 });
        stream.end("ok");
      });
    }),
  large: () => http2.createServer().on("stream", (stream) => answer(stream, Buffer.alloc(150_000, "x"))),
  medium: () => http2.createServer().on("stream", (stream) => answer(stream, Buffer.alloc(40_000, "x"))),
  // Answers 60 KB, in two parts with 150 ms between them.
  pausing: () =>
    http2.createServer().on("stream", (stream) => {
      stream.respond({ ":status": 200 });
      stream.write(Buffer.alloc(30_000, "x"));
      setTimeout(() => stream.end(Buffer.alloc(30_000, "x")), 150);
    }),
  // Ends each connection with an error at its third request.
  calm: () =>
    http2.createServer().on("stream", (stream) => {
      stream.session.requests = (stream.session.requests ?? 0) + 1;
      if (stream.session.requests === 3) {
        stream.session.goaway(http2.constants.NGHTTP2_ENHANCE_YOUR_CALM, stream.id - 2);
        stream.session.destroy();
        return;
      }
      answer(stream, "ok");
    }),
  // Ends each connection without an error behind its third answer.
  leaving: () =>
    http2.createServer().on("stream", (stream) => {
      stream.session.requests = (stream.session.requests ?? 0) + 1;
      answer(stream, "ok");
      if (stream.session.requests === 3) stream.session.close();
    }),
  // Two streams at once, each for 20 ms; or 100.
  limited: () => http2.createServer({ settings: { maxConcurrentStreams: 2 } }).on("stream", late),
  unlimited: () => http2.createServer({ settings: { maxConcurrentStreams: 100 } }).on("stream", late),
  http1: () => http.createServer((_, response) => response.end("hello")),
  websocket: () => upgrading((key) => accept(key)),
  cached: () => upgrading(() => accept("dGhlIHNhbXBsZSBub25jZQ==")),
};
for (const status of ["serving", "not-serving", "unimplemented"]) {
  kinds[status] = () => http2.createServer().on("stream", (stream, headers) => health(stream, headers, status));
}

function late(stream) {
  setTimeout(() => {
    stream.respond({ ":status": 200 });
    stream.end("ok");
  }, 20);
}

function accept(key) {
  return crypto.createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
}

function upgrading(answers) {
  const keys = new Set();
  return http.createServer().on("upgrade", (request, socket) => {
    const key = request.headers["sec-websocket-key"];
    // A key that was seen before is no nonce.
    const isNew = !keys.has(key) && Buffer.from(key, "base64").length === 16;
    keys.add(key);
    socket.on("error", () => {});
    socket.end(
      isNew
        ? "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
            `Sec-WebSocket-Accept: ${answers(key)}\r\n\r\n`
        : "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
    );
  });
}

const server = kinds[kind]();
server.on("sessionError", () => {});
server.on("session", (session) => session.on("error", () => {}));
server.on("stream", (stream) => stream.on("error", () => {}));
server.listen(Number(port), address, () => console.error(`port ${server.address().port}`));
