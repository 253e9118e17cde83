#!/bin/bash
# How fast the diagnosis is beside tools that read the same capture, in one run on this machine.
#
# Usage: bench.sh [CAPTURE]     Makes a capture of its own if none is given (needs root).
# TCPWHY and MULTIPLY name the built programs; REPEATS is how often each is run (the best counts).
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
: "${TCPWHY:?the tcpwhy to measure}" "${MULTIPLY:?the program that makes large captures}"
repeats=${REPEATS:-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

declare -A packages=([tcptrace]=tcptrace [tshark]=tshark [tcpdump]=tcpdump [taskset]=util-linux
    [capinfos]=wireshark-common [editcap]=wireshark-common [/usr/bin/time]=time)
[ $# -gt 0 ] || packages+=([nginx]=nginx [wrk]=wrk [ip]=iproute2 [curl]=curl)
missing=()
for program in "${!packages[@]}"; do
    command -v "$program" >/dev/null || missing+=("${packages[$program]}")
done
if [ ${#missing[@]} -gt 0 ]; then
    echo "missing: sudo apt-get install ${missing[*]}" >&2
    exit 2
fi

# Sets elapsed_s and cpu_s to the least of several runs, and peak_mb. Ratios on one core are of
# CPU time, which other work on the machine disturbs least.
measure() {
    elapsed_s= cpu_s=
    for _ in $(seq "$repeats"); do
        once "$@"
        elapsed_s=$(least "$run_s" "$elapsed_s")
        cpu_s=$(least "$run_cpu_s" "$cpu_s")
        peak_mb=$run_mb
    done
}

least() { awk -v new="$1" -v old="${2:-1e9}" 'BEGIN { print new + 0 < old + 0 ? new : old }'; }

# Sets run_s, run_cpu_s and run_mb. The shell's own clock tells milliseconds, GNU time only 10 of
# them, but the memory.
once() {
    local TIMEFORMAT='%3R %3U %3S'
    # Findings are no failure: tcpwhy's exit status is 1.
    { time /usr/bin/time -o "$work/memory" -f %M "$@" >/dev/null 2>&1 || true; } 2>"$work/time"
    read -r run_s user_s system_s <"$work/time"
    run_cpu_s=$(awk "BEGIN { print $user_s + $system_s }")
    run_mb=$(($(tail -1 "$work/memory") / 1024))
}

# row NAME PACKETS REFERENCE_CPU_S: what was measured last, and how many times the reference.
row() {
    awk -v name="$1" -v packets="$2" -v reference="$3" -v s="$elapsed_s" -v cpu="$cpu_s" \
        -v mb="$peak_mb" 'BEGIN {
        printf "%-30s %8.3f s %8.2f s CPU %7.2f M packets/s %6d MiB %7.2f x\n", name, s, cpu,
            packets / cpu / 1e6, mb, cpu / reference }'
}

capture=${1:-}
if [ -z "$capture" ]; then
    capture=$work/capture.pcap
    echo 'capturing nginx and wrk in network namespaces, 45 s to 4 min ...'
    "$here/traffic.sh" "$capture"
fi
packets=$(capinfos -Mc "$capture" | awk '/Number of packets/ { print $NF }')
bytes=$(stat -c %s "$capture")
cat "$capture" >/dev/null
printf '%s packets, %s bytes each; %s; best of %s\n\n' \
    "$packets" $((bytes / packets)) "$(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo)" \
    "$repeats"

echo '-- one core, the whole capture; CPU time as a multiple of that of tcpwhy'
one="taskset -c 0"
# shellcheck disable=SC2086
{
    measure $one "$TCPWHY" --threads 1 "$capture"; reference=$cpu_s alone_s=$elapsed_s
    row 'tcpwhy FILE' "$packets" "$reference"
    measure $one tcpdump -r "$capture" -w /dev/null
    row 'tcpdump -r FILE -w /dev/null' "$packets" "$reference"
    measure $one tcptrace -n -l -r "$capture"
    row 'tcptrace -n -l -r FILE' "$packets" "$reference"
    measure $one dd if="$capture" of=/dev/null bs=128k
    row 'dd: reading it, no more' "$packets" "$reference"
}

echo
part_packets=$((packets < 600000 ? packets : 600000))
echo "-- one core, $part_packets of its packets: from its beginning, middle and end"
third=$((part_packets / 3)) middle=$((packets / 2))
editcap -r "$capture" "$work/part.pcap" "1-$third" "$((middle + 1))-$((middle + third))" \
    "$((packets - third + 1))-$packets"
# shellcheck disable=SC2086
{
    measure $one "$TCPWHY" --threads 1 "$work/part.pcap"; part=$cpu_s
    row 'tcpwhy FILE' "$part_packets" "$part"
    measure $one tshark -r "$work/part.pcap" -q -z expert
    row 'tshark -r FILE -q -z expert' "$part_packets" "$part"
}

echo
echo '-- two cores; where others use them too, CPU time tells what idle ones would do'
side_by_side() {
    for core in 0 1; do taskset -c "$core" "$TCPWHY" --threads 1 "$capture" & done
    wait
}
measure taskset -c 0,1 "$TCPWHY" --threads 2 "$capture"
awk -v s="$elapsed_s" -v cpu="$cpu_s" -v mb="$peak_mb" -v alone="$alone_s" -v one="$reference" 'BEGIN {
    printf "%-30s %8.3f s %8.2f s CPU %25d MiB\n", "tcpwhy FILE", s, cpu, mb
    printf "%.2f x as fast as on one by the clock, %.2f x by CPU time\n", alone / s, 2 * one / cpu }'
export -f side_by_side
export TCPWHY capture
measure bash -c side_by_side
awk -v s="$elapsed_s" -v cpu="$cpu_s" -v alone="$alone_s" -v one="$reference" 'BEGIN {
    printf "what this machine has to give: two on one core each, which share nothing, make %.2f x, %.2f x by CPU time\n",
        2 * alone / s, 2 * 2 * one / cpu }'
for threads in 1 2; do
    "$TCPWHY" --threads "$threads" "$capture" >"$work/answer.$threads" || true
done
cmp "$work/answer.1" "$work/answer.2" && echo 'the answer is the same, byte for byte'

echo
echo '-- a small file: start to end'
editcap -r "$capture" "$work/small.pcap" 1-100
measure "$TCPWHY" "$work/small.pcap"
awk -v s="$elapsed_s" 'BEGIN { printf "%-30s %8.1f ms\n", "tcpwhy, 100 packets", s * 1e3 }'

# CPU time, because the input comes through a pipe from a program that makes it up.
grow() {
    local name=$1
    shift
    "$MULTIPLY" "$@" | /usr/bin/time -o "$work/time" -f '%U %S %M' "$TCPWHY" --threads 1 - \
        >/dev/null 2>&1 || true
    read -r user_s system_s run_kb < <(tail -1 "$work/time")
    awk -v name="$name" -v packets="${!#}" -v s="$user_s" -v t="$system_s" -v kb="$run_kb" 'BEGIN {
        printf "%-44s %9.2f s CPU %6.0f ns/packet %6d MiB\n", name, s + t, (s + t) * 1e9 / packets,
            kb / 1024 }'
}

echo
echo '-- growth with packets: the capture over and over, later and from other clients'
for count in 200000 2000000 20000000; do
    grow "$count packets" repeat "$capture" "$count"
done
echo
echo '-- growth with connections: all open at once, 6 million packets'
for count in 100 10000 1000000; do
    grow "$count connections" open "$count" 6000000
done
