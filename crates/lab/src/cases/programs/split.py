"""http.server on keep-alive connections: split.py ADDRESS PORT BYTES NODELAY

Its `wfile` is not buffered: end_headers writes the header, the handler the body.
"""

import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BODY = b"p" * int(sys.argv[3])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = sys.argv[4] == "1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    address_family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET


Server((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
