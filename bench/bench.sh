#!/bin/bash
# How fast the diagnosis is beside tools that read the same captures, on several mixes of traffic, in
# one run on this machine.
#
# Usage: bench.sh [CAPTURE…]     Makes captures of the mixes of traffic.sh if none is given (needs root).
# TCPWHY, MULTIPLY and STAGES name the built programs; MIXES chooses mixes; REPEATS is how often each program is
# run (the best counts; tshark, which takes long, runs once); PACKETS is how many packets a mix has at
# most, PART of how many the slow programs read the beginning: so many that the start of a program does not
# count. The targets are for every mix; none of them fails the run.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
: "${TCPWHY:?the tcpwhy to measure}" "${MULTIPLY:?the program that makes large captures}"
: "${STAGES:?the program that runs the stages}"
read -ra mixes <<<"${MIXES:-small pages tls bulk redis middle faults}"
repeats=${REPEATS:-3} part=${PART:-400000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

declare -A packages=([tcptrace]=tcptrace [tshark]=tshark [valgrind]=valgrind [taskset]=util-linux
    [capinfos]=wireshark-common [editcap]=wireshark-common [/usr/bin/time]=time)
[ $# -gt 0 ] || packages+=([nginx]=nginx-light [wrk]=wrk [redis-benchmark]=redis-tools
    [redis-server]=redis-server [ip]=iproute2 [tc]=iproute2 [nft]=nftables [tcpdump]=tcpdump
    [openssl]=openssl)
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

# Prints how many instructions a program takes: of the processor's counter where there is one.
if perf stat -e instructions:u true 2>&1 | grep -q '[0-9].*instructions'; then
    counter=perf
    instructions() {
        perf stat -x, -o "$work/counter" -e instructions:u "$@" >/dev/null 2>&1 || true
        awk -F, '/instructions/ { print $1 }' "$work/counter"
    }
else
    counter=callgrind
    instructions() {
        valgrind --tool=callgrind --callgrind-out-file=/dev/null --log-file="$work/counter" "$@" \
            >/dev/null 2>&1 || true
        awk '/Collected/ { print $NF }' "$work/counter"
    }
fi

# with_threads COUNT CAPTURE: sets elapsed_s and cpu_s of the diagnosis on so many cores.
with_threads() { measure taskset -c "$(seq -s, 0 $(($1 - 1)))" "$TCPWHY" --threads "$1" "$2"; }

one='taskset -c 0'
# compare NAME CAPTURE: a row of the table.
compare() {
    local name=$1 capture=$2 packets bytes part_packets
    packets=$(capinfos -Mc "$capture" | awk '/Number of packets/ { print $NF }')
    bytes=$(stat -c %s "$capture")
    editcap -F pcap -r "$capture" "$work/part.pcap" "1-$part"
    part_packets=$((packets < part ? packets : part))
    local own other own_cpu other_cpu own_mb own_part alone_s
    # shellcheck disable=SC2086
    {
        own=$(instructions "$TCPWHY" --threads 1 "$work/part.pcap")
        other=$(instructions tcptrace -n -l -r "$work/part.pcap")
        with_threads 1 "$capture"; own_cpu=$cpu_s own_mb=$peak_mb alone_s=$elapsed_s
        measure $one tcptrace -n -l -r "$capture"; other_cpu=$cpu_s
        measure $one "$TCPWHY" --threads 1 "$work/part.pcap"; own_part=$cpu_s
        repeats=1 measure $one tshark -r "$work/part.pcap" -q -z expert
    }
    local tshark_cpu=$cpu_s
    with_threads 2 "$capture"
    awk -v name="$name" -v packets="$packets" -v bytes="$bytes" -v part="$part_packets" \
        -v own="$own" -v other="$other" -v own_cpu="$own_cpu" -v other_cpu="$other_cpu" \
        -v own_part="$own_part" -v tshark="$tshark_cpu" -v alone="$alone_s" -v two="$elapsed_s" \
        -v two_cpu="$cpu_s" -v mb="$own_mb" 'BEGIN {
        printf "%-9s %8d %6d %8d %8d %6.1f x %7d %7d %6.1f x %6.0f x %6.2f x %6.2f x %5d\n", name,
            packets, bytes / packets, own / part, other / part, other / own, own_cpu * 1e9 / packets,
            other_cpu * 1e9 / packets, other_cpu / own_cpu, tshark / own_part, alone / two,
            2 * own_cpu / two_cpu, mb }'
    for threads in 1 2; do
        "$TCPWHY" --threads "$threads" "$capture" >"$work/answer.$threads" || true
    done
    cmp "$work/answer.1" "$work/answer.2" || echo "$name: two threads give another answer"
}

cat <<END
$(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo); best of $repeats runs
Instructions a packet ($counter) and the ratio to tshark are those of the first $part packets, CPU time a
packet (ns) and the rest those of the whole capture. Two cores: by the clock, and by CPU time, which
is what idle cores would give.
Targets, by CPU time: tcptrace 2 x on tls and 2.5 x on every other mix, tshark 25 x; two cores 1.5 x, 64 MiB.

END
printf '%-9s %8s %6s %17s %8s %15s %8s %8s %17s %5s\n' '' '' 'bytes' 'instructions' '' 'CPU ns' '' '' \
    'two cores' ''
printf '%-9s %8s %6s %8s %8s %8s %7s %7s %8s %8s %8s %8s %5s\n' mix packets each tcpwhy tcptrace \
    ratio tcpwhy tcptrace ratio tshark clock CPU MiB
if [ $# -gt 0 ]; then
    for capture in "$@"; do
        compare "$(basename "$capture" .pcap)" "$capture"
    done
    grown=$1
else
    for mix in "${mixes[@]}"; do
        "$here/traffic.sh" "$mix" "$work/$mix.pcap"
        compare "$mix" "$work/$mix.pcap"
        [ "$mix" = "${mixes[0]}" ] || rm "$work/$mix.pcap"
    done
    grown=$work/${mixes[0]}.pcap
fi

echo
echo '-- two cores: what this machine has to give'
side_by_side() {
    for core in 0 1; do taskset -c "$core" "$TCPWHY" --threads 1 "$1" & done
    wait
}
export -f side_by_side
export TCPWHY
with_threads 1 "$grown"; alone_s=$elapsed_s alone_cpu_s=$cpu_s
measure bash -c "side_by_side '$grown'"
awk -v s="$elapsed_s" -v cpu="$cpu_s" -v alone="$alone_s" -v one="$alone_cpu_s" 'BEGIN {
    printf "two processes on one core each, which share nothing: %.2f x by the clock, %.2f x by CPU time\n",
        2 * alone / s, 2 * 2 * one / cpu }'

echo
echo '-- a small file: start to end'
editcap -r "$grown" "$work/small-file.pcap" 1-100
measure "$TCPWHY" "$work/small-file.pcap"
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
echo '-- growth with packets: the first capture over and over, later and from other clients'
for count in 200000 2000000 20000000; do
    grow "$count packets" repeat "$grown" "$count"
done
echo
echo '-- growth with connections: all open at once, 6 million packets; target: 64 MiB + 1 KiB each'
for count in 100 10000 1000000; do
    grow "$count connections" open "$count" 6000000
done

echo
echo '-- a run in stages beside one process: CPU time, and bytes that are moved'
"$MULTIPLY" repeat "$grown" 2000000 >"$work/stages.pcap"
for buckets in 1 16 64; do "$STAGES" "$buckets" "$work/stages.pcap"; done
