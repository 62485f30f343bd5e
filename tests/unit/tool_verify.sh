# tool_verify.sh - `lockstep verify`: every experiment on the tiny model, single cases, wrong use.
. "$(dirname "$0")/../support/tool_checks.sh"
command=verify
model=$LK_DATA/models/tiny-q4_k_m.gguf

run 0 "$model" -n 10
matches out '^stagger  *joins with decode row 5  *equal  *0/1'
matches out '^overlap  *two threads in one context  *equal'
matches out ' 0 let in beside the first thread; its results are unharmed'
! grep -q 'DIFFERENT\|ERROR' out || fail "$last: $(grep 'DIFFERENT\|ERROR' out)"

# The options of the report that started it.
run 0 "$model" --only stagger -n 16 -stagger 1,5 -f16
matches out '^stagger  *joins with decode row 1  *equal  *0/1  *16/16 16/16$'
matches out '^stagger  *joins with decode row 5 '

run 0 "$model" --only case --set neighbours=2,join=3,fork=1,n=8 --kv-type q8_0,f16 -t 2
matches out '^case .* equal  *0/1  *8/8'
run 0 --only list
matches out '^stagger '

run 2
says 'MODEL is missing'
run 2 none.gguf
says 'none.gguf'
run 2 "$model" --only stagger,bogus
says "there is no experiment 'bogus'"
run 2 "$model" --only case --set join=x
says "join needs a whole number, not 'x'"
run 2 "$model" --only case --set joins=1
says "there is no factor 'joins'"
run 2 "$model" --target libx
says "there is no target 'libx'"
run 2 "$model" --suite fast
run 2 "$model" -stagger 1,
run 2 "$model" -stagger -1
run 2 "$model" -f16 --kv-type f16
run 0 --help

rm -f out err
exit $failed
