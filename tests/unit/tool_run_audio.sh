# tool_run_audio.sh - `lockstep run --audio`: words from a recording, several of them, and what is
# wrong with other files.
. "$(dirname "$0")/../support/tool_checks.sh"
command=run
model=$LK_DATA/omni/tiny-omni-Q4_K_M.gguf
mmproj=$LK_DATA/omni/mmproj-tiny-omni-Q8_0.gguf
clips=$LK_DATA/omni/clips
text="Transcribe the following audio."

run 0 "$model" --mmproj "$mmproj" --audio "$clips/ref0.wav" -p "$text" --temp 0
[ "$(cat out)" = "that knowing he's a good man" ] || fail "$last: $(cat out)"
says "prompt 77 tokens"
# Threads and the mapped file change nothing; --chat is what it means anyway.
run 0 "$model" --mmproj "$mmproj" --audio "$clips/ref0.wav" -p "$text" --temp 0 --ids --digests -t 1
cp out first
run 0 "$model" --mmproj "$mmproj" --audio "$clips/ref0.wav" -p "$text" --temp 0 --ids --digests \
    --chat -t 3 --no-repack
cmp -s out first || fail "$last: other digests"
run 0 "$model" --mmproj "$mmproj" --audio "$clips/clip27.wav" -p "$text" --temp 0 --ids --digests
cmp -s out first && fail "$last: the digests of another clip"
run 0 "$model" --mmproj "$mmproj" --audio "$clips/ref0.wav" --audio "$clips/clip27.wav" -p "$text" \
    --temp 0 -n 4
says "prompt 95 tokens"

run 0 "$model" --mmproj "$mmproj" --projector cpu --audio "$clips/ref0.wav" -p "$text" --temp 0
[ "$(cat out)" = "that knowing he's a good man" ] || fail "$last: $(cat out)"
with_devices 0
run 2 "$model" --mmproj "$mmproj" --projector device --audio "$clips/ref0.wav" -p "$text"
says "run: --projector device: "
if has_device_code; then
    says "the NVIDIA driver finds no device"
    short_clip seventh.wav
    run 0 "$model" --mmproj "$mmproj" --audio seventh.wav -p "$text" --temp 0 -n 4 --ids --digests
    cp out first
    with_devices 1
    run 0 "$model" --mmproj "$mmproj" --projector device --audio seventh.wav -p "$text" --temp 0 \
        -n 4 --ids --digests
    cmp -s out first || fail "$last: other digests"
    LK_EMULATED_FAIL=cuLaunchKernel:20:719
    export LK_EMULATED_FAIL
    run 1 "$model" --mmproj "$mmproj" --projector device --audio seventh.wav -p "$text"
    says "launching lk_cuda_"
    says "error 719"
    unset LK_EMULATED_FAIL
fi
with_devices -1
run 2 "$model" --mmproj "$mmproj" --projector gpu --audio "$clips/ref0.wav" -p "$text"
says "--projector gpu, expected cpu or device"
run 2 "$model" --projector cpu -p "$text"
says "--projector needs the encoder's file with --mmproj"

run 2 "$model" --audio "$clips/ref0.wav" -p "$text"
says "--audio needs the encoder's file with --mmproj"
run 2 "$model" --mmproj "$mmproj" -p "$text"
says "--mmproj a recording with --audio"
run 1 "$model" --mmproj "$model" --audio "$clips/ref0.wav" -p "$text"
says "the file is no projector"
run 1 "$model" --mmproj "$mmproj" --audio "$mmproj" -p "$text"
says "$mmproj"
run 1 "$model" --mmproj "$mmproj" --audio no-such-file.wav -p "$text"
says "no-such-file.wav"
run 1 "$LK_DATA/models/tiny-q4_k_m.gguf" --mmproj "$mmproj" --audio "$clips/ref0.wav" -p "$text"
says "it belongs to another model"
run 1 "$model" --mmproj "$mmproj" --audio "$clips/ref0.wav" -p "$text" --chat-template chatml
says "takes texts only"
run 1 "$model" --mmproj "$mmproj" --audio "$clips/ref0.wav" -p "$text" -c 40
says "the prompt has 77 tokens"
# 300 samples: two frames, too few for a token.
{
    printf 'RIFF\174\002\000\000'
    head -c 40 "$clips/ref0.wav" | tail -c 32
    printf '\130\002\000\000'
    head -c 644 "$clips/ref0.wav" | tail -c 600
} >short.wav
run 1 "$model" --mmproj "$mmproj" --audio short.wav -p "$text"
says "short.wav: the recording is too short"
run 1 "$mmproj" -p "$text"
says 'architecture "clip"'

exit $failed
