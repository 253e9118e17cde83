#!/bin/bash
# Tries packaging/fleet: two network namespaces stand for hosts, each with nginx and its own watch, one
# of them with tcp_nodelay off. Prometheus collects from both, by the rules and the dashboard of the
# package. The alert has to name the cause at the one host, and not at its twin. As root; about 40 s.
#
# Usage: packaging/check-fleet.sh TCPWHY
set -euo pipefail
tcpwhy=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
[ "$(id -u)" -eq 0 ] || { echo 'check-fleet: root is needed' >&2; exit 2; }
for program in prometheus promtool nginx python3 ip systemd-analyze setpriv; do
    type -P "$program" >/dev/null || { echo "check-fleet: $program is missing" >&2; exit 2; }
done

work=$(mktemp -d)
monitor=tcpwhy-fleet-$$
hosts=(slow healthy)
pids=()
clean() {
    status=$?
    if [ "$status" -ne 0 ]; then
        tail -n 5 "$work"/*.log >&2
    fi
    [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
    wait
    for netns in "$monitor" "${hosts[@]/#/$monitor-}"; do
        ip netns delete "$netns" 2>/dev/null || true
    done
    rm -r "$work"
}
trap clean EXIT
# The watches are not root's, and have to reach their program.
chmod 755 "$work"
install -m 755 "$tcpwhy" "$work/tcpwhy"
tcpwhy=$work/tcpwhy

# What needs no traffic. The rules run with a shorter pause before an alert, and are the same otherwise.
promtool check config "$here/fleet/prometheus.yml" >"$work/promtool.log" 2>&1
promtool test rules "$here/fleet/rules_test.yml" >>"$work/promtool.log" 2>&1
sed "s|/usr/bin/tcpwhy|$tcpwhy|; /^Documentation=/d" "$here/fleet/tcpwhy-watch.service" \
    >"$work/tcpwhy-watch.service"
said=$(systemd-analyze verify "$work/tcpwhy-watch.service" 2>&1) && [ -z "$said" ] ||
    { echo "check-fleet: systemd-analyze: $said" >&2; exit 1; }
# Exposure in tenths: it is 2.7, and less than 3 is to stay.
systemd-analyze security --offline=yes --threshold=30 "$work/tcpwhy-watch.service" >"$work/security.log"

# start NAME COMMAND…: in the background, with a log.
start() {
    "${@:2}" >"$work/$1.log" 2>&1 &
    pids+=($!)
}

ip netns add "$monitor"
ip -n "$monitor" link set lo up
ip -n "$monitor" link add bridge type bridge
ip -n "$monitor" addr add 10.77.0.1/24 dev bridge
ip -n "$monitor" link set bridge up
capabilities=+net_raw,+net_admin,+bpf,+perfmon
address=10
for host in "${hosts[@]}"; do
    address=$((address + 1))
    netns=$monitor-$host
    ip netns add "$netns"
    ip -n "$netns" link set lo up
    ip -n "$monitor" link add "to-$host" type veth peer name eth0 netns "$netns"
    ip -n "$monitor" link set "to-$host" master bridge up
    ip -n "$netns" addr add "10.77.0.$address/24" dev eth0
    ip -n "$netns" link set eth0 up
    nodelay=on
    [ "$host" = healthy ] || nodelay=off
    mkdir "$work/$host"
    # Header and file are sent apart, the file as a small segment.
    head -c 700 /dev/zero >"$work/$host/file.bin"
    cat >"$work/$host/nginx.conf" <<END
daemon off; master_process off; pid $work/$host/pid; error_log $work/$host/error.log;
events {}
http { access_log off; sendfile on; tcp_nopush off; tcp_nodelay $nodelay; keepalive_requests 1000000;
    client_body_temp_path $work/$host; proxy_temp_path $work/$host; fastcgi_temp_path $work/$host;
    uwsgi_temp_path $work/$host; scgi_temp_path $work/$host;
    server { listen 10.77.0.$address:8080; root $work/$host; } }
END
    start "nginx-$host" ip netns exec "$netns" nginx -p "$work/$host" -c "$work/$host/nginx.conf"
    # With the rights of the unit and of the DaemonSet, and no others.
    start "watch-$host" ip netns exec "$netns" setpriv --reuid 65534 --regid 65534 --clear-groups \
        --inh-caps="-all,$capabilities" --ambient-caps="-all,$capabilities" \
        --bounding-set="-all,$capabilities" --no-new-privs \
        "$tcpwhy" watch --interval 1s --metrics "10.77.0.$address:9464" --no-progress
done

# The watches begin before the traffic.
cat >"$work/load.py" <<'END'
import http.client
import socket
import sys
import time

for port in (9464, 8080):
    until = time.monotonic() + 20
    while True:
        try:
            socket.create_connection((sys.argv[1], port), 1).close()
            break
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
connection = http.client.HTTPConnection(sys.argv[1], 8080, timeout=5)
while True:
    connection.request("GET", "/file.bin")
    connection.getresponse().read()
    time.sleep(0.02)
END
start load-slow ip netns exec "$monitor" python3 "$work/load.py" 10.77.0.11
start load-healthy ip netns exec "$monitor" python3 "$work/load.py" 10.77.0.12

sed 's/for: 5m/for: 3s/' "$here/fleet/rules.yml" >"$work/rules.yml"
sed 's/\(scrape\|evaluation\)_interval: .*/\1_interval: 1s/
    s/targets: .*/targets: ["10.77.0.11:9464", "10.77.0.12:9464"]/' \
    "$here/fleet/prometheus.yml" >"$work/prometheus.yml"
start prometheus ip netns exec "$monitor" prometheus --config.file="$work/prometheus.yml" \
    --storage.tsdb.path="$work/tsdb" --web.listen-address=127.0.0.1:9090

cat >"$work/alerts.py" <<'END'
import json
import sys
import time
import urllib.request

URL = "http://127.0.0.1:9090/api/v1/"


def get(what):
    with urllib.request.urlopen(URL + what, timeout=5) as answer:
        return json.load(answer)["data"]


def firing():
    try:
        alerts = get("alerts")["alerts"]
    except OSError:
        return set()
    return {
        (it["labels"]["instance"], it["labels"]["cause"], it["labels"]["role"], it["labels"]["endpoint"])
        for it in alerts
        if it["state"] == "firing" and it["labels"]["alertname"] == "TcpwhyFault"
    }


wanted = ("10.77.0.11:9464", "nagle_delayed_ack", "server", "10.77.0.11:8080")
until = time.monotonic() + 40
while wanted not in firing():
    if time.monotonic() > until:
        sys.exit(f"check-fleet: the alert {wanted} does not fire; these do: {firing()}")
    time.sleep(0.5)
# The twin has had its time as well.
time.sleep(5)
wrong = {it for it in firing() if it[0] != wanted[0] or it[3] != wanted[3]}
if wrong:
    sys.exit(f"check-fleet: alerts at the healthy twin: {wrong}")
twin = get("query?query=tcpwhy_exchange_latency_seconds_count%7Binstance=%2210.77.0.12:9464%22%7D")["result"]
if not twin or float(twin[0]["value"][1]) < 50:
    sys.exit(f"check-fleet: the healthy twin was not watched: {twin}")
lost = get("query?query=tcpwhy_lost_seconds_total%7Bcause=%22nagle_delayed_ack%22%7D")["result"]
down = get("query?query=count(up==1)")["result"][0]["value"][1]
if down != "2":
    sys.exit(f"check-fleet: {down} of 2 watches answer")
seconds = ", ".join(f"{it['metric']['endpoint']} {float(it['value'][1]):.1f} s" for it in lost)
print(f"check-fleet: TcpwhyFault fires for {wanted[1]} at {wanted[3]} alone; lost: {seconds}")
END
ip netns exec "$monitor" python3 "$work/alerts.py"
ip netns exec "$monitor" "$here/check-dashboard.py" "$here/fleet/dashboard.json" http://127.0.0.1:9090
