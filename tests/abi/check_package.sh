# check_package.sh - an installed Lockstep, moved to another folder, serves a program that was built
# with pkg-config (shared and static) and one that was built with find_package (both libraries).
. "$(dirname "$0")/abi.sh"
require "$LK_CC"
require pkg-config

export DESTDIR="$scratch/stage"
"$LK_CMAKE" --install "$LK_BUILD" --prefix /opt/first >"$scratch/log" 2>&1 || {
    cat "$scratch/log" >&2
    exit 1
}
mv "$scratch/stage/opt/first" "$scratch/moved"
prefix=$scratch/moved
[ "$(ls "$prefix/include/lk")" = "$(cd "$LK_SOURCE/include/lk" && ls ./*.h | sed 's,^./,,')" ] ||
    complain "include/lk is not installed as it is"
library_dir=$(dirname "$(find "$prefix" -name liblockstep.so)")
PKG_CONFIG_PATH=$library_dir/pkgconfig
export PKG_CONFIG_PATH

mkdir "$scratch/user"
cat >"$scratch/user/main.c" <<'USER'
#include <lk/base.h>
#include <stdio.h>
int main(void) {
    return printf("%s\n", lk_version()) < 0;
}
USER
cat >"$scratch/user/CMakeLists.txt" <<'USER'
cmake_minimum_required(VERSION 3.25)
project(user C)
find_package(lockstep 0.1 REQUIRED)
add_executable(with_shared main.c)
target_link_libraries(with_shared PRIVATE lockstep::lockstep)
add_executable(with_static main.c)
target_link_libraries(with_static PRIVATE lockstep::lockstep_static)
USER

# prints_version NAME PROGRAM
prints_version() {
    found=$(LD_LIBRARY_PATH=$library_dir "$2")
    [ "$found" = "$LK_VERSION" ] || complain "$1 printed '$found', expected '$LK_VERSION'"
}

[ "$(pkg-config --modversion lockstep)" = "$LK_VERSION" ] || complain "pkg-config: wrong version"
# shellcheck disable=SC2046 # several options
{
    "$LK_CC" "$scratch/user/main.c" -o "$scratch/pc_shared" \
        $(pkg-config --cflags --libs lockstep) &&
        prints_version "pkg-config, shared" "$scratch/pc_shared" || complain "pkg-config, shared"
    "$LK_CC" "$scratch/user/main.c" -o "$scratch/pc_static" -static \
        $(pkg-config --static --cflags --libs lockstep) &&
        prints_version "pkg-config, static" "$scratch/pc_static" || complain "pkg-config, static"
}
if "$LK_CMAKE" -S "$scratch/user" -B "$scratch/user/build" -DCMAKE_C_COMPILER="$LK_CC" \
    -DCMAKE_PREFIX_PATH="$prefix" >"$scratch/log" 2>&1 &&
    "$LK_CMAKE" --build "$scratch/user/build" >>"$scratch/log" 2>&1; then
    prints_version "find_package, shared" "$scratch/user/build/with_shared"
    prints_version "find_package, static" "$scratch/user/build/with_static"
else
    cat "$scratch/log" >&2
    complain "find_package"
fi
tool=$prefix/bin/lockstep
if [ -e "$tool" ]; then
    "$tool" --version | grep -q "$LK_VERSION" || complain "the installed tool: wrong version"
fi

exit $failed
