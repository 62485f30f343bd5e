#!/bin/sh
# packages.sh - the one place that knows what Lockstep needs from the system.
#
#   sh tools/packages.sh run     what `make run` and `make install` need
#   sh tools/packages.sh test    the same and what `make test` needs
#
# Every need is probed for itself (a program, a pkg-config module, a link that works), so nothing
# is asked of the package manager, and no network is used, when everything is there. What is missing
# is installed with apt-get where that exists (Debian 12 and 13, Ubuntu 24.04), as root or through
# sudo; elsewhere, or with LK_NO_INSTALL=1, it is listed and the exit status is 1.
set -u

list=${1:-run}

# One need a line: probe, its argument, the Debian package.
needs() {
    cat <<'NEEDS'
compiles c gcc
compiles c libc6-dev
program cmake cmake
program ninja ninja-build
program pkg-config pkg-config
module jansson libjansson-dev
module libmicrohttpd libmicrohttpd-dev
module libedit libedit-dev
module sndfile libsndfile1-dev
module libcurl libcurl4-gnutls-dev
NEEDS
    [ "$list" = test ] || return 0
    cat <<'NEEDS'
program g++ g++
program curl curl
program nm binutils
program objdump binutils
program clang clang
program clang-format clang-format
program clang-tidy clang-tidy
compiles clang-sanitizers @clang-rt
module libpcre2-8 libpcre2-dev
module libutf8proc libutf8proc-dev
module samplerate libsamplerate0-dev
program qemu-aarch64 qemu-user
program qemu-x86_64 qemu-user
program aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
compiles aarch64 libc6-dev-arm64-cross
program ccache ccache
NEEDS
}

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
printf '#include <stdio.h>\nint main(void) {\n    return puts("") < 0;\n}\n' >"$scratch/probe.c"

# is_there PROBE ARGUMENT
is_there() {
    case $1 in
    program) command -v "$2" ;;
    module) command -v pkg-config && pkg-config --exists "$2" ;;
    compiles)
        case $2 in
        c) cc -o "$scratch/probe" "$scratch/probe.c" ;;
        clang-sanitizers)
            clang -fsanitize=address,undefined,fuzzer-no-link -o "$scratch/probe" "$scratch/probe.c"
            ;;
        aarch64) aarch64-linux-gnu-gcc -o "$scratch/probe" "$scratch/probe.c" ;;
        esac
        ;;
    esac >/dev/null 2>&1
}

# The packages that are missing, one a line, each once.
missing() {
    needs | while read -r probe argument package; do
        is_there "$probe" "$argument" || echo "$package"
    done | sort -u
}

# Debian calls the sanitizer runtimes of Clang libclang-rt-dev since version 14; before that, and
# where that name is unknown, they carry the version number.
resolve() {
    while read -r package; do
        if [ "$package" = @clang-rt ]; then
            package=libclang-rt-dev
            if command -v apt-cache >/dev/null && ! apt-cache show "$package" >/dev/null 2>&1; then
                version=$(apt-cache depends clang 2>/dev/null |
                    sed -n 's/.*clang-\([0-9]*\)$/\1/p' | head -n 1)
                [ -n "$version" ] && package=libclang-rt-$version-dev
            fi
        fi
        echo "$package"
    done
}

give_up() {
    echo "lockstep: missing for 'make $list' (named as in Debian):" >&2
    printf '%s\n' "$1" | resolve | sed 's/^/    /' >&2
    [ -z "${2:-}" ] || echo "lockstep: $2" >&2
    exit 1
}

needed=$(missing)
[ -n "$needed" ] || exit 0

[ -z "${LK_NO_INSTALL:-}" ] || give_up "$needed" "not installed, because LK_NO_INSTALL is set"
command -v apt-get >/dev/null || give_up "$needed" "no apt-get here: please install them yourself"
as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || give_up "$needed" "neither root nor sudo: please install them"
    as_root=sudo
    # Nobody is there to type a password in CI or without a terminal.
    if [ -n "${CI:-}" ] || [ ! -t 0 ]; then
        as_root="sudo -n"
    fi
    $as_root true || give_up "$needed" "sudo was refused: please install them as root"
fi

$as_root apt-get update -qq || give_up "$needed" "'apt-get update' failed"
packages=$(printf '%s\n' "$needed" | resolve)
echo "lockstep: installing" $packages
# shellcheck disable=SC2086 # one argument a package
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    $packages >"$scratch/log" 2>&1 || {
    tail -n 20 "$scratch/log" >&2
    give_up "$needed" "'apt-get install' failed"
}
needed=$(missing)
[ -z "$needed" ] || give_up "$needed" "installed, but still not usable"
