#!/bin/bash
# What watching costs a saturated nginx and a saturated Redis: request rates with and without, in turns,
# beside tcpdump, strace and, where it is installed, perf; and the memory of a watch that runs long.
#
# Usage: live.sh     As root. TCPWHY names the built program; ROUNDS is how often each kind is run,
# SECONDS_EACH how long each run takes; SOAK_MINUTES, how long the soak takes (0: none, else 2 or more);
# SERVERS, which servers are measured (nginx redis).
set -euo pipefail
: "${TCPWHY:?the tcpwhy to measure}"
rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-4} soak_minutes=${SOAK_MINUTES:-0}
servers=${SERVERS:-nginx redis}
work=$(mktemp -d)
server=tcpwhy-bench-s-$$ client=tcpwhy-bench-c-$$
nginx_pid= redis_pid=

cleanup() {
    for pid in $nginx_pid $redis_pid; do kill "$pid" 2>/dev/null || true; done
    ip netns del "$server" 2>/dev/null || true
    ip netns del "$client" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

declare -A packages=([nginx]=nginx-light [wrk]=wrk [ip]=iproute2 [tcpdump]=tcpdump [strace]=strace
    [redis-server]=redis-server [redis-benchmark]=redis-tools)
missing=()
for program in "${!packages[@]}"; do
    command -v "$program" >/dev/null || missing+=("${packages[$program]}")
done
if [ ${#missing[@]} -gt 0 ]; then
    echo "missing: sudo apt-get install ${missing[*]}" >&2
    exit 2
fi
[ "$(id -u)" -eq 0 ] || { echo 'live.sh: network namespaces need root' >&2; exit 2; }

ip netns add "$server"
ip netns add "$client"
ip link add bench0 netns "$client" type veth peer name bench0 netns "$server"
for end in "$client 10.99.0.1" "$server 10.99.0.2"; do
    read -r netns address <<<"$end"
    ip -n "$netns" link set lo up
    ip -n "$netns" addr add "$address/24" dev bench0
    ip -n "$netns" link set bench0 up
done
cat >"$work/nginx.conf" <<END
worker_processes 1;
pid $work/nginx.pid;
error_log $work/error.log;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
    server { listen 10.99.0.2:8080; location / { return 200 'a small answer'; } }
}
END
ip netns exec "$server" nginx -c "$work/nginx.conf" -g 'daemon off;' &
nginx_pid=$!
for _ in $(seq 50); do
    [ -s "$work/nginx.pid" ] && break
    sleep 0.1
done
ip netns exec "$server" redis-server --bind 10.99.0.2 --port 6379 --save '' --protected-mode no \
    --dir "$work" >"$work/redis.log" &
redis_pid=$!
declare -A worker=([nginx]=$(pgrep -P "$(cat "$work/nginx.pid")" | head -1) [redis]=$redis_pid)

# Prints requests/s of 64 connections to the server $1.
load() {
    case $1 in
    nginx)
        ip netns exec "$client" wrk -t1 -c64 -d"${seconds}s" http://10.99.0.2:8080/ |
            awk '/Requests\/sec/ { print $2 }' ;;
    redis)
        # It takes a number of requests and no time.
        ip netns exec "$client" redis-benchmark -h 10.99.0.2 -c 64 -n "$redis_requests" -t get --csv |
            awk -F'"' '$2 == "GET" { print $4 }' ;;
    esac
}
redis_requests=20000
redis_requests=$(load redis | awk -v seconds="$seconds" '{ print int($1 * seconds) }')

# In place of the subshell that calls it, so that a signal reaches the watch.
watch_at() {
    exec ip netns exec "$server" "$TCPWHY" watch -i bench0 --json "$@" \
        >"$work/watch.json" 2>"$work/watch.err"
}

# Starts the observer named $1 of the process $2 in the background; sets observer to its pid.
start() {
    case $1 in
    'watch, default budget') watch_at & ;;
    'watch, no budget') watch_at --budget none & ;;
    'watch, packet socket') watch_at --budget none --packet-socket & ;;
    'tcpdump -s 128 -w FILE')
        ip netns exec "$server" tcpdump -i bench0 -s 128 -w "$work/dump.pcap" 2>"$work/tcpdump.err" & ;;
    'strace -f -p PID') strace -f -o "$work/strace.txt" -p "$2" 2>/dev/null & ;;
    'perf sched record') perf sched record -q -o "$work/perf.data" -p "$2" >/dev/null 2>&1 & ;;
    esac
    observer=$!
    sleep 1
}

