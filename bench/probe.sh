#!/bin/bash
# How far the round trips of `tcpwhy probe` are from the kernel's own: across a veth pair without and
# with a delay, beside tcpi_rtt of connections and ping(8), in alternating runs. Needs root, python3,
# ping, and for the delay tc with netem.
#
# Usage: bench/probe.sh [TCPWHY] [RUNS]     prints least round trips in µs; exit 1 above the bar
set -euo pipefail
cd "$(dirname "$0")/.."
tcpwhy=$(realpath "${1:-target/release/tcpwhy}")
runs=${2:-5}

near=probe-near-$$
far=probe-far-$$
server=
clean() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    ip netns del "$near" 2>/dev/null || true
    ip netns del "$far" 2>/dev/null || true
}
trap clean EXIT

ip netns add "$near"
ip netns add "$far"
ip -n "$near" link add v0 type veth peer name v0 netns "$far"
ip -n "$near" addr add 10.92.0.1/24 dev v0
ip -n "$far" addr add 10.92.0.2/24 dev v0
ip -n "$near" link set v0 up
ip -n "$far" link set v0 up
ip netns exec "$far" python3 -c '
import socket
s = socket.socket()
s.bind(("10.92.0.2", 8080))
s.listen(64)
while True:
    s.accept()[0].close()
' &
server=$!
until ip netns exec "$near" bash -c 'exec 3<>/dev/tcp/10.92.0.2/8080' 2>/dev/null; do
    kill -0 "$server"
    sleep 0.1
done

# One run of each, as JSON and as a number of milliseconds.
measure() {
    for _ in $(seq "$runs"); do
        ip netns exec "$near" "$tcpwhy" probe 10.92.0.2:8080 --no-hops --no-mtu --json \
            --count 20 --interval 20ms | tr -d '\n'
        echo
        ip netns exec "$near" ping -q -c 20 -i 0.02 10.92.0.2 | sed -n 's/^rtt.* = \([0-9.]*\).*/\1/p'
    done
}

judge() {
    python3 -c '
import json, sys
lines = sys.stdin.read().splitlines()
bar_us, worst = 50, 0
print(f"{sys.argv[1]}: least of 20, us       syn    echo  tcpi_rtt    ping")
for report, ping in zip(lines[::2], lines[1::2]):
    r = json.loads(report)
    syn, echo = r["syn"]["min_ns"] / 1e3, r["echo"]["min_ns"] / 1e3
    kernel, ping = r["connect"]["tcpi_rtt_min_us"], float(ping) * 1e3
    worst = max(worst, abs(syn - kernel), abs(echo - ping))
    print(f"{syn:35.1f} {echo:7.1f} {kernel:9} {ping:7.0f}")
print(f"largest difference: {worst:.1f} us (bar {bar_us})")
sys.exit(worst > bar_us)
' "$1"
}

status=0
measure | judge "no delay" || status=1
if ip netns exec "$far" tc qdisc add dev v0 root netem delay 10ms 2>/dev/null; then
    measure | judge "10 ms" || status=1
else
    echo "10 ms: not measured, the kernel has no netem" >&2
fi
exit $status
