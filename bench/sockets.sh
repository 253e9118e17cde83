#!/bin/bash
# How long `tcpwhy sockets` takes to list many sockets: connections over the loopback of a network
# namespace of its own, held open by one process at each side, or
# by as few as the limit of descriptors allows.
#
# Usage: bench/sockets.sh [CONNECTIONS]    100,000 by default: 200,000 sockets. Needs root, python3
# and util-linux. TCPWHY names the built program; REPEATS is how often it runs (the best counts).
# The bar is 2 s for 200,000 sockets; on a machine with
# other work read the CPU time, user and system. All ends after 120 s, whatever happens.
set -euo pipefail
: "${TCPWHY:?the tcpwhy to measure}"
connections=${1:-100000}
repeats=${REPEATS:-3}
work=$(mktemp -d)
trap 'kill "${holder:-0}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT

cat >"$work/hold.py" <<'PYTHON'
import os, resource, socket, sys, time
connections, ready = int(sys.argv[1]), sys.argv[2]
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
try:
    hard = max(hard, connections + 1_000)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
except ValueError:
    # Without CAP_SYS_RESOURCE: more processes instead.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
each = min(connections, hard - 100)
parts = [range(at, min(at + each, connections)) for at in range(0, connections, each)]
print(f"{connections} connections, {len(parts)} processes at each side", file=sys.stderr)
listener = socket.socket()
listener.bind(("127.0.0.1", 8080))
listener.listen(4096)
held = []
for part in parts:
    if os.fork() == 0:
        for number in part:
            client = socket.socket()
            # 25,000 connections from each address: each needs a port of its own.
            client.bind((f"127.0.1.{1 + number // 25_000}", 10_100 + number % 25_000))
            client.connect(("127.0.0.1", 8080))
            held.append(client)
        time.sleep(110)
        os._exit(0)
pipe = os.pipe()
for part in parts:
    if os.fork() == 0:
        for _ in part:
            held.append(listener.accept()[0])
        os.write(pipe[1], b".")
        time.sleep(110)
        os._exit(0)
for _ in parts:
    os.read(pipe[0], 1)
open(ready, "w").close()
time.sleep(110)
PYTHON

# With its parent everything in the namespace ends.
timeout 120 unshare --net --pid --fork --kill-child --mount-proc sh -c \
    "ip link set lo up && exec python3 '$work/hold.py' $connections '$work/ready'" &
holder=$!
until [ -e "$work/ready" ]; do
    kill -0 "$holder" || exit 1
    sleep 0.2
done
# The first process inside, as it is numbered outside.
inside=$(pgrep -P "$(pgrep -P "$holder" | head -1)" | head -1)
for _ in $(seq "$repeats"); do
    for output in "" --json; do
        TIMEFORMAT="sockets ${output:-text}: %R s elapsed, %U s user + %S s system"
        time { "$TCPWHY" sockets --netns "$inside" $output >"$work/out" || [ $? -eq 1 ]; }
    done
done
grep -c '"state"' "$work/out" | sed 's/$/ sockets in the last JSON/'
