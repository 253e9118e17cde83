#!/usr/bin/env python3
"""An open-loop client of HTTP/1.1, independent of `tcpwhy load`: requests are planned at a fixed rate, and
latency counts from the planned time. A request without an answer counts at its age at the end.

Usage: bench/open-loop.py PORT RATE SECONDS CONNECTIONS     prints p50, p90, p99 in ms and the number of
                                                            requests, of which so many have no answer
"""

import socket
import sys
import threading
import time

port, rate, seconds, connections = map(int, sys.argv[1:])
planned = iter(range(rate * seconds))
lock = threading.Lock()
latencies, waiting = [], {}
REQUEST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def work(connection):
    while True:
        with lock:
            number = next(planned, None) if time.monotonic() < end else None
            if number is None:
                return
            due = began + number / rate
            waiting[number] = due
        time.sleep(max(0, due - time.monotonic()))
        connection.sendall(REQUEST)
        received = b""
        while not received.endswith(b"ok"):
            received += connection.recv(4096)
        with lock:
            latencies.append(time.monotonic() - due)
            del waiting[number]


opened = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
for it in opened:
    it.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
began = time.monotonic()
end = began + seconds
threads = [threading.Thread(target=work, args=(it,), daemon=True) for it in opened]
for thread in threads:
    thread.start()
# What was sent in time is waited for; the rest was never sent.
for thread in threads:
    thread.join()
unsent = [end - (began + number / rate) for number in planned]
unsent += [end - due for due in waiting.values()]
everything = sorted(latencies + unsent)
of = lambda part: everything[min(len(everything) - 1, int(part * len(everything)))] * 1e3
print(f"{of(0.5):.3f} {of(0.9):.3f} {of(0.99):.3f} {len(everything)} {len(unsent)}")
