import assert from 'node:assert/strict';
import { test } from 'node:test';

import { decode, member, read, readContainer, splice } from './json.mjs';

/** The value that a tree stands for, so that it can be held against JSON.parse. */
function value(text, node) {
  if (node.kind === 'array') return node.items.map((item) => value(text, item));
  if (node.kind === 'object') return Object.fromEntries(node.members.map((m) => [m.name, value(text, m.value)]));
  return node.kind === 'string' ? decode(text, node) : JSON.parse(text.slice(node.start, node.end));
}

const VALID = [
  '1',
  ' -0.5e+3 ',
  '"a"',
  '"\\u0041\\n\\ud83d\\ude00"',
  'true',
  'null',
  '[]',
  '{}',
  '[ 1 , [ ] ,{"a" : "b" } ]',
  '{"a":{"b":[false]},"":0}',
];
const INVALID = [
  '',
  ' ',
  '01',
  '1.',
  '.5',
  '+1',
  '"',
  '"\n"',
  '"\\x"',
  '"\\u12"',
  '[1,]',
  '[1 2]',
  '{"a"}',
  '{"a":}',
  '{a:1}',
  '{"a":1,}',
  '[1]x',
  'tru',
  'NaN',
  "'a'",
  '[',
  '{"a":[}',
];

test('reads what JSON.parse reads', () => {
  for (const text of VALID) assert.deepEqual(value(text, read(text)), JSON.parse(text), text);
});

test('refuses what JSON.parse refuses, without repeating it', () => {
  for (const text of INVALID) {
    assert.throws(() => JSON.parse(text), SyntaxError, text);
    assert.throws(() => read(text), SyntaxError, text);
  }
  assert.throws(
    () => read('{"s3cret'),
    (error) => !error.message.includes('s3cret'),
  );
});

test('depth is bounded', () => {
  const nested = (depth) => '['.repeat(depth) + ']'.repeat(depth);
  assert.equal(read(nested(200)).kind, 'array');
  assert.throws(() => read(nested(300)), /nested deeper than 200/);
});

test('only objects and arrays are containers', () => {
  assert.equal(readContainer(' [1]').kind, 'array');
  for (const text of ['1', '"a"', '{', 'plain', '']) assert.equal(readContainer(text), undefined);
});

test('finds members, the last of several, and splices', () => {
  const text = '{"a":1,"a":2, "b":3}';
  const node = member(read(text), 'a');
  assert.equal(text.slice(node.start, node.end), '2');
  assert.equal(member(read('[1]'), 'a'), undefined);
  assert.equal(
    splice('abcdef', [
      { start: 4, end: 5, text: 'X' },
      { start: 0, end: 1, text: '' },
      { start: 6, end: 6, text: '!' },
    ]),
    'bcdXf!',
  );
});

test('agrees with JSON.parse on texts that were damaged', () => {
  const original = JSON.stringify({ a: [1.5, -3e9, true, null, 'x\u0001"\\🙂', {}], b: { c: [[]], '': 'é' } }, null, 1);
  const pieces = ['"', '\\', ',', '}', ']', '0', ' ', '{', 'e', '-', '.', '\u0001', '\\u00', ':'];
  let seed = 3;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  const parses = (reader, text) => {
    try {
      reader(text);
      return true;
    } catch {
      return false;
    }
  };
  for (let i = 0; i < 20_000; i += 1) {
    const at = random(original.length);
    const text = original.slice(0, at) + pieces[random(pieces.length)] + original.slice(at + random(3));
    assert.equal(parses(read, text), parses(JSON.parse, text), text);
  }
});
