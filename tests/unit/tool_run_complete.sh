# tool_run_complete.sh - the answer to a recording is complete on a busy machine: into a pipe whose
# reader is late, into a file, as JSON; what cannot be written is an error. LK_FULL=1: 100 runs,
# with LK_CLIP=FILE of another recording.
. "$(dirname "$0")/../support/tool_checks.sh"
model=$LK_DATA/omni/tiny-omni-Q4_K_M.gguf
mmproj=$LK_DATA/omni/mmproj-tiny-omni-Q8_0.gguf
clip=$LK_DATA/omni/clips/ref0.wav
n_runs=4
[ "${LK_FULL:-0}" = 0 ] || n_runs=100
[ "${LK_SHORT:-0}" = 0 ] || n_runs=2
[ -z "${LK_CLIP:-}" ] || clip=$LK_CLIP

answer() {
    "$LK_TOOL" run "$model" --mmproj "$mmproj" --audio "$clip" \
        -p "Transcribe the following audio." --temp 0 "$@" 2>err
}

answer >idle || fail "the idle run: exit status $?"
if [ -z "${LK_CLIP:-}" ] && [ "$(cat idle)" != "that knowing he's a good man" ]; then
    fail "the idle run: $(cat idle)"
fi

# Some busy loops for each processor; they end with this script, however it ends.
busy=
for i in 1 2 3 4 5 6 7 8; do
    while :; do :; done &
    busy="$busy $!"
done
trap 'kill $busy 2>/dev/null' EXIT
trap 'exit 1' INT TERM HUP

i=0
n_complete=0
while [ $i -lt $n_runs ]; do
    i=$((i + 1))
    if [ $((i % 2)) = 0 ]; then
        answer >out
        status=$?
    else
        { answer; echo $? >status; } | { sleep 0.1; cat; } >out
        status=$(cat status)
    fi
    if [ "$status" = 0 ] && cmp -s out idle; then
        n_complete=$((n_complete + 1))
    else
        fail "run $i: exit status $status, answer '$(cat out)'"
    fi
done
echo "$n_complete of $n_runs answers complete"

answer --json >out
[ "$(tail -n 1 out)" = "}" ] || fail "--json: $(cat out)"
# Nobody reads; the disk is full: no success.
if [ -w /dev/full ]; then
    answer >/dev/full && fail "a full disk went unnoticed"
fi
rm -f out err idle status
exit $failed
