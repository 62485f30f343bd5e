#!/usr/bin/env bash
# planted_faults.sh - shows that the isolation suite can fail: plants one fault at a time in a copy
# of the sources, builds the suite and requires that it finds a difference. Part of
# `make test-full`.
#
#   planted_faults.sh [SCHEDULES]      (default 200)
set -euo pipefail
cd "$(dirname "$0")/../.."
schedules=${1:-200}
work=build/planted-faults
n_passed=0 n_failed=0

# plant NAME FILE SED_EXPRESSION [PROGRAM]      a PROGRAM other than test_isolation takes no options
plant() {
    local name=$1 file=$2 expression=$3 program=${4:-test_isolation}
    local options=(--model tiny --schedules "$schedules") shown=replay:
    if [ "$program" != test_isolation ]; then
        options=()
        shown='differs from'
    fi
    local tree=$work/$name
    rm -rf "$tree"
    mkdir -p "$tree"
    cp -r CMakeLists.txt CMakePresets.json apps cmake examples include models src tests fuzz "$tree"
    sed -i "$expression" "$tree/$file"
    if cmp -s "$file" "$tree/$file"; then
        echo "$name: FAILED: the fault no longer fits $file"
        n_failed=$((n_failed + 1))
        return
    fi
    cmake -S "$tree" -B "$tree/build" -G Ninja -DLK_BUILD_APPS=OFF -DCMAKE_BUILD_TYPE=Release \
        >"$tree/log" 2>&1
    cmake --build "$tree/build" --target "$program" >>"$tree/log" 2>&1
    local status=0
    "$tree/build/tests/$program" "${options[@]}" >>"$tree/log" 2>&1 || status=$?
    if [ $status -eq 1 ] && grep -q "$shown" "$tree/log"; then
        echo "$name: caught: $(sed -n 's/^ *shortest: //p' "$tree/log" | cut -c 1-160)"
        sed -n 's/^ *replay: *[^ ]*/    replay with/p' "$tree/log" | cut -c 1-240
        n_passed=$((n_passed + 1))
    else
        echo "$name: FAILED: the suite ended with status $status"
        tail -n 5 "$tree/log"
        n_failed=$((n_failed + 1))
    fi
    rm -rf "$tree/build"
}

# A kernel whose order of summation depends on the number of rows.
plant order-by-rows src/backend/cpu/kern/matmul_tile.h \
    's|for (size_t k = 0; k < x->n; k += LK_TILE_ELEMS) {|'\
'for (size_t kk = 0; kk < x->n; kk += LK_TILE_ELEMS) { const size_t k = n_rows == 3 '\
'? (x->n - 1) / LK_TILE_ELEMS * LK_TILE_ELEMS - kk : kk;|'
# A page that keeps what it held before: a copied page without the copy.
plant page-not-copied src/engine/kv_pages.c \
    's|status = pages->ops->page_copy(.*);|status = LK_OK;|'
# Masked keys multiplied by zero, not skipped.
plant masked-times-zero src/backend/cpu/kern/attention.h \
    's|for (size_t j = begin; j < end; j++) {|'\
'for (size_t j = begin; j < (end + 15) / 16 * 16; j++) {|'
# A mask that another sequence's last mask has a part in.
plant mask-of-another src/grammar/mask.c \
    's|\*words = m->mask;|static uint32_t last = UINT32_MAX; const uint32_t own = m->mask[8]; '\
'm->mask[8] \&= last; last = own; *words = m->mask;|' test_grammar_isolation

echo "$n_passed passed, $n_failed failed"
[ $n_failed -eq 0 ]
