#!/usr/bin/env bash
# lint.sh - clang-tidy, with the checks of .clang-tidy, over src/ and apps/. It stops beginning new
# files after LK_LINT_SECONDS (120) and names what was left, so that it stays bounded on a slow
# machine; `lint.sh all` and LK_FULL=1 look at every file. What differs from the branch main comes
# first. Uses the compile commands of the dev-clang preset. The verdict is that of version 14; what
# another version finds is printed, and the exit status is 77 (not judged).
set -uo pipefail
cd "$(dirname "$0")/.."
limit_s=${LK_LINT_SECONDS:-120}
if [ "${1:-}" = all ] || [ -n "${LK_FULL:-}" ]; then
    limit_s=86400
fi
cmake --preset dev-clang >/dev/null || exit 1

base=$(git merge-base HEAD main 2>/dev/null || echo HEAD)
changed=$(git diff --name-only --diff-filter=d "$base" -- 'src/*.c' 'apps/*.c' 2>/dev/null)
files=$(printf '%s\n' "$changed" "$(find src apps -name '*.c' | sort -R)" | awk 'NF && !seen[$0]++')

until_s=$(($(date +%s) + limit_s))
export until_s
printf '%s\n' "$files" | xargs -P "$(nproc)" -n 1 bash -c '
    if [ "$(date +%s)" -ge "$until_s" ]; then
        echo "lint: no time left for $1"
        exit 0
    fi
    # The analyser loses its way in vector code; checkkern and ASan look after kernels.
    case $1 in */kern/*) checks="--checks=-clang-analyzer-*" ;; *) checks= ;; esac
    clang-tidy -p build/dev-clang --quiet $checks "$1" 2>&1 | grep -v "warnings generated"
    exit "${PIPESTATUS[0]}"' lint
status=$?
echo "lint: $(printf '%s\n' "$files" | wc -l) files, status $status"
found=$(clang-tidy --version | sed -n 's/.*version \([0-9]*\).*/\1/p' | head -n 1)
if [ $status -ne 0 ] && [ "$found" != 14 ]; then
    echo "lint: clang-tidy 14 wanted for a verdict, found $found, which has findings"
    exit 77
fi
exit $status
