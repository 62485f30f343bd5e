#!/usr/bin/env bash
# lint.sh - clang-tidy, with the checks of .clang-tidy, over every file of src/ and apps/ that the
# dev-clang preset compiles (kernels of other processors are not among them). What differs from the
# branch main comes first. The verdict is that of version 14; what another version finds is printed,
# and the exit status is 77 (not judged).
set -uo pipefail
cd "$(dirname "$0")/.."
cmake --preset dev-clang >/dev/null || exit 1

base=$(git merge-base HEAD main 2>/dev/null || echo HEAD)
changed=$(git diff --name-only --diff-filter=d "$base" -- 'src/*.c' 'apps/*.c' 2>/dev/null)
compiled=$(sed -n -E "s#^ *\"file\": \"$PWD/((src|apps)/.*)\".*#\1#p" \
    build/dev-clang/compile_commands.json | sort -u)
if [ -z "$compiled" ]; then
    echo "lint: no file of src/ or apps/ in build/dev-clang/compile_commands.json"
    exit 1
fi
files=$(printf '%s\n' "$changed" "$compiled" |
    awk 'NR == FNR { known[$0]; next } $0 in known && !seen[$0]++' <(echo "$compiled") -)

printf '%s\n' "$files" | xargs -P "$(nproc)" -n 1 bash -c '
    # The analyser loses its way in vector code; checkkern and ASan look after kernels.
    case $1 in */kern/*) checks="--checks=-clang-analyzer-*" ;; *) checks= ;; esac
    clang-tidy -p build/dev-clang --quiet $checks "$1" 2>&1 | grep -vE "warnings? generated"
    exit "${PIPESTATUS[0]}"' lint
status=$?
echo "lint: $(printf '%s\n' "$files" | wc -l) files, status $status"
found=$(clang-tidy --version | sed -n 's/.*version \([0-9]*\).*/\1/p' | head -n 1)
if [ $status -ne 0 ] && [ "$found" != 14 ]; then
    echo "lint: clang-tidy 14 wanted for a verdict, found $found, which has findings"
    exit 77
fi
exit $status
