# check_headers.sh - every public header compiles alone, as C17 and as C++17, with warnings as
# errors, and twice in a row (its guard works).
. "$(dirname "$0")/abi.sh"
require "$LK_CC"
require "$LK_CXX" "a C++ compiler"

warnings="-Wall -Wextra -Wpedantic -Wconversion -Wundef -Werror"

# check NAME TEXT: the text as a C and as a C++ file.
check() {
    printf '%b' "$2" >"$scratch/$1.c"
    cp "$scratch/$1.c" "$scratch/$1.cc"
    # shellcheck disable=SC2086 # several options
    "$LK_CC" -std=c17 $warnings -Wstrict-prototypes -I"$LK_SOURCE/include" -fsyntax-only \
        "$scratch/$1.c" && "$LK_CXX" -std=c++17 $warnings -I"$LK_SOURCE/include" -fsyntax-only \
        "$scratch/$1.cc"
}

count=0
for header in "$LK_SOURCE"/include/lk/*.h; do
    name=lk/$(basename "$header")
    check header "#include \"$name\"\n#include \"$name\"\n" || complain "$name does not stand alone"
    count=$((count + 1))
done
[ $count -gt 0 ] || complain "no headers in include/lk"

# The check itself: what is C only, and a header that is not there, must be found.
check c_only 'int f(int n, char class[n]);\n' 2>/dev/null && complain "C++ was not compiled"
check absent '#include "lk/absent.h"\n' 2>/dev/null && complain "a missing header was not noticed"

echo "$count headers"
exit $failed
