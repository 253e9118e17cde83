# A web server that asks PostgreSQL of its own host for each request: asks_postgres.py ADDRESS PORT QUERIES QUERY
# Speaks the protocol of PostgreSQL itself: a start-up message, then simple queries, each answered by
# messages of which the last is `ReadyForQuery`.
import http.server, socket, struct, sys
host, port, queries, words = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
def until_ready(stream):
    while True:
        kind, length = struct.unpack('!ci', stream.read(5))
        stream.read(length - 4)
        if kind == b'Z': return
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    wbufsize = -1  # header and body in one write
    def setup(self):
        super().setup()
        self.database = socket.create_connection(('127.0.0.1', 5432))
        self.answers = self.database.makefile('rb')
        names = b'user\0postgres\0database\0postgres\0\0'
        self.database.sendall(struct.pack('!ii', 8 + len(names), 196608) + names)
        until_ready(self.answers)
    def do_GET(self):
        for row in range(queries):
            query = words.replace('ROW', str(row)).encode() + b'\0'
            self.database.sendall(b'Q' + struct.pack('!i', 4 + len(query)) + query)
            until_ready(self.answers)
        body = b'x' * 500
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words): pass
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6 if ':' in host else socket.AF_INET
    request_queue_size = 100
Server((host, port), Handler).serve_forever()
