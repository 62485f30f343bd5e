# check_symbols.sh - the shared library exports exactly what the public headers declare with LK_API,
# and every name begins with lk_.
. "$(dirname "$0")/abi.sh"
require "$LK_NM" nm

# declared FILE...: the names after LK_API, one a line, sorted. Comments and directives do not
# count. Line breaks are \001 while comments are cut out, since those may span lines.
declared() {
    cat "$@" | sed 's,//.*,,' | tr '\n' '\001' |
        sed 's,/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/, ,g' | tr '\001' '\n' |
        sed '/^[[:space:]]*#/d' | tr '\n' ' ' | sed 's/LK_API/\n&/g' |
        sed -n 's/^LK_API[^(;[]*[^A-Za-z0-9_(;[]\([A-Za-z0-9_]*\) *[(;[].*/\1/p' |
        LC_ALL=C sort -u
}

# exported LIBRARY: the names that others can link to.
exported() {
    "$LK_NM" -D --defined-only "$1" | awk '{ print $3 }' | sed 's/@.*//' | LC_ALL=C sort -u
}

declared "$LK_SOURCE"/include/lk/*.h >"$scratch/declared"
exported "$LK_SHARED_LIBRARY" >"$scratch/exported"
[ "$(wc -l <"$scratch/exported")" -gt 3 ] || complain "almost nothing is exported"

extra=$(LC_ALL=C comm -13 "$scratch/declared" "$scratch/exported")
[ -z "$extra" ] || complain "exported, but not declared with LK_API: $(echo $extra)"
foreign=$(grep -v '^lk_' "$scratch/exported")
[ -z "$foreign" ] || complain "exported without the prefix lk_: $(echo $foreign)"

# The scan itself, on a header with everything that could mislead it.
cat >"$scratch/planted.h" <<'PLANTED'
#define LK_API __attribute__((visibility("default")))
/* LK_API void lk_in_comment(void); ** stars */
LK_API int lk_one(void); // LK_API int lk_in_line_comment(void);
LK_API const char *lk_two(int (*fn)(void *),
                          int x);
extern LK_API const int lk_three;
int lk_not_exported(void);
LK_API lk_status
lk_four(lk_error *err); LK_API void lk_five(void);
PLANTED
found=$(declared "$scratch/planted.h" | tr '\n' ' ')
[ "$found" = "lk_five lk_four lk_one lk_three lk_two " ] || complain "the scan found: $found"

echo "$(wc -l <"$scratch/exported") symbols"
exit $failed
