#!/bin/sh
# audio.sh FOLDER - builds llama.cpp's own tool for recordings in a folder that setup.sh filled: the
# files of its media library and of the tool from the source that the package carries, on top of the
# package's own prebuilt libraries, which compute the encoder.
#   FOLDER/bin/llama-mtmd-cli
# Needs a C and a C++ compiler and takes some minutes; what was compiled stays when it is ended
# early. Does nothing where the tool is there already.
set -eu
[ $# -eq 1 ] && [ -d "$1/source" ] && [ -d "$1/bin" ] || {
    echo "usage: audio.sh FOLDER (after: setup.sh FOLDER)" >&2
    exit 2
}
folder=$(cd "$1" && pwd)
bin=$folder/bin
source=$folder/source
objects=$folder/audio-objects
[ -x "$bin/llama-mtmd-cli" ] && {
    echo "$bin/llama-mtmd-cli"
    exit 0
}
mkdir -p "$objects"
include="-I$source/include -I$source/ggml/include -I$source/common -I$source/vendor
    -I$source/vendor/hash -I$source/tools/mtmd"

# Reads names of files and compiles each without an object, as many at once as there are processors.
build() {
    # shellcheck disable=SC2016
    OBJECTS="$objects" INCLUDE="$include" xargs -n 1 -P "$(getconf _NPROCESSORS_ONLN)" sh -c '
        out=$OBJECTS/$(basename "$1").o
        [ -e "$out" ] && exit 0
        case $1 in
        */sha1.c | *.cpp) compile="${CXX:-c++} -x c++ -std=c++17" ;;
        *) compile="${CC:-cc}" ;;
        esac
        $compile -O2 -w -DNDEBUG $INCLUDE -c "$1" -o "$out.part" && mv "$out.part" "$out"
    ' sh
}
mtmd=$source/tools/mtmd
hash=$source/vendor/hash
{
    ls "$mtmd"/models/*.cpp "$mtmd"/clip.cpp "$mtmd"/mtmd*.cpp
    ls "$hash/hash.cpp" "$hash/xxhash/xxhash.c" "$hash/sha1/sha1.c" "$hash/sha256/sha256.c"
} | build
llama=$(basename "$(ls "$bin"/libllama.*so | head -n 1)")
ggml=$(basename "$(ls "$bin"/libggml.*so | head -n 1)")
${CXX:-c++} -o "$bin/llama-mtmd-cli.part" "$objects"/*.o "-L$bin" "-Wl,-rpath,\$ORIGIN" \
    -l:libllama-common.so "-l:$llama" "-l:$ggml" -l:libggml-base.so -lpthread -ldl
mv "$bin/llama-mtmd-cli.part" "$bin/llama-mtmd-cli"
echo "$bin/llama-mtmd-cli"
