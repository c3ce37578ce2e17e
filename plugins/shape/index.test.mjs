import assert from 'node:assert/strict';
import { test } from 'node:test';

import { assertLinear } from '../../tests/fixtures/linear.mjs';
import shape, { warmup } from './index.mjs';

async function run(rawContent, config, { contentType = 'text', phase = 'response' } = {}) {
  const metadata = { requestId: '1', timestamp: '2026-01-01T00:00:00.000Z', serverName: 's', phase, contentType };
  const output = await shape({ toolName: 's/t', rawContent, maxTokens: null, metadata }, { config, log: () => {} });
  assert.equal(output.continue, true);
  return output;
}

const text = async (content, config) => (await run(content, { note: false, ...config })).text;

test('drops a name wherever it is, and a path from the root', async () => {
  const json = '{"id":1,"user":{"id":2,"url":"u"},"items":[{"id":3,"user":{"url":"v"}}]}';
  assert.equal(await text(json, { drop: ['id'] }), '{"user":{"url":"u"},"items":[{"user":{"url":"v"}}]}');
  assert.equal(
    await text(json, { drop: ['user.url'] }),
    '{"id":1,"user":{"id":2},"items":[{"id":3,"user":{"url":"v"}}]}',
  );
  assert.equal(
    await text(json, { drop: ['items.*.url'] }),
    '{"id":1,"user":{"id":2,"url":"u"},"items":[{"id":3,"user":{}}]}',
  );
});

test('keeps only what is named, with what is below', async () => {
  const json = '{"a":1,"b":{"c":[{"d":1,"e":2}],"f":3},"g":{"h":{"i":1}}}';
  assert.equal(await text(json, { keep: ['d', 'g'] }), '{"b":{"c":[{"d":1}]},"g":{"h":{"i":1}}}');
  assert.equal(await text(json, { keep: ['g'], drop: ['i'] }), '{"g":{"h":{}}}');
});

test('drops empty values, also those that became so', async () => {
  const json = '{"a":null,"b":"","c":[],"d":{ },"e":0,"f":false,"g":{"x":null},"h":[null]}';
  assert.equal(await text(json, { dropEmpty: true }), '{"e":0,"f":false,"h":[null]}');
});

test('cuts lists and strings, and not inside a pair of surrogates', async () => {
  assert.equal(await text('{"a":[1,2,3,4.0],"b":[5]}', { maxItems: 2 }), '{"a":[1,2],"b":[5]}');
  assert.equal(await text(`{"a":"${'x'.repeat(50)}"}`, { maxString: 3 }), '{"a":"xxx…"}');
  assert.equal(await text('🙂'.repeat(20), { maxString: 3 }), '🙂…');
});

test('the text of numbers and of what is not touched stays', async () => {
  const json = '{ "drop":1, "a": 1.0, "n":12345678901234567890123, "s":"\\u0041", "o": { "k" : 1E400 } }';
  assert.equal(
    await text(json, { drop: ['drop'] }),
    '{"a": 1.0,"n":12345678901234567890123,"s":"\\u0041","o": { "k" : 1E400 }}',
  );
});

test('content in which nothing is left out leaves byte for byte', async () => {
  for (const content of ['', 'plain', ' { "a" : 1.0 } ', '[1, 2]', '{"broken":']) {
    const output = await run(content, { drop: ['zzz'], dropEmpty: true, maxItems: 9, maxString: 99 });
    assert.deepEqual(output, { text: content, continue: true, metadata: null });
  }
});

test('says in the content and in metadata what it left out', async () => {
  const output = await run('{"a":1,"b":"","c":[1,2,3]}', { drop: ['a'], dropEmpty: true, maxItems: 1 });
  assert.equal(output.text, '{"c":[1],"_leftOut":"Left out: fields a; 1 empty values; 2 items of long lists."}');
  assert.deepEqual(output.metadata, { leftOut: { fields: { a: 1 }, empties: 1, items: 2, characters: 0 } });
  assert.equal((await run('[1,2,3]', { maxItems: 1 })).text, '[1,"Left out: 2 items of long lists."]');
  assert.equal((await run('{"a":1}', { drop: ['a'] })).text, '{"_leftOut":"Left out: fields a."}');
  assert.equal((await run('word '.repeat(100), { maxString: 9 })).text, 'word word… [491 more characters]');
});

test('a tool result is shaped inside and stays one', async () => {
  const image = 'A'.repeat(4000);
  const result = {
    content: [
      { type: 'text', text: '{"id":1.5,"junk":"x"}', annotations: { junk: 1 } },
      { type: 'text', text: 'y'.repeat(200) },
      { type: 'image', data: image, mimeType: 'image/png' },
      { type: 'resource', resource: { uri: 'a://b', text: '{"junk":1}' } },
    ],
    structuredContent: { id: 1.5, junk: 'x', list: [1, 2, 3] },
    junk: 'an unknown field of the result',
    isError: false,
  };
  const config = { drop: ['junk'], maxItems: 2, maxString: 100 };
  const output = await run(JSON.stringify(result), config, { contentType: 'json' });
  const after = JSON.parse(output.text);
  assert.equal(after.content[0].text, '{"id":1.5}');
  assert.deepEqual(after.content[0].annotations, { junk: 1 });
  assert.equal(after.content[1].text, `${'y'.repeat(100)}… [100 more characters]`);
  assert.equal(after.content[2].data, image);
  assert.equal(after.content[3].resource.text, '{}');
  assert.deepEqual(after.structuredContent, { id: 1.5, list: [1, 2] });
  assert.equal(after.junk, result.junk);
  assert.match(after.content[4].text, /^Left out: fields junk \(3 times\); 1 items of long lists; 100 characters/);
  assert.equal(after.content.length, 5);
});

test('an untouched tool result leaves byte for byte', async () => {
  const result = '{ "content": [ {"type":"text","text":"{\\"a\\": 1.0}"} ], "structuredContent": {"a": 1.0}, "x": 1 }';
  assert.equal((await run(result, { drop: ['b'] }, { contentType: 'json' })).text, result);
});

test('an error and a request stay as they are', async () => {
  const error = '{"code":-32602,"message":"bad","data":{"junk":1}}';
  assert.equal((await run(error, { drop: ['junk'] }, { contentType: 'json' })).text, error);
  assert.equal(
    (await run('{"junk":1}', { drop: ['junk'] }, { phase: 'request', contentType: 'json' })).text,
    '{"junk":1}',
  );
});

test('long content takes linear time, also with keep and depth', () =>
  assertLinear(async (size) => {
    const row = (_, i) => ({ id: i, name: `item ${i}`, empty: null, junk: 'x'.repeat(30) });
    const rows = JSON.stringify({ rows: Array.from({ length: size / 80 }, row) });
    const deep = `${'{"a":'.repeat(150)}1${'}'.repeat(150)}`;
    const wide = `[${Array.from({ length: size / 1000 }, () => deep).join(',')}]`;
    await run(rows, { drop: ['junk', 'rows.x.y'], keep: ['id', 'name', 'rows.*'], dropEmpty: true, maxString: 10 });
    await run(wide, { keep: ['nothing'] });
    await run('['.repeat(size), { drop: ['a'] });
  }));

test('warms up', async () => {
  await warmup();
});
