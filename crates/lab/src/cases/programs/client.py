"""Client of the lab: client.py PROTOCOL ADDRESS PORT key=value ...

Prints one JSON object per request with the client's own clock around it.
"""

import json
import os
import select
import socket
import ssl
import struct
import sys
import threading
import time

PRINTING = threading.Lock()


def connect(to, nodelay):
    family = socket.AF_INET6 if ":" in to[0] else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    if nodelay:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.settimeout(30)
    sock.connect(to)
    return sock


def endpoint(sock):
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def report(sock, start, request_bytes, response_bytes, connected=0, tls=0):
    line = {
        "start_ns": start,
        "end_ns": time.time_ns(),
        "connect_ns": connected,
        "tls_ns": tls,
        "client_endpoint": endpoint(sock),
        "request_bytes": request_bytes,
        "response_bytes": response_bytes,
    }
    with PRINTING:
        print(json.dumps(line))


def exchange(sock, writes, is_whole, start=None, connected=0, tls=0):
    """Sends each of `writes` by a call of its own and reads until `is_whole(answer)`."""
    start = start or time.time_ns()
    for data in writes:
        sock.sendall(data)
    answer = bytearray()
    while not is_whole(answer):
        data = sock.recv(262144)
        if not data:
            raise EOFError("the server closed the connection")
        answer += data
    report(sock, start, sum(map(len, writes)), len(answer), connected, tls)


def redis_end(data, at):
    """Where the reply at `at` ends; None when it is not whole."""
    line = data.find(b"\r\n", at)
    if line < 0:
        return None
    if data[at : at + 1] != b"$":
        return line + 2
    length = int(data[at + 1 : line])
    end = line + 2 if length < 0 else line + 4 + length
    return end if end <= len(data) else None


def redis_replies(count):
    def is_whole(data):
        at = 0
        for _ in range(count):
            at = redis_end(data, at)
            if at is None:
                return False
        return True

    return is_whole


def redis_command(*words):
    head = b"*%d\r\n" % len(words)
    return [head] + [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]


def redis(to, o):
    sock = connect(to, o["nodelay"])
    value = b"v" * o["value_bytes"]
    for number in range(o["requests"]):
        if number:
            time.sleep(o["spacing_ns"] / 1e9)
        pieces = []
        for index in range(o["pipeline"]):
            key = b"key:%d" % ((number + index) % 7)
            if (number + index) % 3:
                pieces += redis_command(b"SET", key, value)
            else:
                pieces += redis_command(b"GET", key)
        writes = pieces if o["split"] else [b"".join(pieces)]
        exchange(sock, writes, redis_replies(o["pipeline"]))


def pg_message(kind, body):
    return kind + struct.pack("!I", len(body) + 4) + body


def pg_ready(data):
    """Whether the answer ends with ReadyForQuery."""
    at = 0
    while at + 5 <= len(data):
        end = at + 1 + struct.unpack("!I", data[at + 1 : at + 5])[0]
        if end > len(data):
            return False
        if data[at : at + 1] == b"Z":
            return True
        if data[at : at + 1] == b"E":
            raise RuntimeError(bytes(data[at:end]))
        at = end
    return False


def postgres(to, o):
    start = time.time_ns()
    sock = connect(to, o["nodelay"])
    connected = time.time_ns() - start
    parameters = b"user\0postgres\0database\0postgres\0\0"
    body = struct.pack("!I", 196608) + parameters
    startup = struct.pack("!I", len(body) + 4) + body
    exchange(sock, [startup], pg_ready, start, connected)
    for number in range(o["requests"]):
        time.sleep(o["spacing_ns"] / 1e9)
        value = b"%d" % number
        sql = b"select repeat('x', %d), $1::text" % o["value_bytes"]
        bind = b"\0\0" + struct.pack("!HHI", 0, 1, len(value)) + value + struct.pack("!H", 0)
        pieces = [
            pg_message(b"P", b"\0" + sql + b"\0" + struct.pack("!H", 0)),
            pg_message(b"B", bind),
            pg_message(b"E", b"\0" + struct.pack("!I", 0)),
            pg_message(b"S", b""),
        ]
        exchange(sock, pieces if o["split"] else [b"".join(pieces)], pg_ready)
    sock.sendall(pg_message(b"X", b""))


