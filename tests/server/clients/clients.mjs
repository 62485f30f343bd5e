/* clients.mjs PORT - npm's openai, the AI SDK, OpenAI Agents and LangChain against a running server:
 * plain, streaming, usage, stop, n, seed, logprobs, structured output, calls of tools, error classes, abort in the
 * middle. */
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { embedMany, generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { Agent, OpenAIChatCompletionsModel, run, setTracingDisabled, tool as agentTool } from '@openai/agents';

const port = process.argv[2];
const baseURL = `http://127.0.0.1:${port}/v1`;
const openai = new OpenAI({ baseURL, apiKey: 'none', maxRetries: 0 });
const model = (await openai.models.list()).data[0].id;
const messages = [{ role: 'user', content: 'Tell me a story.' }];
const base = { model, messages, seed: 7, max_tokens: 24 };
let whole = '';

const weather = [{ role: 'user', content: 'What is the weather in Rome?' }];
const weatherTool = { type: 'function', function: { name: 'get_weather', parameters: {
  type: 'object', properties: { city: { type: 'string', maxLength: 20 }, unit: { enum: ['c', 'f'] } },
  required: ['city', 'unit'], additionalProperties: false } } };

function checkWeather(call) {
  const { city, unit, ...rest } = JSON.parse(call.function.arguments);
  assert.equal(call.function.name, 'get_weather');
  assert.ok(call.id && typeof city === 'string' && ['c', 'f'].includes(unit));
  assert.deepEqual(rest, {});
}

async function metric(name) {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  return Number(new RegExp(`^lockstep_${name} (\\S+)$`, 'm').exec(text)[1]);
}

async function becomesIdle() {
  for (let i = 0; i < 400; i++) {
    if (await metric('http_requests_open') === 0 && await metric('slots_busy') === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.fail('work goes on for a client that is gone');
}

const tests = {
  async 'openai: plain, usage, seed'() {
    const a = await openai.chat.completions.create(base);
    const b = await openai.chat.completions.create(base);
    whole = a.choices[0].message.content;
    assert.ok(whole.length > 10);
    assert.equal(b.choices[0].message.content, whole);
    assert.equal(a.usage.total_tokens, a.usage.prompt_tokens + a.usage.completion_tokens);
    assert.ok(b.usage.prompt_tokens_details.cached_tokens > 0);
    assert.ok(a.system_fingerprint);
    assert.equal((await openai.models.retrieve(model)).id, model);
  },
  async 'embeddings: openai, AI SDK, LangChain'() {
    const input = ['a cat', 'a dog', 'a cat'];
    const base64 = await openai.embeddings.create({ model, input }); // asks for base64, decodes it
    const floats = await openai.embeddings.create({ model, input, encoding_format: 'float' });
    const [cat, dog, again] = base64.data.map((item) => Array.from(item.embedding));
    assert.deepEqual(cat, again);
    assert.notDeepEqual(cat, dog);
    assert.deepEqual(floats.data.map((item) => item.embedding.map(Math.fround)), [cat, dog, again]);
    assert.ok(Math.abs(Math.hypot(...cat) - 1) < 1e-5);
    assert.ok(base64.usage.total_tokens >= 3 && base64.usage.total_tokens === floats.usage.prompt_tokens);
    const provider = createOpenAICompatible({ name: 'lockstep', baseURL });
    const sdk = await embedMany({ model: provider.textEmbeddingModel(model), values: input });
    assert.deepEqual(sdk.embeddings[1].map(Math.fround), dog);
    const chain = new OpenAIEmbeddings({ model, apiKey: 'none', configuration: { baseURL } });
    assert.deepEqual((await chain.embedDocuments(input))[1].map(Math.fround), dog);
    assert.deepEqual((await chain.embedQuery('a dog')).map(Math.fround), dog);
  },
  async 'openai: stream with usage'() {
    const stream = await openai.chat.completions.create(
      { ...base, stream: true, stream_options: { include_usage: true } });
    let text = '';
    let usage = null;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? '';
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, whole);
    assert.ok(usage.completion_tokens > 0);
  },
  async 'openai: stop, n, logprobs'() {
    const stop = whole.slice(whole.length / 2, whole.length / 2 + 3);
    const cut = await openai.chat.completions.create({ ...base, stop: [stop] });
    assert.equal(cut.choices[0].message.content, whole.slice(0, whole.indexOf(stop)));
    const three = await openai.chat.completions.create({ ...base, n: 3 });
    assert.equal(new Set(three.choices.map((c) => c.message.content)).size, 3);
    assert.equal(three.choices[0].message.content, whole);
    const probs = await openai.chat.completions.create({ ...base, logprobs: true, top_logprobs: 2 });
    assert.equal(probs.choices[0].logprobs.content.length, probs.usage.completion_tokens);
    assert.equal(probs.choices[0].logprobs.content[0].top_logprobs.length, 2);
  },
  async 'openai: completions and structured output'() {
    const text = await openai.completions.create(
      { model, prompt: ['Once upon', 'A cat'], max_tokens: 5, echo: true });
    assert.ok(text.choices[0].text.startsWith('Once upon') && text.choices[1].text.startsWith('A cat'));
    const json = await openai.chat.completions.create({
      ...base, max_tokens: 60,
      response_format: { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema: {
        type: 'object', properties: { yes: { type: 'boolean' } }, required: ['yes'],
        additionalProperties: false } } } });
    assert.equal(typeof JSON.parse(json.choices[0].message.content).yes, 'boolean');
  },
  async 'openai: error classes'() {
    const create = (more) => openai.chat.completions.create({ ...base, ...more });
    await assert.rejects(create({ model: 'other' }), OpenAI.NotFoundError);
    await assert.rejects(create({ temperature: -1 }), (e) =>
      e instanceof OpenAI.BadRequestError && e.param === 'temperature');
    await assert.rejects(create({ messages: [] }), OpenAI.BadRequestError);
  },
  async 'openai: abort in the middle'() {
    const stream = await openai.chat.completions.create(
      { ...base, max_tokens: 2000, stream: true, ignore_eos: true });
    let n = 0;
    for await (const chunk of stream) {
      n += chunk.choices.length;
      if (n === 5) stream.controller.abort();
    }
    await becomesIdle();
    const controller = new AbortController();
    const pending = openai.chat.completions.create(
      { ...base, max_tokens: 2000, ignore_eos: true }, { signal: controller.signal });
    setTimeout(() => controller.abort(), 50);
    await assert.rejects(pending, OpenAI.APIUserAbortError);
    await becomesIdle();
  },
  async 'AI SDK: generate and stream'() {
    const provider = createOpenAICompatible({ name: 'lockstep', baseURL, includeUsage: true });
    const settings = { model: provider(model), messages, seed: 7, maxOutputTokens: 24, maxRetries: 0 };
    const { text, usage } = await generateText(settings);
    assert.equal(text, whole);
    assert.ok(usage.outputTokens > 0);
    const result = streamText(settings);
    let streamed = '';
    for await (const part of result.textStream) streamed += part;
    assert.equal(streamed, whole);
    assert.ok((await result.usage).outputTokens > 0);
    await assert.rejects(generateText({ ...settings, model: provider('other') }),
      (e) => e.statusCode === 404);
  },
  async 'openai: calls of tools, there and back'() {
    const create = (more) => openai.chat.completions.create(
      { ...base, messages: weather, max_tokens: 200, tools: [weatherTool], ...more });
    for (const choice of ['required', { type: 'function', function: { name: 'get_weather' } }]) {
      const { message, finish_reason } = (await create(
        { tool_choice: choice, parallel_tool_calls: false })).choices[0];
      assert.equal(finish_reason, 'tool_calls');
      assert.equal(message.tool_calls.length, 1);
      checkWeather(message.tool_calls[0]);
      const back = { role: 'tool', tool_call_id: message.tool_calls[0].id, content: 'Sunny, 20 degrees.' };
      const answer = await create({ messages: [...weather, message, back], tool_choice: 'none' });
      assert.ok(answer.choices[0].message.content.length > 0);
    }
    const runner = openai.chat.completions.stream({ ...base, messages: weather, max_tokens: 200,
      tools: [weatherTool], tool_choice: 'required' });
    (await runner.finalMessage()).tool_calls.forEach(checkWeather);
    for (const call of (await create({ tool_choice: 'auto' })).choices[0].message.tool_calls ?? []) {
      checkWeather(call);
    }
    await assert.rejects(create({ tool_choice: { type: 'function', function: { name: 'x' } } }),
      (e) => e instanceof OpenAI.BadRequestError && e.param === 'tool_choice');
  },
  async 'AI SDK: calls of tools, there and back'() {
    const provider = createOpenAICompatible({ name: 'lockstep', baseURL });
    let n = 0;
    const { parameters } = weatherTool.function;
    const tools = { get_weather: tool({ description: 'The weather of a city',
      inputSchema: jsonSchema(parameters), execute: async ({ city, unit }) => {
        assert.ok(typeof city === 'string' && ['c', 'f'].includes(unit));
        n++;
        return 'Sunny, 20 degrees.';
      } }) };
    const settings = { model: provider(model), messages: weather, tools, seed: 7, maxRetries: 0,
      maxOutputTokens: 200, stopWhen: stepCountIs(2),
      prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? 'required' : 'none' }) };
    const { steps } = await generateText(settings);
    assert.equal(steps.length, 2);
    assert.equal(steps[0].finishReason, 'tool-calls');
    const streamed = streamText(settings);
    await streamed.consumeStream();
    assert.equal((await streamed.steps).length, 2);
    assert.ok(n >= 2);
  },
  async 'OpenAI Agents: calls of tools, there and back'() {
    const calls = [];
    setTracingDisabled(true);
    const agent = new Agent({ name: 'weather', instructions: 'Answer with the tool.',
      model: new OpenAIChatCompletionsModel(openai, model),
      modelSettings: { toolChoice: 'required', temperature: 0, maxTokens: 200, parallelToolCalls: false },
      tools: [agentTool({ name: 'get_weather', description: 'The weather of a city',
        parameters: weatherTool.function.parameters, strict: true, execute: async ({ city, unit }) => {
          assert.ok(typeof city === 'string' && ['c', 'f'].includes(unit));
          calls.push(city);
          return 'Sunny, 20 degrees.';
        } })] });
    const answer = await run(agent, weather[0].content, { maxTurns: 6 });
    assert.ok(calls.length >= 1 && answer.finalOutput.length > 0);
    const kinds = answer.newItems.map((item) => item.type);
    assert.ok(kinds.includes('tool_call_item') && kinds.includes('tool_call_output_item'));
    const n = calls.length;
    const streamed = await run(agent, weather[0].content, { maxTurns: 6, stream: true });
    let text = '';
    for await (const piece of streamed.toTextStream()) text += piece;
    await streamed.completed;
    assert.deepEqual(calls.slice(n), calls.slice(0, n));
    assert.equal(streamed.finalOutput, answer.finalOutput);
    assert.ok(text.endsWith(answer.finalOutput));
  },
  async 'LangChain: invoke and stream'() {
    const chat = new ChatOpenAI({ model, apiKey: 'none', maxTokens: 24, maxRetries: 0,
      configuration: { baseURL }, modelKwargs: { seed: 7 } });
    const answer = await chat.invoke([['user', messages[0].content]]);
    assert.equal(answer.content, whole);
    assert.ok(answer.usage_metadata.output_tokens > 0);
    let text = '';
    for await (const chunk of await chat.stream([['user', messages[0].content]])) text += chunk.content;
    assert.equal(text, whole);
  },
};

for (const [name, run] of Object.entries(tests)) {
  await run();
  console.log(`${name}: ok`);
}
