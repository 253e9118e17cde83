#!/bin/bash
# Builds the documentation as a book in FOLDER/book: the chapters of docs/, the manual of each cause and the
# reference of commands, as the program TCPWHY prints them. Installs mdBook into FOLDER/tools if it is missing.
#
# Usage: book.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
: "${TCPWHY:?the tcpwhy whose manuals and help the book shows}"
folder=$(realpath -m "$1") version=0.5.4
TCPWHY=$(realpath "$TCPWHY")

mdbook=$(command -v mdbook || true)
if [ -z "$mdbook" ]; then
    mdbook=$folder/tools/bin/mdbook
    [ -x "$mdbook" ] || cargo install mdbook --version "$version" --locked --root "$folder/tools"
fi

rm -rf "$folder/book-sources" "$folder/book"
mkdir -p "$folder/book-sources/docs"
cp -r docs/. "$folder/book-sources/docs"
cp book.toml "$folder/book-sources"
cd "$folder/book-sources/docs"
# Documents beside docs/ are chapters as well; other files of the repository are named, not linked.
cp "$OLDPWD"/{SECURITY,ARCHITECTURE,CONTRIBUTING,CHANGELOG}.md .
find . -name '*.md' -exec sed -i -E 's#\]\((\.\./)+(SECURITY|ARCHITECTURE|CONTRIBUTING|CHANGELOG)\.md#](\2.md#g' {} +
sed -i -E 's#\]\((SECURITY|ARCHITECTURE|CONTRIBUTING|CHANGELOG)\.md#](../\1.md#g' situations/*.md
sed -i -E 's#\]\(docs/#](#g' {SECURITY,ARCHITECTURE,CONTRIBUTING,CHANGELOG}.md

# page FILE TITLE COMMAND…: a chapter with what the command prints.
page() {
    local file=$1 title=$2
    shift 2
    { printf '# %s\n\n```text\n' "$title"; "$@"; printf '```\n'; } >"$file"
}
export COLUMNS=100 LC_ALL=C.UTF-8 NO_COLOR=1
mkdir causes commands
{
    printf '\n# The manual of each cause\n\n'
    "$TCPWHY" explain list | awk '$2 == "fault" || $2 == "cost" { print $1 }' | while read -r cause; do
        page "causes/$cause.md" "$cause" "$TCPWHY" explain "$cause"
        printf -- '- [%s](causes/%s.md)\n' "$cause" "$cause"
    done
    printf '\n# The reference of commands\n\n'
    page commands/tcpwhy.md tcpwhy "$TCPWHY" --help
    printf -- '- [tcpwhy](commands/tcpwhy.md)\n'
    for command in doctor report compare annotate anonymize watch sockets drops host treat dns load probe mcp; do
        page "commands/$command.md" "tcpwhy $command" "$TCPWHY" "$command" --help
        printf -- '- [tcpwhy %s](commands/%s.md)\n' "$command" "$command"
    done
} >>SUMMARY.md
"$mdbook" build --dest-dir "$folder/book" "$folder/book-sources"
