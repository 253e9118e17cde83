#!/bin/bash
# `tcpwhy load` beside wrk, and in HTTP/2 beside h2load, both on one core against nginx on another: requests
# a second, requests for each second of the tool's own CPU time, and latency, in pairs that alternate; then
# its percentiles beside those of an independent open-loop client (bench/open-loop.py), on a server that
# stalls for 1 s and on one that is saturated.
#
# Usage: active.sh     TCPWHY names the built program; ROUNDS is how many pairs of each kind are run,
# SECONDS_EACH how long each run takes. As root the causes are looked for as well, which costs a little.
set -euo pipefail
: "${TCPWHY:?the tcpwhy to measure}"
rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-4}
work=$(mktemp -d)
pids=()

cleanup() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

declare -A packages=([nginx]=nginx-light [wrk]=wrk [h2load]=nghttp2-client [openssl]=openssl [python3]=python3 [jq]=jq)
missing=()
for program in "${!packages[@]}"; do
    command -v "$program" >/dev/null || missing+=("${packages[$program]}")
done
if [ ${#missing[@]} -gt 0 ]; then
    echo "missing: sudo apt-get install ${missing[*]}" >&2
    exit 2
fi

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 \
    -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
plain=18080 tls=18443 http2=18081 stalling=18090
cat >"$work/nginx.conf" <<END
worker_processes 1;
pid $work/nginx.pid;
error_log $work/error.log;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 100000000;
    client_body_temp_path $work; proxy_temp_path $work; fastcgi_temp_path $work;
    uwsgi_temp_path $work; scgi_temp_path $work;
    ssl_certificate $work/cert.pem; ssl_certificate_key $work/key.pem;
    server {
        listen 127.0.0.1:$plain; listen 127.0.0.1:$tls ssl;
        location / { return 200 'a small answer'; }
    }
    server {
        listen 127.0.0.1:$http2 http2;
        http2_max_concurrent_streams 1000;
        location / { return 200 'a small answer'; }
    }
}
END
taskset -c 0 nginx -c "$work/nginx.conf" -g 'daemon off; master_process off;' &
pids+=($!)

# stalling.py PORT stalls: answers at once, but for one second of no answer at all, 2 s after its first
# request. stalling.py PORT saturated: works on four requests at a time, each for 20 ms.
cat >"$work/stalling.py" <<'END'
import socket, sys, threading, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=128)
is_saturated = sys.argv[2] == "saturated"
first = None
stall, workers = threading.Lock(), threading.Semaphore(4)
def work():
    global first
    if is_saturated:
        with workers:
            return time.sleep(0.02)
    now = time.monotonic()
    with stall:
        if first is None:
            first = now
        wait = first + 3 - time.monotonic() if now >= first + 2 else 0
        if wait > 0:
            time.sleep(wait)
