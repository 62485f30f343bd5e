#!/bin/sh
# server.sh FOLDER - builds the server of llama.cpp in a folder that setup.sh filled: the files of
# the server from the source that the package carries, on top of the package's own prebuilt
# libraries, so that the server computes with exactly what the package's users have.
#   FOLDER/bin/llama-server
# Without TLS, media and its page. Needs a C++ compiler and takes some minutes. Does nothing where
# it is there already.
set -eu
[ $# -eq 1 ] && [ -d "$1/source" ] && [ -d "$1/bin" ] || {
    echo "usage: server.sh FOLDER (after: setup.sh FOLDER)" >&2
    exit 2
}
folder=$(cd "$1" && pwd)
bin=$folder/bin
source=$folder/source
objects=$folder/server-objects
[ -x "$bin/llama-server" ] && {
    echo "$bin/llama-server"
    exit 0
}
mkdir -p "$objects"
# No page: an empty list of its files.
cat >"$objects/ui.h" <<'UI'
#include <array>
#include <string>
struct llama_ui_asset {
    std::string name;
};
inline std::array<llama_ui_asset, 0> llama_ui_get_assets() {
    return {};
}
UI
include="-I$objects -I$source -I$source/include -I$source/ggml/include -I$source/common
    -I$source/vendor -I$source/tools/mtmd -I$source/tools/server"

# What this compiles computes nothing of a text: it is compiled quickly rather than well.
build() {
    out=$objects/$(basename "$1" .cpp).o
    [ -e "$out" ] && return 0
    # shellcheck disable=SC2086
    ${CXX:-c++} -std=c++17 -w -DNDEBUG "$2" $include -c "$1" -o "$out.part"
    mv "$out.part" "$out"
}
for file in "$source"/tools/server/*.cpp; do
    build "$file" -O1
done
# No images and no audio. Of the library for these, what is called without a projector does nothing,
# and the rest ends the program.
{
    echo '#include <stdlib.h>'
    nm -u "$objects"/*.o |
        sed -n 's/^ *U \(mtmd_[a-z0-9_]*\|_Z[0-9]*mtmd_[A-Za-z0-9_]*\)$/\1/p' | sort -u |
        while read -r name; do
            case $name in
            mtmd_free | mtmd_helper_log_set) echo "void $name(void) {}" ;;
            mtmd_helper_init_opt_default | mtmd_context_params_default) ;;
            *) echo "void $name(void) { abort(); }" ;;
            esac
        done
} >"$objects/no_media.c"
${CC:-cc} -O1 -c "$objects/no_media.c" -o "$objects/no_media.o"
cat >"$objects/media_options.cpp" <<'MEDIA'
#include "mtmd-helper.h"
#include "mtmd.h"
mtmd_context_params mtmd_context_params_default(void) {
    return {};
}
mtmd_helper_init_opt mtmd_helper_init_opt_default(void) {
    return {};
}
MEDIA
build "$objects/media_options.cpp" -O1
llama=$(basename "$(ls "$bin"/libllama.*so | head -n 1)")
ggml=$(basename "$(ls "$bin"/libggml.*so | head -n 1)")
${CXX:-c++} -o "$bin/llama-server.part" "$objects"/*.o "-L$bin" "-Wl,-rpath,\$ORIGIN" \
    -l:libllama-common.so "-l:$llama" "-l:$ggml" -l:libggml-base.so -lpthread
mv "$bin/llama-server.part" "$bin/llama-server"
echo "$bin/llama-server"
