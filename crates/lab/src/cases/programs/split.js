// Node's http server that flushes the header first: split.js ADDRESS PORT BYTES NODELAY
const http = require("node:http");

const [address, port, bytes, nodelay] = process.argv.slice(2);
const body = Buffer.alloc(Number(bytes), "n");
const server = http.createServer({ noDelay: nodelay === "1" }, (request, response) => {
  response.writeHead(200, { "Content-Type": "text/plain", "Content-Length": body.length });
  response.flushHeaders();
  setImmediate(() => response.end(body));
});
server.keepAliveTimeout = 60000;
server.listen(Number(port), address);