def serve(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := connection.recv(65536):
        work()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
while True:
    connection, _ = listener.accept()
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
END

# listening PORT: waits until something does
listening() {
    for _ in $(seq 100); do
        (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return
        sleep 0.1
    done
    echo "nothing listens at port $1" >&2
    exit 2
}
listening "$plain"

# run_wrk CONNECTIONS URL: requests/s, requests per CPU second, p50 and p99 in µs
run_wrk() {
    local out spent
    TIMEFORMAT='%U %S'
    spent=$({ time taskset -c 1 wrk --latency -t1 -c"$1" -d"${seconds}s" "$2" >"$work/wrk.txt"; } 2>&1)
    out=$(awk '
        function us(text) {
            if (text ~ /us$/) return text + 0
            if (text ~ /ms$/) return text * 1000
            return text * 1000000
        }
        $1 == "50%" { p50 = us($2) }
        $1 == "99%" { p99 = us($2) }
        $2 == "requests" { requests = $1 }
        $1 == "Requests/sec:" { rate = $2 }
        END { print rate, requests, p50, p99 }' "$work/wrk.txt")
    awk '{ print $1, $2 / ($5 + $6 + 1e-9), $3, $4 }' <<<"$out $spent"
}

# run_h2load CONNECTIONS URL: the same, with ten streams on each connection; it states no percentiles
run_h2load() {
    local spent
    TIMEFORMAT='%U %S'
    spent=$({ time taskset -c 1 h2load -t1 -c"$1" -m10 -D"$seconds" "$2" >"$work/h2load.txt"; } 2>&1)
    awk -v seconds="$seconds" -v spent="$spent" '
        $1 == "requests:" { requests = $8 }
        END { split(spent, cpu, " "); print requests / seconds, requests / (cpu[1] + cpu[2] + 1e-9), 0, 0 }
        ' "$work/h2load.txt"
}

# run_load CONNECTIONS URL [OPTION…]: the same
run_load() {
    local spent connections=$1 url=$2
    shift 2
    TIMEFORMAT='%U %S'
    spent=$({ time taskset -c 1 "$TCPWHY" load -t1 -c"$connections" -d"${seconds}s" --insecure --json \
        --no-progress "$@" "$url" >"$work/load.json" || test $? -eq 1; } 2>&1)
    awk '{ print $1, $2 / ($5 + $6 + 1e-9), $3, $4 }' <<<"$(jq -r \
        '[.requests_per_second, .requests, .latency.p50_ns / 1e3, .latency.p99_ns / 1e3] | @tsv' \
        "$work/load.json") $spent"
}

median() {
    sort -g | awk '{ all[NR] = $1 } END { print (all[int((NR + 1) / 2)] + all[int((NR + 2) / 2)]) / 2 }'
}

# compare OTHER NAME CONNECTIONS URL [OPTION…]
compare() {
    local other=$1 name=$2
    shift 2
    : >"$work/pairs"
    for round in $(seq "$rounds"); do
        # Who goes first takes turns.
        if [ $((round % 2)) -eq 0 ]; then
            b=$(run_load "$@") a=$("run_$other" "$1" "$2")
        else
            a=$("run_$other" "$1" "$2") b=$(run_load "$@")
        fi
        # On a busy machine the other may have no answer at all: such a pair has no ratio.
        awk '$1 > 0 && $2 > 0' <<<"$a $b" >>"$work/pairs"
    done
    awk_median() { awk "{ print $1 }" "$work/pairs" | median; }
    printf '%-28s %9.0f %9.0f %7.2f %7.2f %9.0f %9.0f %9.0f %9.0f   %.2f-%.2f\n' "$name" \
        "$(awk_median '$1')" "$(awk_median '$5')" "$(awk_median '$5 / $1')" "$(awk_median '$6 / $2')" \
        "$(awk_median '$3')" "$(awk_median '$7')" "$(awk_median '$4')" "$(awk_median '$8')" \
        "$(awk '{ print $5 / $1 }' "$work/pairs" | sort -g | head -1)" \
        "$(awk '{ print $5 / $1 }' "$work/pairs" | sort -g | tail -1)"
}

echo "medians of $rounds pairs of ${seconds} s; ratios are tcpwhy load / the other of each pair; latency in µs"
printf '%-28s %9s %9s %7s %7s %9s %9s %9s %9s   %s\n' '' 'other/s' 'load/s' 'ratio' 'per CPU' \
    'its p50' 'load p50' 'its p99' 'load p99' 'ratio from-to'
for connections in 1 100; do
    compare wrk "HTTP, $connections" "$connections" "http://127.0.0.1:$plain/" --no-explain
    compare wrk "HTTP, $connections, explained" "$connections" "http://127.0.0.1:$plain/"
    compare wrk "TLS, $connections" "$connections" "https://127.0.0.1:$tls/" --no-explain
done
for connections in 1 10; do
    compare h2load "HTTP/2, $connections, 10 streams" "$connections" "http://127.0.0.1:$http2/" --http2 \
        --streams 10 --no-explain
done

# beside_open_loop KIND RATE SECONDS CONNECTIONS: percentiles of both clients, each on a fresh server
beside_open_loop() {
    local kind=$1 rate=$2 lasts=$3 connections=$4 own other pid
    serve() {
        python3 "$work/stalling.py" "$stalling" "$kind" &
        pid=$!
        pids+=("$pid")
        listening "$stalling"
    }
    leave() {
        kill "$pid"
        wait "$pid" 2>/dev/null || true
    }
    serve
    other=$("$(dirname "$0")/open-loop.py" "$stalling" "$rate" "$lasts" "$connections")
    leave
    serve
    "$TCPWHY" load -t1 -c"$connections" -d"${lasts}s" --rate "$rate" --no-explain --json --no-progress \
        --timeout 60s "http://127.0.0.1:$stalling/" >"$work/load.json" || test $? -eq 1
    leave
    own=$(jq -r '[.latency.p50_ns, .latency.p90_ns, .latency.p99_ns | . / 1e6] + [.latency.count, .not_sent] |
        @tsv' "$work/load.json")
    awk -v name="$kind" '{
        printf "%-12s", name
        for (i = 1; i <= 3; i++) printf "  %9.1f %9.1f %5.2f", $i, $(i + 5), $(i + 5) / ($i + 1e-9)
        printf "  %7d %7d", $4, $9
        # Shorter ones are of the clients, not of the server.
        for (i = 1; i <= 3; i++) if ($i > 10 && ($(i + 5) > 1.1 * $i || $(i + 5) < $i / 1.1)) bad = 1
        print bad ? "  DIFFERENT" : ""
    }' <<<"$other $own"
}

echo
echo 'percentiles of an independent open-loop client and of tcpwhy load --rate, ms; then the requests of both'
printf '%-12s  %9s %9s %5s  %9s %9s %5s  %9s %9s %5s\n' '' 'its p50' 'p50' '' 'its p90' 'p90' '' 'its p99' 'p99' ''
beside_open_loop stalls 200 5 20
beside_open_loop saturated 300 5 40
