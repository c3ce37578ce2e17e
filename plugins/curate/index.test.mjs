// The bundle against a stand-in of the Messages API: the real one needs the internet and a key that costs. What the
// stand-in answers is fixed. It shows that the SDK in the bundle speaks and that failures degrade; of a model it shows
// nothing.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { afterEach, beforeEach, test } from 'node:test';
import { text } from 'node:stream/consumers';

const KEY = 'sk-test-0123456789';
const LONG = 'All about hooks. '.repeat(1000).trim();

let server, asked, answer;

beforeEach(async () => {
  asked = [];
  answer = message('Hooks, in short.');
  server = createServer(async (request, response) => {
    const body = JSON.parse(await text(request));
    asked.push({ url: request.url, key: keyOf(request.headers), body });
    answer(response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  process.env.ANTHROPIC_API_KEY = KEY;
  delete process.env.ANTHROPIC_BASE_URL;
});

afterEach(() => {
  server.closeAllConnections();
  server.close();
});

/** Which of the two headers it stands in is the SDK's to choose. */
function keyOf(headers) {
  return headers['x-api-key'] ?? headers.authorization?.replace('Bearer ', '');
}

function json(status, value, headers = {}) {
  return (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify(value));
  };
}

function message(text, stop_reason = 'end_turn') {
  const usage = { input_tokens: 4000, output_tokens: 6 };
  const content = text === '' ? [] : [{ type: 'text', text }];
  return json(200, { id: 'msg_1', type: 'message', role: 'assistant', model: 'm', content, stop_reason, usage });
}

function input(rawContent, more = {}, metadata = {}) {
  const call = { requestId: '1', timestamp: '2026-01-01T00:00:00.000Z', serverName: 'docs', phase: 'response' };
  const rest = { userQuery: 'What are hooks?', contentType: 'text', chain: 'default/answers', attempt: 1 };
  return { toolName: 'docs/get', rawContent, maxTokens: 100, metadata: { ...call, ...rest, ...metadata }, ...more };
}

function context(config = {}, signal = new AbortController().signal) {
  const log = Object.assign(() => {}, { debug() {}, info() {}, warn: (line) => log.lines.push(line), error() {}, lines: [] });
  return { config: { baseUrl: `http://127.0.0.1:${server.address().port}`, retries: 0, ...config }, log, signal };
}

const { default: curate } = await import('./index.mjs');

test('what the model kept goes on', async () => {
  const output = await curate(input(LONG), context({ model: 'some-model' }));
  assert.equal(output.text, 'Hooks, in short.');
  assert.equal(output.continue, true);
  const { curated, originalLength, curatedLength, reduction, model, cut } = output.metadata;
  assert.deepEqual(
    { curated, originalLength, curatedLength, reduction, model, cut },
    { curated: true, originalLength: 16999, curatedLength: 16, reduction: '99.9%', model: 'some-model', cut: false },
  );
  const [{ url, key, body }] = asked;
  assert.deepEqual([url, key, body.model, body.max_tokens], ['/v1/messages', KEY, 'some-model', 100]);
  const [{ content }] = body.messages;
  assert.ok(content.includes(LONG) && content.includes('What are hooks?') && content.includes('100 tokens'));
});

test('the address may stand in the environment', async () => {
  process.env.ANTHROPIC_BASE_URL = `http://127.0.0.1:${server.address().port}`;
  const { text } = await curate(input(LONG), context({ baseUrl: undefined }));
  assert.equal(text, 'Hooks, in short.');
});

test('a result of text blocks stays a result', async () => {
  const result = { content: [{ type: 'text', text: LONG }, { type: 'text', text: 'More.' }], isError: false, more: 1.5 };
  const output = await curate(input(JSON.stringify(result), {}, { contentType: 'json' }), context());
  const content = [{ type: 'text', text: 'Hooks, in short.' }];
  assert.deepEqual(JSON.parse(output.text), { content, isError: false, more: 1.5 });
  assert.ok(asked[0].body.messages[0].content.includes(`${LONG}\n\nMore.`));
});

test('what needs no curation, or can have none, is not sent', async () => {
  const image = JSON.stringify({ content: [{ type: 'image', data: 'AAAA', mimeType: 'image/png' }] });
  const structured = JSON.stringify({ content: [{ type: 'text', text: LONG }], structuredContent: { a: 1 } });
  for (const call of [
    input('short'),
    input(LONG, {}, { phase: 'request' }),
    input(image, {}, { contentType: 'json' }),
    input(structured, {}, { contentType: 'json' }),
    input('{"code":-1,"message":"m"}', {}, { contentType: 'json' }),
  ]) {
    const output = await curate(call, context());
    assert.deepEqual([output.text, output.continue, output.metadata.curated], [call.rawContent, true, false]);
  }
  assert.equal(asked.length, 0);
});

async function fails(output, reason) {
  const { text, error, metadata } = await output;
  assert.ok(text === LONG, 'the content as it came');
  assert.match(metadata.reason, reason);
  assert.equal(error, `Curation failed: ${metadata.reason}`);
  assert.equal(metadata.curated, false);
  assert.ok(!JSON.stringify({ error, metadata }).includes(KEY));
}

test('without a key or a limit it says so, and asks nobody', async () => {
  await fails(curate(input(LONG, { maxTokens: null }), context()), /maxTokens is required/);
  delete process.env.ANTHROPIC_API_KEY;
  await fails(curate(input(LONG), context()), /no key/);
  assert.equal(asked.length, 0);
});

test('an answer that is no use is a failure', async () => {
  for (const [given, reason] of [
    [message(''), /no text/],
    [message('No.', 'refusal'), /no text \(refusal\)/],
    [message(LONG), /no shorter/],
    [json(401, { type: 'error', error: { type: 'authentication_error', message: `bad key ${KEY}` } }), /status 401/],
    [json(529, { type: 'error', error: { type: 'overloaded_error', message: LONG } }), /status 529/],
    [json(200, {}), /Error|unknown/],
    [(response) => response.destroy(), /cannot be reached/],
  ]) {
    answer = given;
    const ctx = context();
    await fails(curate(input(LONG), ctx), reason);
    assert.equal(ctx.log.lines.length, 1);
    assert.ok(!ctx.log.lines[0].includes('All about hooks'), 'no content in the log');
  }
});

test('an answer that was cut says so', async () => {
  answer = message('Hooks are', 'max_tokens');
  const { text, metadata } = await curate(input(LONG), context());
  assert.deepEqual([text, metadata.cut], ['Hooks are', true]);
});

test('it tries again as often as it is told', async () => {
  answer = (response) => (asked.length < 2 ? json(500, {}, { 'retry-after-ms': '1' }) : message('In short.'))(response);
  assert.equal((await curate(input(LONG), context({ retries: 1 }))).text, 'In short.');
  assert.equal(asked.length, 2);
});

test('it ends with its call', async () => {
  const call = new AbortController();
  answer = () => call.abort();
  await fails(curate(input(LONG), context({}, call.signal)), /out of time/);
});
