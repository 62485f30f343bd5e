#!/bin/sh
# format.sh - the sources against .clang-format: `format.sh check` lists the files that differ and
# fails, `format.sh fix` rewrites them. The tree is formatted by version 14; another version breaks
# some lines elsewhere, so its verdict is no verdict: exit status 77 (not judged).
set -u
cd "$(dirname "$0")/.." || exit 1
version=14
tool=clang-format-$version
command -v $tool >/dev/null || tool=clang-format
found=$($tool --version 2>/dev/null | sed -n 's/.*version \([0-9]*\).*/\1/p')
if [ "$found" != $version ]; then
    echo "format: clang-format $version wanted, found ${found:-none}" >&2
    exit 77
fi
files=$(find include src apps examples tests fuzz bench -name "*.[ch]" 2>/dev/null | sort)
case ${1:-check} in
fix) echo "$files" | xargs $tool -i ;;
check) echo "$files" | xargs $tool --dry-run -Werror --ferror-limit=1 ;;
*) echo "usage: format.sh check | fix" >&2; exit 2 ;;
esac
