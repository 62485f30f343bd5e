# tool_verify.sh - `lockstep verify`: every experiment on the tiny model, single cases, wrong use.
. "$(dirname "$0")/../support/tool_checks.sh"
command=verify
model=$LK_DATA/models/tiny-q4_k_m.gguf

run 0 "$model" -n 10 --report a.html --json a.json --junit a.xml
for name in alone stagger together cut threads isa kv slots pages reuse requests schedules load \
    across nonfinite overlap; do
    matches out "^$name .* equal "
    matches a.json "\"experiment\": \"$name\""
    matches a.xml "classname=\"verify.$name\""
done
matches out 'refused: layer [0-9]*, operator rms_norm (NaN in blk'
matches a.html '^All [0-9]* cases that were possible are equal\|class="banner equal"'
! grep -q 'secret word\|src=\|href=\|<script' a.html || fail "$last: the page holds too much"
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
# A schedule as text, again; another machine's receipt, and one with a digest changed.
run 0 "$model" --only schedules \
    --replay '0:A0.0;S0.20;A1.1;M0.10,1.10;F0.2.18.1;S0.1,1.1,2.5*4;R;T0.9;S0.9'
matches out '^schedules  *replayed  *equal'
run 0 "$model" -n 6 --record r.json
run 0 "$model" --across r.json
matches out '^across  *the receipt, KV f16,f16  *equal  *0/4'
sed 's/"[0-9a-f]\{31\}[0-7]"/"00000000000000000000000000000000"/' r.json >bad.json
run 1 "$model" --across bad.json
matches out 'bits differ from position'
run 2 "$LK_DATA/archs/llama.gguf" --across r.json
says 'it is of the model'
echo '{}' >bad.json
run 2 "$model" --across bad.json
says 'no receipt'
run 2 "$model" --only schedules --replay '0:A0.0;Q'
says "operation 1 of the schedule cannot be read: 'Q'"
run 2 "$model" -nofa
says "no setting 'attention'"
run 2 "$model" -ngl 9
says "no setting 'layers'"
run 2 "$model" --only stagger -n 8 -stagger 1 --report none/a.html
says 'none/a.html cannot be written'

run 0 "$model" --only case --set threads=2,neighbours=1,n=4 --keep threads --json a.json
matches a.json '--keep threads"'

# A recording: every case that is possible is equal, and the line repeats itself.
omni=$LK_DATA/omni/tiny-omni-Q4_K_M.gguf
heard="--mmproj $LK_DATA/omni/mmproj-tiny-omni-Q8_0.gguf --audio $LK_DATA/omni/clips/ref0.wav"
with_devices 0
run 0 "$omni" $heard --only audio -n 4 -r 1 --json a.json
with_devices -1
matches out '^audio  *after another recording, cleared  *equal  *0/1  *4/4'
matches out '^audio  *all processors busy  *equal  *0/1  *4/4'
matches out '^audio  *encoder on a device  *not possible'
matches out '^All [0-9]* cases that were possible are equal[.]$'
! grep -q 'DIFFERENT\|ERROR' out || fail "$last: $(grep 'DIFFERENT\|ERROR' out)"
matches a.json 'ref0.wav --only case --set clip=2,before=1,n=4"'
run 0 "$omni" $heard --only case --set clip=2,before=1,n=4
run 2 "$omni" $heard --only case --set clip=1,windows=99
matches out 'max_windows is 99, expected 1 .. 16'
run 2 "$model" --audio a.wav
says '--audio needs the encoder'
run 2 "$model" --mmproj a.gguf
says '--mmproj needs a recording with --audio'
run 2 "$model" --chat-template chatml
says '--chat-template is for --mmproj FILE --audio FILE'
# shellcheck disable=SC2086
run 2 $LK_DATA/omni/tiny-omni-Q4_K_M.gguf $heard --chat-template nothing
says '--chat-template nothing is neither a file'
run 2 "$model" --set clip=1
says 'a recording is missing'
run 2 "$model" --projector device
says '--projector needs the encoder'
with_devices 0
# shellcheck disable=SC2086
run 2 "$omni" $heard --projector device
says 'verify: --projector device: '
# shellcheck disable=SC2086
run 2 "$omni" $heard --only case --set clip=1,projector=1,n=4
matches out '^case .*not possible'
# shellcheck disable=SC2086
run 2 "$omni" $heard --projector device
if has_device_code; then
    with_devices 1
    short_clip seventh.wav
    run 0 "$omni" --mmproj "$LK_DATA/omni/mmproj-tiny-omni-Q8_0.gguf" --audio seventh.wav \
        --only case --set clip=1,projector=1,n=4
    matches out '^case .* equal  *0/1  *4/4'
fi
with_devices -1

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

rm -f out err a.html a.json a.xml r.json bad.json
exit $failed
