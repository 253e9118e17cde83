#!/bin/bash
# Captures one mix of traffic of real software: a client and a server in network namespaces, and a
# router between them. Frames are as on a wire: no segment is larger than the MTU.
#
# Usage: traffic.sh MIX CAPTURE     Needs root. PACKETS says how many at most. The mixes:
#   small    requests of one segment with responses of one, most on kept connections, the others on
#            a connection each
#   pages    pages of 6 to 8 KB on kept connections, captured with a snap length
#   tls      responses of 200 bytes to 7 KB through TLS on kept connections
#   bulk     downloads of 20 MB, through a link of 1 Gbit/s that they fill, captured with a snap length
#   redis    GET, SET and LRANGE, one at a time and pipelined
#   middle   pages, responses of one segment and TLS; all connections are older than the capture
#   faults   pages and small requests, of whose packets one in 200 is lost on the way, and pages
#            written with Nagle's algorithm
set -euo pipefail
mix=$1 capture=$2
packets=${PACKETS:-500000}
seconds=40
work=$(mktemp -d)
client=tcpwhy-bench-c-$$ router=tcpwhy-bench-r-$$ server=tcpwhy-bench-s-$$
address=10.99.2.2
pids=()

leave() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for netns in "$client" "$router" "$server"; do
        # shellcheck disable=SC2046
        kill $(ip netns pids "$netns" 2>/dev/null) 2>/dev/null || true
    done
    wait 2>/dev/null || true
    for netns in "$client" "$router" "$server"; do
        ip netns delete "$netns" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap leave EXIT
trap 'exit 130' INT TERM

for netns in "$client" "$router" "$server"; do
    ip netns add "$netns"
    ip -n "$netns" link set lo up
done
# link NETNS INTERFACE ADDRESS: an interface there, and its peer at the router.
link() {
    ip link add "$2" netns "$1" type veth peer name "to-$2" netns "$router"
    ip -n "$1" link set "$2" gso_max_segs 1 up
    ip -n "$router" link set "to-$2" gso_max_segs 1 up
    ip -n "$1" address add "$3.2/24" dev "$2"
    ip -n "$router" address add "$3.1/24" dev "to-$2"
    ip -n "$1" route add default via "$3.1"
}
link "$client" near 10.99.1
link "$server" far 10.99.2
ip netns exec "$router" sysctl -qw net.ipv4.ip_forward=1

mkdir -p "$work/www" "$work/temp"
printf '%0200d' 0 >"$work/www/small"
for size in 1000 3000 6000 7000 8000; do head -c "$size" /dev/zero >"$work/www/$size"; done
head -c 20000000 /dev/zero >"$work/www/bulk"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 \
    -subj /CN=bench -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
cat >"$work/nginx.conf" <<CONF
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
    keepalive_requests 100000000;
    sendfile off;
    ssl_certificate $work/cert.pem; ssl_certificate_key $work/key.pem;
    server { listen $address:8080; root $work/www; }
    server { listen $address:8081; root $work/www; keepalive_requests 1; }
    # Two writes a response, and Nagle's algorithm between them.
    server { listen $address:8082; root $work/www; tcp_nodelay off; postpone_output 0; }
    server { listen $address:8443 ssl; root $work/www; }
}
CONF
# Asks for several paths in turn.
cat >"$work/several.lua" <<'LUA'
local paths, turn = {}, 0
function init(arguments) paths = arguments end
function request()
    turn = turn % #paths + 1
    return wrk.format("GET", paths[turn])
end
LUA
if [ "$mix" = redis ]; then
    ip netns exec "$server" redis-server --bind "$address" --protected-mode no --save '' \
        --appendonly no --dir "$work" >/dev/null &
else
    ip netns exec "$server" nginx -c "$work/nginx.conf" -p "$work" 2>"$work/nginx.log" &
fi
pids+=($!)

load() { ip netns exec "$client" timeout "$((seconds + 10))" "$@" >"$work/load.log" 2>&1 || true; }
# http CONNECTIONS URL [PATH…]: requests as fast as they are answered.
http() {
    local connections=$1 url=$2
    shift 2
    load wrk -t 1 -c "$connections" -d "$seconds" -s "$work/several.lua" "$url" -- "$@"
}
redis() { load redis-benchmark -h "$address" -l -q "$@"; }

# capture SNAP_LENGTH: until there are enough packets.
capture() {
    ip netns exec "$client" tcpdump -i near -s "$1" -B 262144 -c "$packets" -w "$capture" tcp \
        2>"$work/tcpdump.log" &
    dump=$!
    # A buffer of that size takes a while to be had.
    for _ in {1..100}; do
        ! grep -qs listening "$work/tcpdump.log" || break
        sleep 0.1
    done
}

plain=http://$address:8080 once=http://$address:8081 nagle=http://$address:8082
tls=https://$address:8443
snap=0 begins_before=
case $mix in
small)
    loads=("http 64 $plain /small" "http 2 $once /small") ;;
pages)
    snap=256 loads=("http 32 $plain /6000 /7000 /8000") ;;
tls)
    loads=("http 32 $tls /small /1000 /3000 /7000") ;;
bulk)
    snap=128 loads=("http 4 $plain /bulk")
    ip netns exec "$router" tc qdisc add dev to-near root tbf rate 1gbit burst 64k latency 5ms ;;
redis)
    loads=('redis -c 32 -t set,get -d 100 -n 100000000' 'redis -c 4 -t get -P 16 -n 100000000'
        'redis -c 8 -t lrange_100 -n 100000000') ;;
middle)
    begins_before=yes snap=256
    loads=("http 24 $plain /6000 /7000 /8000" "http 24 $plain /small" "http 16 $tls /small /7000") ;;
faults)
    loads=("http 48 $plain /6000 /small /1000 /8000" "http 16 $nagle /3000 /7000")
    ip netns exec "$router" nft -f - <<'NFT'
table ip bench {
    chain forward {
        type filter hook forward priority 0;
        numgen random mod 200 == 0 drop
    }
}
NFT
    ;;
*)
    echo "traffic.sh: no mix '$mix'" >&2
    exit 2 ;;
esac
sleep 0.5
[ -n "$begins_before" ] || capture "$snap"
for each in "${loads[@]}"; do
    # shellcheck disable=SC2086
    $each &
    pids+=($!)
done
if [ -n "$begins_before" ]; then
    sleep 2
    capture "$snap"
fi
# As many packets as are wanted, or as pass meanwhile on a slow machine.
(sleep "$seconds"; kill -INT "$dump" 2>/dev/null) &
pids+=($!)
wait "$dump" || true
grep -E 'dropped by kernel' "$work/tcpdump.log" | grep -v '^0 ' || true
