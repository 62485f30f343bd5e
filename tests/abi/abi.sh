# abi.sh - what the scripts of this folder share. Sourced, never run.
set -u
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
failed=0

# complain TEXT: a finding; the script goes on.
complain() {
    echo "FAILED: $1" >&2
    failed=1
}

# require PROGRAM: without it there is no verdict; in CI that is a failure.
require() {
    if [ -z "$1" ] || ! command -v "$1" >/dev/null; then
        echo "${2:-$1} is missing" >&2
        [ -z "${CI:-}" ] || exit 1
        exit 77
    fi
}
