"""Echoes messages and sends some of its own meanwhile: chat.py ADDRESS PORT TALK_BYTES"""

import socket
import socketserver
import struct
import sys
import threading
import time

TALK_BYTES = int(sys.argv[3])


class Chat(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sending = threading.Lock()
        self.open = True
        threading.Thread(target=self.talk, daemon=True).start()
        pending = bytearray()
        while data := self.request.recv(65536):
            pending += data
            while len(pending) >= 5:
                end = 5 + struct.unpack("!I", pending[1:5])[0]
                if len(pending) < end:
                    break
                self.send(bytes(pending[:end]))
                del pending[:end]
        self.open = False

    def send(self, message):
        with self.sending:
            self.request.sendall(message)

    def talk(self):
        number = 0
        try:
            while self.open:
                time.sleep(0.013 + number % 4 * 0.021)
                text = b"t" * (1 + number * 53 % TALK_BYTES)
                self.send(b"T" + struct.pack("!I", len(text)) + text)
                number += 1
        except OSError:
            pass


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    address_family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET


Server((sys.argv[1], int(sys.argv[2])), Chat).serve_forever()
