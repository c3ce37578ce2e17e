import assert from 'node:assert/strict';
import { test } from 'node:test';

import { assertLinear } from '../../tests/fixtures/linear.mjs';
import truncate, { warmup } from './index.mjs';
import { boundary, fitting, tokens } from './tokens.mjs';

async function run(rawContent, maxTokens, { contentType = 'text', phase = 'response' } = {}) {
  const metadata = { requestId: '1', timestamp: '2026-01-01T00:00:00.000Z', serverName: 's', phase, contentType };
  const output = await truncate({ toolName: 's/t', rawContent, maxTokens, metadata }, { config: {}, log: () => {} });
  assert.equal(output.continue, true);
  return output;
}

const result = (value) => JSON.stringify(value);
const cut = async (value, maxTokens) => JSON.parse((await run(result(value), maxTokens, { contentType: 'json' })).text);

test('tokens: letters by four, digits by three, CJK by one', () => {
  assert.equal(tokens(''), 0);
  assert.equal(tokens('word'.repeat(100)), 100);
  assert.equal(tokens('123'.repeat(100)), 100);
  assert.equal(tokens('слово'.repeat(100)), 250);
  assert.equal(tokens('日本語'.repeat(100)), 300);
  assert.equal(fitting('日本語', 2), 2);
  assert.equal(fitting('🙂🙂', 3), 2);
});

test('cuts stand at a paragraph, a line, a sentence, a word', () => {
  const at = (text, end) => text.slice(0, boundary(text, end));
  assert.equal(at('aaaaaaaaaaaa\n\nb c', 16), 'aaaaaaaaaaaa');
  assert.equal(at('aaaaaaaa\nb c', 11), 'aaaaaaaa');
  assert.equal(at('aaaaaaaaa. b c', 12), 'aaaaaaaaa.');
  assert.equal(at('aaaaaaaaa bbb', 12), 'aaaaaaaaa');
  assert.equal(at('aaaaaaaaaaaaa', 12), 'aaaaaaaaaaaa');
});

test('without maxTokens, on a request, and where it fits, nothing changes', async () => {
  const content = ' {"a" : 1.0, "b": "long enough to be cut"} ';
  for (const output of [
    await run(content, null),
    await run(content, 5, { phase: 'request' }),
    await run(content, 500),
  ]) {
    assert.deepEqual(output, { text: content, continue: true, metadata: null });
  }
});

test('text is cut and says how much is left out', async () => {
  const { text, metadata } = await run('All good things come to an end. '.repeat(200), 100);
  assert.match(text, /^All good .* end\.\n\[… about \d+ tokens left out\]$/s);
  assert.ok(tokens(text) <= 100, `${tokens(text)}`);
  assert.deepEqual(Object.keys(metadata.truncated), ['maxTokens', 'before', 'after']);
  assert.equal((await run('abcdefghijkl'.repeat(9), 3)).text, 'abcdefgh…');
});

test('JSON stays JSON at every size', async () => {
  const value = {
    id: 1.5,
    list: Array.from({ length: 50 }, (_, i) => ({ i, t: `text ${i} "quoted" \n 日本` })),
    tail: 'x'.repeat(500),
  };
  for (const content of [JSON.stringify(value), JSON.stringify(value, null, 2), JSON.stringify([value, value])]) {
    for (let budget = 1; budget < tokens(content); budget += 13) {
      const { text } = await run(content, budget);
      const after = JSON.parse(text);
      assert.match(JSON.stringify(after._leftOut ?? after.at(-1)), /about \d+ tokens left out/);
      assert.ok(tokens(text) <= Math.max(budget, 24) + 2, `${tokens(text)} of ${budget}`);
    }
  }
});

test('the text of numbers stays', async () => {
  const { text } = await run(`{"a": 1.0, "n":12345678901234567890123, "s":"${'word '.repeat(200)}"}`, 70);
  assert.ok(text.startsWith('{"a": 1.0,"n":12345678901234567890123,"s":"word word'), text);
});

test('a tool result is cut inside and stays one', async () => {
  const image = { type: 'image', data: 'A'.repeat(4000), mimeType: 'image/png' };
  const value = {
    content: [
      { type: 'text', text: 'One sentence of text. '.repeat(100), annotations: { priority: 1 } },
      image,
      { type: 'text', text: 'more '.repeat(100) },
    ],
    structuredContent: { text: 'One sentence of text. '.repeat(100), total: 1, rows: [1, 2], ok: true },
    other: 'word '.repeat(500),
  };
  const after = await cut(value, 100);
  assert.match(after.content[0].text, /^One sentence.*left out\]$/s);
  assert.deepEqual(after.content[0].annotations, { priority: 1 });
  assert.deepEqual(after.content[1], image);
  assert.match(after.content[2].text, /^\[… about \d+ tokens left out\]$/);
  assert.equal(after.other, value.other);
  assert.deepEqual({ ...after.structuredContent, text: '' }, { text: '', total: 1, rows: [], ok: true });
  assert.ok(tokens(JSON.stringify(after.structuredContent)) <= 100);
});

test('text blocks that hold JSON stay JSON', async () => {
  const rows = JSON.stringify({ rows: Array.from({ length: 100 }, (_, i) => ({ i })) });
  const after = await cut({ content: [{ type: 'text', text: rows }] }, 80);
  const inner = JSON.parse(after.content[0].text);
  assert.ok(inner.rows.length > 3 && inner.rows.length < 40);
  assert.match(inner._leftOut, /left out/);
});

test('structured content of very many fields loses fields rather than its limit', async () => {
  const structuredContent = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`field${i}`, i]));
  const after = await cut({ content: [], structuredContent }, 60);
  const kept = Object.keys(after.structuredContent).length;
  assert.ok(kept > 3 && kept < 30, `${kept}`);
});

test('an error stays as it is', async () => {
  const error = result({ code: -32000, message: 'word '.repeat(100) });
  assert.equal((await run(error, 10, { contentType: 'json' })).text, error);
});

test('once cut, it is not cut again', async () => {
  for (const content of [
    'All good things come to an end. '.repeat(200),
    JSON.stringify({ rows: Array.from({ length: 100 }, (_, i) => i) }),
  ]) {
    const once = (await run(content, 80)).text;
    assert.equal((await run(once, 80)).text, once);
  }
});

test('long content takes linear time', () =>
  assertLinear(async (size) => {
    for (const piece of ['word ', '\n', '🙂', '[', '{"a":', '.', 'a']) await run(piece.repeat(size / piece.length), 1000);
    await run(JSON.stringify(Array.from({ length: size / 10 }, (_, i) => ({ i }))), size / 10);
  }));

test('warms up', async () => {
  await warmup();
});
