#!/bin/sh
# Makes the captures of captures.txt anew, or only those named, and writes truth.json and README.md.
# Needs root (network namespaces) and the real software of the cases; TCPWHY names the
# program, which is built otherwise.
set -eu
cd "$(dirname "$0")"
if [ -z "${TCPWHY:-}" ]; then
    cargo build --quiet --release -p tcpwhy
    target=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
    TCPWHY=$target/release/tcpwhy
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Keeps a capture, compressed where it is worth it.
keep() {
    rm -f "captures/$2" "captures/$2.zst"
    if [ "$(wc -c <"$1")" -gt 65536 ]; then
        zstd -q -19 "$1" -o "captures/$2.zst"
    else
        cp "$1" "captures/$2"
    fi
}

wanted() {
    name=$1
    shift
    [ $# -eq 0 ] && return
    for one; do [ "$one" = "$name" ] && return; done
    return 1
}

run_line() {
    name=$1 vantage=$2 case=$3 seed=$4
    shift 4
    options=
    for pair; do options="$options --$(echo "${pair%%=*}" | tr _ -) ${pair#*=}"; done
    # Status 1 is a diagnosis that is wrong, which is what captures are for.
    # shellcheck disable=SC2086
    "$TCPWHY" lab run "$case" --out "$work" --seed "$seed" $options >"$work/story" ||
        test $? -eq 1
    tail -n 2 "$work/story"
    for variant in faulty healthy; do
        from=$work/$case-$seed/$variant
        [ -d "$from" ] || continue
        twin=
        if [ "$variant" = healthy ] && [ -d "$work/$case-$seed/faulty" ]; then
            twin=-healthy
        fi
        # Of both ends, each has its name.
        ends=$vantage
        if [ "$vantage" = both ]; then ends='client server'; fi
        for end in $ends; do
            as=$name$twin
            if [ "$vantage" = both ]; then as=$name-$end$twin; fi
            keep "$from/$end.pcap" "$as.pcap"
            python3 truth.py add "$as" "$end" "$from/labels.json" \
                "tcpwhy lab run $case --out DIR --seed $seed$options"
        done
    done
    rm -rf "${work:?}/$case-$seed"
}

grep -v '^#' captures.txt | while read -r name line; do
    # shellcheck disable=SC2086
    if wanted "$name" "$@"; then run_line "$name" $line </dev/null; fi
done
for twin in "" -healthy; do
    if wanted nginx_nodelay_off "$@"; then
        rm -f "captures/vlan$twin.pcapng"
        python3 vlan.py "captures/nginx_nodelay_off$twin.pcap" "captures/vlan$twin.pcapng"
        python3 truth.py copy "nginx_nodelay_off$twin" "vlan$twin" "vlan.py"
    fi
done
python3 truth.py readme
