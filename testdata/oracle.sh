#!/bin/sh
# What tshark and tcptrace say of every capture, into oracle/. tcptrace cannot read SLL2:
# those captures are left to tshark.
set -eu
cd "$(dirname "$0")"
mkdir -p oracle
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tshark --version 2>/dev/null | head -1 | sed 's/^/# /' >oracle/tshark.txt
echo '# tcptrace 6.6.7' >oracle/tcptrace.txt

analysis=
for flag in retransmission fast_retransmission spurious_retransmission out_of_order duplicate_ack \
    zero_window keep_alive window_full initial_rtt; do
    analysis="$analysis -e tcp.analysis.$flag"
done
for capture in captures/*; do
    file=${capture#captures/}
    case $file in
    *.zst) zstd -q -d -f "$capture" -o "$work/capture" ;;
    *) cp "$capture" "$work/capture" ;;
    esac
    # shellcheck disable=SC2086
    tshark -n -r "$work/capture" -Y 'tcp && !icmp' -T fields -E occurrence=f \
        -e ip.src -e ipv6.src -e tcp.srcport -e ip.dst -e ipv6.dst -e tcp.dstport \
        -e tcp.flags.syn -e tcp.len $analysis 2>/dev/null |
        python3 oracle.py tshark "$file" >>oracle/tshark.txt
    tcptrace -l -r -n "$work/capture" 2>/dev/null |
        python3 oracle.py tcptrace "$file" >>oracle/tcptrace.txt || true
done
