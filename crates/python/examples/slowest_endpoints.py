"""Prints the slowest percent of each server, and what it would be without each cause.

Usage: python slowest_endpoints.py CAPTURE…
"""

import sys

import tcpwhy


def main(captures: list[str]) -> None:
    """Reads the captures as one, and prints a line for each server and cause."""
    report = tcpwhy.read(captures)
    for finding in report.findings:
        print(f"{finding.cause} at {finding.endpoint}: {finding.lost_ns / 1e6:.1f} ms")
    for row in report.p99(by=["server", "cause"]).to_arrow().to_pylist():
        now_ms, without_ms = row["p99_ns"] / 1e6, row["p99_without_ns"] / 1e6
        print(f"{row['server']} {row['cause']}: p99 {now_ms:.3f} ms, without {without_ms:.3f} ms")


if __name__ == "__main__":
    main(sys.argv[1:])
