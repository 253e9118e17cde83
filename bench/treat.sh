#!/bin/bash
# What `tcpwhy treat` brings on servers that run, as the tests of it measure: nginx, the JDK's HTTP
# server, Redis behind a client with Nagle's algorithm, a send buffer of 16 KiB on a path of 20 ms,
# each treated three times (ended by Ctrl-C, by `kill -9` and an undo, by another process); how long
# 1,000 connections take; whether connections that open meanwhile are missed.
#
# Usage: bench/treat.sh    Needs root, nginx, java and redis-server. It takes a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --quiet --package tcpwhy --test command -- --test-threads 1 --nocapture \
    servers:: nginx::nginx_becomes sockets::a_thousand sockets::no_connection |
    sed -n 's/^.*figure: //p; /^skipped/p; /^test result/p'