def http_end(data, at):
    """Where the response at `at` ends; None when it is not whole."""
    blank = data.find(b"\r\n\r\n", at)
    if blank < 0:
        return None
    length = 0
    for line in bytes(data[at:blank]).lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    end = blank + 4 + length
    return end if end <= len(data) else None


def http_responses(count):
    def is_whole(data):
        at = 0
        for _ in range(count):
            at = http_end(data, at)
            if at is None:
                return False
        return True

    return is_whole


def get(to, path):
    return f"GET {path} HTTP/1.1\r\nHost: {to[0]}:{to[1]}\r\nAccept: */*\r\n\r\n".encode()


def pipeline(to, o):
    """Several requests in one write, their responses in a row."""
    sock = connect(to, 1)
    for number in range(o["requests"]):
        time.sleep(o["spacing_ns"] / 1e9)
        count = 1 + number % o["pipeline"]
        exchange(sock, [get(to, "/file.bin") * count], http_responses(count))


def tls(to, o):
    """HTTP over TLS: a connection per request, or one for all."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    version = ssl.TLSVersion.TLSv1_2 if o["tls_version"] == 12 else ssl.TLSVersion.TLSv1_3
    context.minimum_version = context.maximum_version = version
    session, sock = None, None
    for number in range(o["requests"]):
        if number:
            time.sleep(o["spacing_ns"] / 1e9)
        start, connected, shaken = time.time_ns(), 0, 0
        if sock is None:
            plain = connect(to, 1)
            connected = time.time_ns() - start
            sock = context.wrap_socket(
                plain, do_handshake_on_connect=False, session=session if o["resume"] else None
            )
            sock.do_handshake()
            shaken = time.time_ns() - start - connected
        exchange(sock, [get(to, "/file.bin")], http_responses(1), start, connected, shaken)
        if o["new_connections"]:
            session = sock.session
            sock.close()
            sock = None


def chat(to, o):
    """Messages in both directions at once, as in a shell or over a WebSocket.

    The server echoes each message and talks by itself; an echo is one request.
    """
    sock = connect(to, 1)
    pending = bytearray()
    for number in range(o["requests"]):
        time.sleep(o["spacing_ns"] / 1e9 * (0.2 + number % 5 * 0.4))
        drain(sock, pending)
        text = os.urandom(1 + (number * 37) % o["value_bytes"]).hex().encode()
        message = b"E" + struct.pack("!I", len(text)) + text
        start = time.time_ns()
        sock.sendall(message)
        while not take_echo(pending):
            data = sock.recv(65536)
            if not data:
                raise EOFError("the server closed the connection")
            pending += data
        report(sock, start, len(message), len(message))


def drain(sock, pending):
    while select.select([sock], [], [], 0)[0]:
        pending += sock.recv(65536)
    while take_echo(pending):
        pass


def take_echo(pending):
    """Removes whole messages up to and including the first echo; whether there was one."""
    while len(pending) >= 5:
        end = 5 + struct.unpack("!I", pending[1:5])[0]
        if len(pending) < end:
            return False
        is_echo = pending[:1] == b"E"
        del pending[:end]
        if is_echo:
            return True
    return False


def main():
    protocol, address, port = sys.argv[1:4]
    options = {key: int(value) for key, value in (pair.split("=") for pair in sys.argv[4:])}
    protocols = {
        "redis": redis,
        "postgres": postgres,
        "pipeline": pipeline,
        "tls": tls,
        "chat": chat,
    }
    run = protocols[protocol]
    errors = []

    def one():
        try:
            run((address, int(port)), options)
        except Exception as error:  # reported by the exit status
            errors.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=one) for _ in range(options.get("connections", 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        sys.exit("\n".join(errors))


main()
