"""Other traffic of a host: datagrams to PORT of ADDRESS at a constant rate, or whoever takes them.

Usage: beside.py send ADDRESS PORT BITS_PER_SECOND | beside.py take ADDRESS PORT
"""

import socket
import sys
import time

DATAGRAM_BYTES = 1_200
# As a kernel's timer may fire: a few datagrams each.
BURST_S = 0.002

what, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
datagrams = socket.socket(family, socket.SOCK_DGRAM)
if what == "take":
    datagrams.bind((address, port))
    while True:
        datagrams.recv(2048)
per_second = int(sys.argv[4]) / 8 / DATAGRAM_BYTES
began, sent = time.monotonic(), 0
while True:
    due = int((time.monotonic() - began) * per_second)
    for _ in range(due - sent):
        datagrams.sendto(bytes(DATAGRAM_BYTES), (address, port))
    sent = due
    time.sleep(BURST_S)
