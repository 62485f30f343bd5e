# tool_template.sh - `lockstep template` and `run --chat` from outside: prompts, ids, other
# templates, requests with tools, what templates refuse, wrong use.
. "$(dirname "$0")/../support/tool_checks.sh"
model=$LK_DATA/models/tiny-q4_k_m.gguf
bare=$LK_DATA/tokenizers/tok512.vocab.gguf

# run STATUS COMMAND ARGUMENTS...
run() {
    tool "$@" </dev/null
}
# is TEXT: standard output is the text, to the last byte.
is() {
    printf "$1" >wanted
    cmp -s out wanted || fail "$last: '$(cat out)' is not '$(cat wanted)'"
}

run 2 template
says "MODEL is missing"
run 2 template "$model"
says "give the messages once"
run 2 template "$model" -p a --messages b
says "give the messages once"
run 2 template "$model" -p a --special
says "--special needs --ids"
run 0 template --help
has "usage: lockstep template MODEL"

run 0 template "$model" -p Hi --system "Be brief."
system='<|im_start|>system\nBe brief.<|im_end|>\n'
is "$system"'<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n'
run 0 template "$model" -p Hi --no-generation-prompt
is '<|im_start|>user\nHi<|im_end|>\n'
run 0 template "$model" --source
has "add_generation_prompt"
run 0 template "$model" --abilities
has "tools                  yes"

# Special tokens in a message are text, unless asked otherwise.
run 0 template "$model" -p 'a<|im_end|>b' --ids
[ "$(tr ' ' '\n' <out | grep -c -x 4086)" = 1 ] || fail "$last: $(cat out)"
run 0 template "$model" -p 'a<|im_end|>b' --ids --special
[ "$(tr ' ' '\n' <out | grep -c -x 4086)" = 2 ] || fail "$last: $(cat out)"

# A request with tools, a call and its result; a prefix to be continued.
cat >request <<'END'
{"messages": [{"role": "user", "content": "Weather?"},
  {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function",
    "function": {"name": "get", "arguments": "{\"city\": \"Paris\"}"}}]},
  {"role": "tool", "tool_call_id": "c1", "content": "21 C"}],
 "tools": [{"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}}]}
END
run 0 template "$model" --messages request
has '{"name": "get", "arguments": {"city": "Paris"}}'
has '"parameters": {"type": "object"}'
has '21 C'
echo '[{"role": "user", "content": "Q"}, {"role": "assistant", "content": "The answer"}]' >prefix
run 0 template "$model" --messages prefix --continue
is '<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nThe answer'
echo '[{"type": "function", "function": {"name": "get", "parameters": {}}}]' >tools
run 0 template "$model" -p Hi --tools tools
has '"name": "get"'

# Other templates.
run 1 template "$bare" -p Hi
says "the file has no chat template (tokenizer.chat_template): give one with --chat-template"
run 0 template "$bare" -p Hi --chat-template chatml
is '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n'
run 1 template "$bare" -p Hi --chat-template no-such
says "neither a file, nor a template of the model's file, nor chatml"
printf '{{ bos_token }}[{{ messages[0].content }}|{{ enable_thinking }}]\n' >mine
off='{"enable_thinking": false}'
run 0 template "$bare" -p Hi --chat-template mine --chat-template-kwargs "$off"
is '<s>[Hi|False]'
run 0 template "$bare" -p Hi --chat-template mine --ids
[ "$(tr ' ' '\n' <out | grep -c -x 1)" = 1 ] || fail "$last: not one BOS: $(cat out)"
printf 'a\n{{ messages[0].content + }}\n' >broken
run 1 template "$model" -p Hi --chat-template ./broken
says "line 2"
printf "{{ raise_exception('Only cats here.') }}" >refuses
run 1 template "$model" -p Hi --chat-template ./refuses
says "the chat template refuses the messages: Only cats here."
run 1 template "$model" -p Hi --tools tools --chat-template ./mine
says "leaves out the tools"
echo '{"role": 1' >damaged
run 1 template "$model" --messages damaged
says "the messages, line"

# run --chat
run 2 run "$model" -p Hi --system "Be brief."
says "need --chat"
run 0 template "$model" -p Hi --system "Be brief." --ids
tr ' ' '\n' <out >ids
run 0 run "$model" --chat -p Hi --system "Be brief." -n 1 --json --temp 0
sed -n '/"prompt_ids"/,/]/s/^ *\([0-9][0-9]*\),*$/\1/p' out >prompt_ids
cmp -s ids prompt_ids || fail "$last: other ids than those of lockstep template"

exit $failed
