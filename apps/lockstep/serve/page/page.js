'use strict';
/* page.js - the page at /: a chat over /v1/chat/completions, and what /slots and /metrics say. */
const $ = (id) => document.getElementById(id);
let messages = [];
let controller = null; // of the answer that is coming

function headers() {
  const key = $('key').value.trim();
  const h = { 'Content-Type': 'application/json' };
  if (key) h.Authorization = 'Bearer ' + key;
  return h;
}

/* Runs `change`, and keeps the end in view where it was in view. */
function scroll(change) {
  const box = $('messages');
  const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  change();
  if (isAtEnd) box.scrollTop = box.scrollHeight;
}

function show(role, text) {
  const box = document.createElement('div');
  const thoughts = document.createElement('div');
  const body = document.createElement('div');
  const foot = document.createElement('footer');
  box.className = 'message ' + role;
  thoughts.className = 'thoughts';
  body.className = 'text';
  body.textContent = text;
  box.append(thoughts, body, foot);
  $('messages').append(box);
  $('messages').scrollTop = $('messages').scrollHeight;
  return { box, thoughts, body, foot };
}

function request() {
  const all = $('system').value.trim()
    ? [{ role: 'system', content: $('system').value.trim() }, ...messages] : messages.slice();
  const body = { messages: all, stream: true, stream_options: { include_usage: true } };
  for (const name of ['temperature', 'top_k', 'top_p', 'min_p', 'max_tokens', 'seed']) {
    if ($(name).value !== '') body[name] = Number($(name).value);
  }
  return body;
}

/* Calls `each` with the object of every event. */
async function readEvents(response, each) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const events = rest.split('\n\n');
    rest = events.pop();
    for (const event of events) {
      const data = event.replace(/^data: /, '');
      if (data === '[DONE]') return;
      each(JSON.parse(data));
    }
  }
}

/* Streams an answer into a view; what is to be said of it. */
async function stream(view, signal) {
  const start = performance.now();
  let note = '';
  const response = await fetch('v1/chat/completions', {
    method: 'POST', headers: headers(), body: JSON.stringify(request()), signal,
  });
  if (!response.ok) throw new Error((await response.json()).error.message);
  await readEvents(response, (event) => {
    if (event.error) throw new Error(event.error.message);
    const delta = event.choices.length ? event.choices[0].delta : {};
    if (delta.content || delta.reasoning_content) {
      scroll(() => {
        view.body.append(delta.content || '');
        view.thoughts.append(delta.reasoning_content || '');
      });
    }
    if (event.usage) {
      const n = event.usage.completion_tokens;
      const seconds = (performance.now() - start) / 1000; // from the request on
      note = `${n} tokens, ${(n / seconds).toFixed(1)} per second, seed ${event.seed}`;
    }
  });
  return note;
}

async function answer() {
  const view = show('assistant', '');
  const own = new AbortController();
  const chat = messages;
  let note = '';
  let isError = false;
  controller = own;
  $('send').textContent = 'Stop';
  try {
    note = await stream(view, own.signal);
  } catch (error) {
    isError = error.name !== 'AbortError';
    note = isError ? error.message : 'stopped';
  }
  scroll(() => {
    view.foot.textContent = note;
    view.box.classList.toggle('error', isError);
  });
  const text = view.body.textContent;
  if (text) {
    chat.push({ role: 'assistant', content: text });
  } else {
    /* Without an answer the message was not said: it can be sent again. */
    const said = chat.pop();
    if (isError && chat === messages && $('input').value === '') $('input').value = said.content;
  }
  if (controller === own) {
    controller = null;
    $('send').textContent = 'Send';
  }
  refresh();
}

function submit() {
  if (controller) {
    controller.abort();
    return;
  }
  const text = $('input').value.trim();
  if (!text) return;
  messages.push({ role: 'user', content: text });
  show('user', text);
  $('input').value = '';
  answer();
}

/* The answer that is coming goes on into the old list, which nobody sees any more. */
function forget() {
  if (controller) controller.abort();
  controller = null;
  messages = [];
  $('messages').replaceChildren();
  $('send').textContent = 'Send';
  $('input').focus();
}

/* ---- what the server is doing ---- */

function value(metrics, name) {
  const found = new RegExp('^lockstep_' + name + ' (\\S+)$', 'm').exec(metrics);
  return found ? Number(found[1]) : 0;
}

let last = null;
function figures(metrics) {
  const now = performance.now();
  const n = value(metrics, 'generated_tokens_total');
  const rate = last ? (n - last.n) / ((now - last.now) / 1000) : 0;
  last = { now, n };
  return {
    'Waiting': `${value(metrics, 'queue_length')} of ${value(metrics, 'queue_limit')}`,
    'Busy slots': `${value(metrics, 'slots_busy')} of ${value(metrics, 'slots')}`,
    'Tokens per second': rate.toFixed(1),
    'KV pages in use': `${(100 * value(metrics, 'kv_use_ratio')).toFixed(0)} %`,
    'Prompt tokens from the cache': value(metrics, 'cached_tokens_total'),
  };
}

function cells(tag, texts) {
  const row = document.createElement('tr');
  for (const text of texts) {
    const cell = document.createElement(tag);
    cell.textContent = text;
    row.append(cell);
  }
  return row;
}

async function refresh() {
  try {
    const [slots, metrics] = await Promise.all([
      fetch('slots', { headers: headers() }), fetch('metrics', { headers: headers() })]);
    if (!slots.ok) throw new Error('an API key is needed');
    const list = await slots.json();
    $('slots').replaceChildren(...list.map((s) => cells('td', [
      s.id, s.state, s.n_prompt_tokens, s.n_cached_tokens, s.n_generated_tokens])));
    $('figures').replaceChildren(...Object.entries(figures(await metrics.text())).flatMap(([k, v]) => {
      const name = document.createElement('dt');
      const number = document.createElement('dd');
      name.textContent = k;
      number.textContent = v;
      return [name, number];
    }));
    $('state').textContent = '';
  } catch (error) {
    $('state').textContent = error.message;
  }
}

async function begin() {
  try {
    const props = await (await fetch('props', { headers: headers() })).json();
    if (props.error) return;
    $('model').textContent = `${props.model_alias}, ${props.n_ctx} positions`;
    const defaults = props.default_generation_settings.params;
    for (const name of ['temperature', 'top_k', 'top_p', 'min_p']) {
      if ($(name).value === '') $(name).value = Math.round(defaults[name] * 1000) / 1000;
    }
  } catch (error) {
    $('state').textContent = error.message;
  }
}

$('form').addEventListener('submit', (event) => { event.preventDefault(); submit(); });
$('input').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing && !controller) {
    event.preventDefault();
    submit();
  }
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && controller) controller.abort();
});
$('clear').addEventListener('click', forget);
$('key').addEventListener('change', () => { begin(); refresh(); });
begin();
refresh();
setInterval(refresh, 1000);
$('input').focus();
