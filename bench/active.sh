#!/bin/bash
# `tcpwhy load` beside wrk, both on one core against nginx on another: requests a second, requests for each
# second of the tool's own CPU time, and latency, in pairs that alternate; then both against a server that
# stalls for 1 s.
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

declare -A packages=([nginx]=nginx-light [wrk]=wrk [openssl]=openssl [python3]=python3 [jq]=jq)
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
plain=18080 tls=18443 stalling=18090
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
}
END
taskset -c 0 nginx -c "$work/nginx.conf" -g 'daemon off; master_process off;' &
pids+=($!)

# Answers at once, but for one second of no answer at all, 2 s after its first request.
cat >"$work/stalling.py" <<'END'
import socket, sys, threading, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=128)
first = None
stall = threading.Lock()
def serve(connection):
    global first
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := connection.recv(65536):
        now = time.monotonic()
        with stall:
            if first is None:
                first = now
            wait = first + 3 - time.monotonic() if now >= first + 2 else 0
            if wait > 0:
                time.sleep(wait)
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

# compare NAME CONNECTIONS URL [OPTION…]
compare() {
    local name=$1
    shift
    : >"$work/pairs"
    for round in $(seq "$rounds"); do
        # Who goes first takes turns.
        if [ $((round % 2)) -eq 0 ]; then
            b=$(run_load "$@") a=$(run_wrk "$1" "$2")
        else
            a=$(run_wrk "$1" "$2") b=$(run_load "$@")
        fi
        # On a busy machine wrk may have no answer at all: such a pair has no ratio.
        awk '$1 > 0 && $2 > 0' <<<"$a $b" >>"$work/pairs"
    done
    awk_median() { awk "{ print $1 }" "$work/pairs" | median; }
    printf '%-28s %9.0f %9.0f %7.2f %7.2f %9.0f %9.0f %9.0f %9.0f   %.2f-%.2f\n' "$name" \
        "$(awk_median '$1')" "$(awk_median '$5')" "$(awk_median '$5 / $1')" "$(awk_median '$6 / $2')" \
        "$(awk_median '$3')" "$(awk_median '$7')" "$(awk_median '$4')" "$(awk_median '$8')" \
        "$(awk '{ print $5 / $1 }' "$work/pairs" | sort -g | head -1)" \
        "$(awk '{ print $5 / $1 }' "$work/pairs" | sort -g | tail -1)"
}

echo "medians of $rounds pairs of ${seconds} s; ratios are tcpwhy load / wrk of each pair; latency in µs"
printf '%-28s %9s %9s %7s %7s %9s %9s %9s %9s   %s\n' '' 'wrk/s' 'load/s' 'ratio' 'per CPU' \
    'wrk p50' 'load p50' 'wrk p99' 'load p99' 'ratio from-to'
for connections in 1 100; do
    compare "HTTP, $connections" "$connections" "http://127.0.0.1:$plain/" --no-explain
    compare "HTTP, $connections, explained" "$connections" "http://127.0.0.1:$plain/"
    compare "TLS, $connections" "$connections" "https://127.0.0.1:$tls/" --no-explain
done

echo
echo 'A server that stalls once for 1 s, one connection, 5 s. At 200 requests a second a fifth of the planned'
echo 'requests wait for it: the right p99 is about 950 ms.'
# serve_stalling: a fresh one
serve_stalling() {
    python3 "$work/stalling.py" "$stalling" &
    stalling_pid=$!
    pids+=("$stalling_pid")
    listening "$stalling"
}
serve_stalling
wrk --latency -t1 -c1 -d5s "http://127.0.0.1:$stalling/" >"$work/wrk.txt"
printf '  %-24s p99 %s\n' 'wrk' "$(awk '$1 == "99%" { print $2 }' "$work/wrk.txt")"
kill "$stalling_pid"
wait "$stalling_pid" 2>/dev/null || true
serve_stalling
"$TCPWHY" load -t1 -c1 -d5s --rate 200 --no-explain --json "http://127.0.0.1:$stalling/" >"$work/load.json"
printf '  %-24s p99 %s\n' 'tcpwhy load --rate 200' \
    "$(jq -r '"\(.latency.p99_ns / 1e6 | round)ms, \(.planned) planned, \(.sent) sent"' "$work/load.json")"
