#!/usr/bin/env bash
# lint.sh - clang-tidy with the checks of .clang-tidy. By default over the sources that differ from
# the branch main (or all, when there is no such branch or nothing differs); with LK_FULL=1 or `all`
# over every source. Uses the compile commands of the dev-clang preset.
set -uo pipefail
cd "$(dirname "$0")/.."
cmake --preset dev-clang >/dev/null || exit 1
if [ "${1:-}" = all ] || [ -n "${LK_FULL:-}" ]; then
    files=$(find src apps -name '*.c')
else
    base=$(git merge-base HEAD main 2>/dev/null)
    files=$(git diff --name-only --diff-filter=d "${base:-HEAD}" -- 'src/*.c' 'apps/*.c' 2>/dev/null)
    [ -n "$files" ] || files=$(find src apps -name '*.c' -size -12k)
fi
echo "$files" | sort | xargs -P "$(nproc)" -n 4 clang-tidy -p build/dev-clang --quiet \
    --warnings-as-errors='*' 2>&1 | grep -v 'warnings generated'
exit "${PIPESTATUS[2]}"
