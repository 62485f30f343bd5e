#!/bin/sh
# setup.sh FOLDER - fetches the engine that Lockstep is compared with, llama.cpp as node-llama-cpp
# ships it, and builds the drivers that measure it. All of it goes to FOLDER, nothing of it into
# the tree. Its libraries are the prebuilt ones of the package, as its users get them; the headers
# and the two tools of its own come from the source that the package carries.
#   FOLDER/bin/peer-run         the driver (peer_run.c)
#   FOLDER/bin/llama-bench      its own tools, to check the driver by hand
#   FOLDER/bin/batched-bench
#   FOLDER/bin/measure          time to the first byte, peak memory of any command (measure.c)
# Needs npm, git, a C and a C++ compiler. Does nothing where all is there already.
set -eu
version=3.21.1
here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 1 ] || {
    echo "usage: setup.sh FOLDER" >&2
    exit 2
}
mkdir -p "$1"
folder=$(cd "$1" && pwd)
case "$folder/" in "$(cd "$here/../.." && pwd)"/build/*) ;; "$(cd "$here/../.." && pwd)"/*)
    echo "setup.sh: $folder is inside the source tree; nothing of the peer belongs there" >&2
    rmdir "$folder" 2>/dev/null || true
    exit 2
    ;;
esac
case $(uname -sm) in
"Linux x86_64") platform=linux-x64 ;;
"Linux aarch64") platform=linux-arm64 ;;
*)
    echo "setup.sh: no prebuilt library for $(uname -sm)" >&2
    exit 1
    ;;
esac
bin=$folder/bin
mkdir -p "$bin"

# unpack NAME FILE: a package of the registry as FOLDER/NAME.
unpack() {
    [ -d "$folder/$1" ] && return 0
    mkdir -p "$folder/download"
    (cd "$folder/download" && npm pack --silent "$2@$version" >/dev/null)
    rm -rf "$folder/$1.part"
    mkdir "$folder/$1.part"
    tar xzf "$folder/download/$3-$version.tgz" -C "$folder/$1.part" --strip-components=1
    mv "$folder/$1.part" "$folder/$1"
}
unpack package node-llama-cpp node-llama-cpp
unpack prebuilt "@node-llama-cpp/$platform" "node-llama-cpp-$platform"
if [ ! -d "$folder/source" ]; then
    rm -rf "$folder/source.part"
    git -c advice.detachedHead=false clone -q "$folder/package/llama/gitRelease.bundle" \
        "$folder/source.part"
    mv "$folder/source.part" "$folder/source"
fi
# The libraries are looked for beside the program.
cp -u "$folder/prebuilt/bins/$platform/"*.so "$bin/"
llama=$(basename "$(ls "$bin"/libllama.*so | head -n 1)")
ggml=$(basename "$(ls "$bin"/libggml.*so | head -n 1)")
source=$folder/source
include="-I$source/include -I$source/ggml/include"
libraries="-L$bin -Wl,-rpath,\$ORIGIN -l:libllama-common.so -l:$llama -l:$ggml -l:libggml-base.so"

# is_new OUT SOURCE: OUT has to be made.
is_new() {
    [ ! -e "$1" ] || [ "$2" -nt "$1" ]
}
if is_new "$bin/measure" "$here/measure.c"; then
    ${CC:-cc} -O2 -o "$bin/measure" "$here/measure.c"
fi
if is_new "$bin/peer-run" "$here/peer_run.c"; then
    # shellcheck disable=SC2086
    ${CC:-cc} -O2 -o "$bin/peer-run" $include "$here/peer_run.c" $libraries
fi
for tool in llama-bench batched-bench; do
    if is_new "$bin/$tool" "$source/tools/$tool/main.cpp"; then
        # shellcheck disable=SC2086
        ${CXX:-c++} -O2 -DNDEBUG -std=c++17 -o "$bin/$tool" $include "-I$source/common" \
            "-I$source/vendor" "$source/tools/$tool/$tool.cpp" "$source/tools/$tool/main.cpp" \
            $libraries
    fi
done
echo "$bin"
