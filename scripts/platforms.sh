#!/bin/bash
# Checks that the command compiles for other platforms. A check links nothing, so it needs neither their
# linkers nor their C libraries: the C code in dependencies (zstd, ring) becomes empty objects.
#
# Usage: platforms.sh [TARGET…]
set -euo pipefail
cd "$(dirname "$0")/.."

targets=("$@")
if [ $# -eq 0 ]; then
    targets=(x86_64-pc-windows-gnu aarch64-apple-darwin)
fi
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

# Compilers name what they write by -o, archivers as the first word that is no option.
cat >"$work/cc" <<'END'
#!/bin/sh
while [ $# -gt 0 ]; do
    [ "$1" != -o ] || : >"$2"
    shift
done
END
cat >"$work/ar" <<'END'
#!/bin/sh
for word; do
    case $word in *.a | *.lib) : >"$word" ;; esac
done
END
chmod +x "$work/cc" "$work/ar"

for target in "${targets[@]}"; do
    name=${target//-/_}
    env "CC_$name=$work/cc" "CXX_$name=$work/cc" "AR_$name=$work/ar" "RANLIB_$name=true" \
        cargo check --quiet --locked -p tcpwhy --target "$target"
    echo "platforms: $target compiles"
done