# What the observer says it lost of how much, if it says so.
lost() {
    case $1 in
    watch*) tail -1 "$work/watch.json" | grep -o '"dropped_packets":[0-9]*' | cut -d: -f2 ;;
    tcpdump*) awk '/packets dropped by kernel/ { print $1 }' "$work/tcpdump.err" ;;
    esac
}

median() { sort -g | awk '{ all[NR] = $1 } END { print NR ? all[int((NR + 1) / 2)] : "-" }'; }

kinds=('watch, default budget' 'watch, no budget' 'watch, packet socket' 'tcpdump -s 128 -w FILE'
    'strace -f -p PID')
command -v perf >/dev/null && kinds+=('perf sched record')

# Each run under an observer stands between two without one, whose mean is what it is compared with: the speed
# of a machine that others use drifts. The first load of an observer is not counted: a watch needs about two
# seconds to find how many connections its budget pays for.
measure() {
    local name=$1
    load "$name" >/dev/null
    echo "-- $name with one thread and 64 connections, $rounds runs of each kind, $seconds s each"
    printf '%-26s %12s %12s %8s %10s\n' 'observed by' 'alone, req/s' 'observed' 'costs' 'lost'
    for _ in $(seq "$rounds"); do
        before=$(load "$name")
        for i in "${!kinds[@]}"; do
            start "${kinds[i]}" "${worker[$name]}"
            load "$name" >/dev/null
            observed=$(load "$name")
            kill -TERM "$observer" 2>/dev/null || true
            # tcpwhy's status says whether there are faults.
            wait "$observer" || true
            after=$(load "$name")
            awk -v before="$before" -v after="$after" 'BEGIN { print (before + after) / 2 }' >>"$work/alone.$name.$i"
            echo "$observed" >>"$work/observed.$name.$i"
            awk -v with="$observed" -v before="$before" -v after="$after" \
                'BEGIN { print 2 * with / (before + after) }' >>"$work/ratios.$name.$i"
            lost "${kinds[i]}" >>"$work/lost.$name.$i"
            before=$after
        done
    done
    for i in "${!kinds[@]}"; do
        awk -v kind="${kinds[i]}" -v alone="$(median <"$work/alone.$name.$i")" \
            -v with="$(median <"$work/observed.$name.$i")" -v ratio="$(median <"$work/ratios.$name.$i")" \
            -v lost="$(median <"$work/lost.$name.$i")" 'BEGIN {
            printf "%-26s %12.0f %12.0f %7.1f%% %10s\n", kind, alone, with, 100 * (1 - ratio), lost }'
    done
}
for name in $servers; do
    measure "$name"
done

if [ "$soak_minutes" -gt 0 ]; then
    echo "-- resident memory of a watch over $soak_minutes min of load, every 10 s, after the first minute"
    watch_at --budget none &
    pid=$!
    sleep 1
    for minute in $(seq "$soak_minutes"); do
        ip netns exec "$client" wrk -t1 -c64 -d58s -H 'Connection: close' http://10.99.0.2:8080/ >/dev/null &
        wrk=$!
        for _ in $(seq 6); do
            sleep 10
            [ "$minute" -eq 1 ] || awk '/VmRSS/ { print $2 / 1024 }' "/proc/$pid/status" >>"$work/rss"
        done
        wait "$wrk"
    done
    sort -g "$work/rss" | awk '{ all[NR] = $1 } END { printf "min %d MiB, max %d MiB\n", all[1], all[NR] }'
    # What grows shows here, whatever the swings of a window are.
    third=$(($(wc -l <"$work/rss") / 3))
    printf 'median of the first third %d MiB, of the last third %d MiB\n' \
        "$(head -n "$third" "$work/rss" | median | cut -d. -f1)" \
        "$(tail -n "$third" "$work/rss" | median | cut -d. -f1)"
    kill -TERM "$pid"
    wait || true
fi
