"""A server of HTTP/1.1 that answers at once, but for what is named: situations.py ADDRESS PORT key=value…

errors=N      one answer in N has status 503
tail=N        one answer in N takes 400 ms
workers=N     N requests at a time, each for 20 ms; the others wait
standstill=N  no answer for N ms, once, 1 s after ten connections are open; others take 3 ms, so that no
              request is much older than that when it begins
bytes=N       the body of each answer has N bytes
pauses=N      an answer comes in nine parts, N ms apart
"""

import random
import socket
import sys
import threading
import time

address, port = sys.argv[1], int(sys.argv[2])
asked = {key: int(value) for key, value in (it.split("=") for it in sys.argv[3:])}
slots = threading.Semaphore(asked.get("workers") or 1_000_000)
chance = random.Random(asked.get("seed", 0))
still = threading.Lock()
opened = 0
stands_at = None


def stand():
    """Holds the caller, and all others, while the server stands still."""
    global stands_at
    with still:
        if stands_at and time.monotonic() >= stands_at:
            stands_at = None
            time.sleep(asked["standstill"] / 1e3)


def one_in(number):
    return number > 0 and chance.random() * number < 1


def answer(connection):
    if "standstill" in asked:
        stand()
        time.sleep(0.003)
    with slots:
        if asked.get("workers"):
            time.sleep(0.02)
    if one_in(asked.get("tail", 0)):
        time.sleep(0.4)
    if asked.get("pauses"):
        return in_parts(connection)
    body = b"x" * asked.get("bytes", 5)
    status = b"503 Service Unavailable" if one_in(asked.get("errors", 0)) else b"200 OK"
    head = b"HTTP/1.1 " + status + b"\r\nContent-Length: %d\r\n\r\n" % len(body)
    connection.sendall(head + body)


def in_parts(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(8):
        time.sleep(asked["pauses"] / 1e3)
        connection.sendall(b"5\r\nhello\r\n")
    connection.sendall(b"0\r\n\r\n")


def serve(connection):
    global opened, stands_at
    opened += 1
    if opened == 10 and asked.get("standstill"):
        stands_at = time.monotonic() + 1
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    received = b""
    try:
        while data := connection.recv(65536):
            received += data
            while b"\r\n\r\n" in received:
                received = received.split(b"\r\n\r\n", 1)[1]
                answer(connection)
    except OSError:
        pass
    opened -= 1
    connection.close()


listener = socket.create_server((address, port), backlog=1024)
print("listens", file=sys.stderr, flush=True)
while True:
    connection, _ = listener.accept()
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
