#!/bin/bash
# Captures real traffic: nginx and wrk in two network namespaces, one link between them.
# Usage: traffic.sh CAPTURE     PACKETS says how many at least. Needs root, iproute2, nginx, wrk,
# tcpdump, curl.
set -euo pipefail
capture=$1
work=$(mktemp -d)
client=tcpwhy-bench-client-$$
server=tcpwhy-bench-server-$$
pids=()

leave() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    ip netns delete "$client" 2>/dev/null || true
    ip netns delete "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap leave EXIT

ip netns add "$client"
ip netns add "$server"
ip link add near netns "$client" type veth peer name far netns "$server"
ip -n "$client" address add 10.99.0.1/24 dev near
ip -n "$server" address add 10.99.0.2/24 dev far
for end in "$client near" "$server far"; do
    # shellcheck disable=SC2086
    set -- $end
    ip -n "$1" link set lo up
    ip -n "$1" link set "$2" up
done

mkdir -p "$work/www" "$work/temp"
printf '%0200d' 0 > "$work/www/small"
head -c 3000 /dev/zero > "$work/www/page"
head -c 4000000 /dev/zero > "$work/www/bulk"
cat > "$work/nginx.conf" <<CONF
daemon off;
worker_processes 1;
pid $work/nginx.pid;
error_log $work/error.log;
user root;
events { worker_connections 4096; }
http {
    access_log off;
    client_body_temp_path $work/temp; proxy_temp_path $work/temp; fastcgi_temp_path $work/temp;
    uwsgi_temp_path $work/temp; scgi_temp_path $work/temp;
    keepalive_requests 100000;
    sendfile off;
    server { listen 10.99.0.2:8080; root $work/www; }
    server { listen 10.99.0.2:8081; root $work/www; keepalive_requests 1; }
    # Two writes a response, and Nagle's algorithm between them.
    server { listen 10.99.0.2:8082; root $work/www; tcp_nodelay off; postpone_output 0; }
}
CONF
ip netns exec "$server" nginx -c "$work/nginx.conf" -p "$work" &
pids+=($!)
ip netns exec "$client" tcpdump -i near -s 0 -B 262144 -w "$capture" 'tcp' 2>"$work/tcpdump.log" &
dump=$!
# A buffer of that size takes a while to be had: connections are to be captured from their SYN on.
for _ in {1..100}; do
    ! grep -qs listening "$work/tcpdump.log" || break
    sleep 0.1
done

load() { ip netns exec "$client" timeout 60 "$@" >/dev/null; }
packets() {
    ip netns exec "$client" cat /sys/class/net/near/statistics/{rx,tx}_packets |
        awk '{ sum += $1 } END { print sum }'
}
# Most of it is small requests on kept connections: two packets each, 290 bytes on average. As many
# as are wanted, however slow the machine is, but within three minutes.
for _ in {1..36}; do
    load wrk -t 1 -c 64 -d 5 http://10.99.0.2:8080/small
    [ "$(packets)" -lt "${PACKETS:-2000000}" ] || break
done
load wrk -t 1 -c 32 -d 8 http://10.99.0.2:8081/small
load wrk -t 1 -c 64 -d 4 http://10.99.0.2:8082/page
load curl -s -o /dev/null "http://10.99.0.2:8080/bulk?[1-20]"
sleep 1
kill -INT "$dump"
wait "$dump" || true
grep -E 'captured|dropped by kernel' "$work/tcpdump.log" || true
