"""Adds up what tshark and tcptrace say, by connection and direction. Called by oracle.sh.

oracle.py tshark FILE     reads oracle.sh's fields of every TCP segment
oracle.py tcptrace FILE   reads the output of tcptrace -l -r -n

Prints a line for each direction: FILE SENDER RECEIVER NAME=COUNT …, without what is 0.
"""

import ipaddress
import re
import sys
from collections import Counter

FIELDS = ["source", "source6", "source_port", "target", "target6", "target_port", "syn", "bytes",
          "retransmission", "fast_retransmission", "spurious_retransmission", "out_of_order",
          "duplicate_ack", "zero_window", "keep_alive", "window_full", "initial_rtt"]

# The labels of tcptrace and the names used here.
LABELS = {
    "total packets": "packets", "pure acks sent": "pure_acks", "unique bytes sent": "unique_bytes",
    "actual data pkts": "data_packets", "actual data bytes": "bytes", "rexmt data pkts": "rexmt",
    "rexmt data bytes": "rexmt_bytes", "zwnd probe pkts": "zero_window_probes",
    "outoforder pkts": "out_of_order", "zero win adv": "zero_window", "RTT min": "rtt_min_ms",
    "RTT from 3WHS": "rtt_3whs_ms", "duplicate acks": "duplicate_acks",
}


def endpoint(address, port):
    address = ipaddress.ip_address(address)
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def line(file, sender, receiver, counts):
    said = (f"{name}={value}" for name, value in counts.items() if float(value))
    print(file, sender, receiver, *said)


def tshark(file):
    directions = {}
    for row in sys.stdin:
        seen = dict(zip(FIELDS, row.rstrip("\n").split("\t")))
        ends = (endpoint(seen["source"] or seen["source6"], seen["source_port"]),
                endpoint(seen["target"] or seen["target6"], seen["target_port"]))
        counts = directions.setdefault(ends, Counter())
        counts["packets"] += 1
        counts["bytes"] += int(seen["bytes"])
        syn = "syn_" if seen["syn"] in ("1", "True") else ""
        for name in FIELDS[8:16]:
            counts[syn + name] += bool(seen[name])
        if seen["initial_rtt"]:
            counts["initial_rtt_ns"] = round(float(seen["initial_rtt"]) * 1e9)
    for (sender, receiver), counts in directions.items():
        line(file, sender, receiver, counts)


def tcptrace(file):
    ends, counts = [], ({}, {})
    for row in [*sys.stdin, "host end: 0.0.0.0:0"]:
        host = re.match(r"\s*host \w+:\s+(\S+)", row)
        if host and len(ends) == 2:
            for mine, (sender, receiver) in enumerate([ends, ends[::-1]]):
                line(file, sender, receiver, counts[mine])
            ends, counts = [], ({}, {})
        if host:
            address, _, port = host[1].rpartition(":")
            ends.append(endpoint(address, port))
        pair = re.match(r"\s*([\w .]+):\s+([\d.]+)\D*?\s+([\w .]+):\s+([\d.]+)", row)
        if pair and (name := LABELS.get(pair[1])):
            counts[0].setdefault(name, pair[2])
            counts[1].setdefault(name, pair[4])


if __name__ == "__main__":
    {"tshark": tshark, "tcptrace": tcptrace}[sys.argv[1]](sys.argv[2])
