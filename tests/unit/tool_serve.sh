# tool_serve.sh - lockstep serve and replay from outside: wrong uses and exit statuses. What they
# do when used well is in tests/server.
set -u
failed=0
complain() {
    echo "FAILED: $1" >&2
    sed 's/^/    /' out err >&2
    failed=1
}
# expect STATUS TEXT ARGUMENTS...: exit status, and a text of standard error or output.
expect() {
    status=$1 text=$2
    shift 2
    timeout 60 "$LK_TOOL" "$@" >out 2>err </dev/null
    found=$?
    [ $found -eq "$status" ] || complain "$*: exit status $found, expected $status"
    grep -q -e "$text" out err || complain "$*: no '$text'"
}
model=$LK_DATA/models/tiny-q4_k_m.gguf
expect 0 'usage: lockstep serve' serve --help
expect 2 MODEL serve
expect 2 'unknown option' serve "$model" --nothing
expect 2 '--port' serve "$model" --port 70000
expect 2 '--tls-key go together' serve "$model" --tls-cert x
expect 2 'q8_0' serve "$model" --kv-type f64
expect 2 'not empty' serve "$model" --api-key ''
expect 2 'no-such-file' serve "$model" --api-key-file no-such-file
: >keys
expect 2 'holds no API key' serve "$model" --api-key-file keys
expect 1 'no-such-model' serve no-such-model
expect 1 'cannot listen' serve "$model" --port 0 --host 203.0.113.1
expect 1 'n_ctx' serve "$model" --port 0 -c 64 --ctx 128
expect 1 'no-such-template' serve "$model" --port 0 --chat-template no-such-template
printf 'x\n' >cert
expect 1 'a certificate and its key in PEM' serve "$model" --port 0 --tls-cert cert --tls-key cert

expect 0 'usage: lockstep replay' replay --help
expect 2 RECEIPT replay "$model"
expect 1 'no-such-file' replay "$model" no-such-file
expect 1 'not valid JSON' replay "$model" cert
echo '{}' >empty
expect 1 'holds no receipt' replay "$model" empty
start='{"receipt": 1, "model": "00", "numerics": "lk1", "kv_types": ["f16", "f16"]'
echo "$start}" >part
expect 1 "'sampler' is not an object" replay "$model" part
settings='{"temperature": 0, "top_k": 0, "top_p": 1, "min_p": 0, "typical_p": 1,
 "repeat_penalty": 1, "presence_penalty": 0, "frequency_penalty": 0, "repeat_last_n": 0,
 "logit_bias": []}'
rest="\"seed\": 1, \"choice\": 0, \"sampler\": $settings, \"prompt_ids\": [1], \"ids\": [],
 \"digests\": []}"
echo "$start, $rest" >other
expect 1 'of the model 00' replay "$model" other
echo "$start, $rest" | sed 's/lk1/lk0/' >old
expect 1 'by the numerics lk0' replay "$model" old
echo "$start, $rest" | sed 's/"ids": \[\]/"ids": [1]/' >short
expect 1 "'digests' is not a list as long" replay "$model" short
exit $failed
