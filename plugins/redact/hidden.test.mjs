// What stands in content in an unusual way is found all the same, or the call fails.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { assertLinear } from '../../tests/fixtures/linear.mjs';
import { FOLDS, fold } from './fold.mjs';
import redact from './index.mjs';

const MASK = '[redacted:password]';
const KEY = 'sk-ant-api03-abcdefghijklmnopqrstuvwxyz';
const INVISIBLE = [...'\u200b\u00ad\u2060\ufeff\u034f\u3164\u{e0061}\ufe0f\u0000\u0085'];

async function text(rawContent, contentType = 'text', config = {}) {
  return (await redact({ rawContent, metadata: { contentType } }, { config })).text;
}

const json = async (value) => JSON.parse(await text(JSON.stringify(value), 'json'));

/** JSON in a string in JSON, so many times. */
function wrapped(value, times) {
  return times === 0 ? value : { text: JSON.stringify(wrapped(value, times - 1)) };
}

test('JSON in strings is searched to a depth of eight, and refused beyond it', async () => {
  assert.deepEqual(await json(wrapped({ password: 'x' }, 8)), wrapped({ password: MASK }, 8));
  for (const times of [9, 10, 12]) await assert.rejects(json(wrapped({ password: 'x' }, times)), /deeper than 8/);
});

test('JSON in a string that nests too deep to be read is refused', async () => {
  const deep = `${'['.repeat(201)}{"pin password":1}${']'.repeat(201)}`;
  await assert.rejects(text(deep), /nested deeper than 200/);
  await assert.rejects(json({ text: deep }), /nested deeper than 200/);
});

test('a text in which something is left after all passes is refused', async () => {
  const config = { kinds: [], patterns: ['ab'], mask: '' };
  assert.equal(await text('aabb', 'text', config), '');
  await assert.rejects(text('a'.repeat(9) + 'b'.repeat(9), 'text', config), /left after 5 passes/);
});

test('what nobody sees in a name or a value hides neither', async () => {
  for (const hidden of INVISIBLE) {
    const name = `pass${hidden}word`;
    assert.deepEqual(await json({ [name]: 'x' }), { [name]: MASK }, escape(hidden));
    assert.deepEqual(await json([{ name, value: 'x' }]), [{ name, value: MASK }], escape(hidden));
    assert.equal(await text(`${name}: hunter22`), `${name}: ${MASK}`, escape(hidden));
    assert.equal(await text(`see ${KEY.replace('-api', `-a${hidden}pi`)}.`), 'see [redacted:apiKey].', escape(hidden));
  }
});

test('compatibility forms, case and separators make no other name', async () => {
  const names = ['ｐａｓｓｗｏｒｄ', '𝐩𝐚𝐬𝐬𝐰𝐨𝐫𝐝', 'PassWord', 'pass-word', 'p.a.s.s.w.o.r.d', ' password ', 'user.password'];
  names.push('DBPassword', 'APIToken', 'githubtoken', 'smtp_pass', 'Proxy-Authorization', 'api keys');
  names.push(`${'x'.repeat(200)}_password`);
  for (const name of names) assert.deepEqual(await json({ [name]: 'x' }), { [name]: MASK }, name);
  for (const name of ['pass', 'next_page_token', 'maxTokens', 'tokens', 'passenger', 'compass', 'secretary']) {
    assert.deepEqual(await json({ [name]: 'x' }), { [name]: 'x' });
  }
  assert.equal(await text('ｐａｓｓｗｏｒｄ：hunter22'), `ｐａｓｓｗｏｒｄ：${MASK}`);
  assert.equal(await text('card ４１１１１１１１１１１１１１１１'), 'card [redacted:card]');
});

test('names and values that stand apart are put together', async () => {
  const pairs = (value) => [
    ['password', value],
    ['user', 'ann'],
  ];
  assert.deepEqual(await json(pairs('x')), pairs(MASK));
  assert.deepEqual(await json({ Name: 'DB_PASSWORD', Value: 'x' }), { Name: 'DB_PASSWORD', Value: MASK });
  const parameter = (value) => ({ ParameterKey: 'MasterPassword', ParameterValue: value });
  assert.deepEqual(await json(parameter('x')), parameter(MASK));
  assert.deepEqual(await json({ adminPassword: { value: 'x', of: 'y' } }), { adminPassword: { value: MASK, of: 'y' } });
  assert.deepEqual(await json({ passwords: [{ value: ['x', 12] }] }), { passwords: [{ value: [MASK, MASK] }] });
  const twice = '{"name":"password","name":"user","value":"x"}';
  assert.equal(await text(twice, 'json'), twice.replace('"x"', `"${MASK}"`));
});

test('what only speaks of secrets stays', async () => {
  const harmless = [
    { required: ['password', 'email'] },
    { properties: { password: { type: 'string', description: 'at least 8 characters' } } },
    { secret: { secretName: 'db' }, password: null, token: true },
    { name: 'user', value: 'ann' },
  ];
  for (const value of harmless) assert.deepEqual(await json(value), value);
});

test('JSON in a text that is no JSON by itself is read as text, its escapes included', async () => {
  const escaped = [...KEY].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');
  assert.equal(await text(`got {"x":"${escaped}"}`), 'got {"x":"[redacted:apiKey]"}');
  assert.equal(await text('got {"pass\\u0077ord":"hunter22"}'), `got {"pass\\u0077ord":"${MASK}"}`);
  const line = (value) => `got ${JSON.stringify({ body: JSON.stringify({ password: value, user: 'ann' }) })}`;
  assert.equal(await text(line('two words')), line(MASK));
  assert.equal(await text(line('')), line(''));
  assert.equal(await text('password="a\\"b c" user=ann'), `password="${MASK}" user=ann`);
  const quoted = (value) => JSON.stringify(JSON.stringify({ pin_password: value }));
  assert.equal(await text(quoted(7)), quoted(MASK));
});

test('a card is one in every form of a number, and a header has a secret without a digit too', async () => {
  const cards = ['4111111111111111', '4111111111111111.00', '4.111111111111111e15', '41111111111111110E-1'];
  for (const number of [...cards, '4111111111111111e+0']) {
    assert.equal(await text(`{"c":${number}}`, 'json'), '{"c":"[redacted:card]"}', number);
  }
  for (const number of ['4111111111111111.5', '4.1e15', '1e99999', '-1']) {
    assert.equal(await text(`{"c":${number}}`, 'json'), `{"c":${number}}`);
  }
  assert.equal(await text('Authorization: Basic YWJjZGVmZ2hpams='), 'Authorization: Basic [redacted:bearer]');
  assert.equal(await text('basic authentication'), 'basic authentication');
});

test('digits of other scripts, dashes and quotation marks of typesetters hide nothing', async () => {
  const cases = [
    ['4111–1111–1111–1111', '[redacted:card]'],
    ['4111\u20111111\u20111111\u20111111', '[redacted:card]'],
    ['4111\u202f1111\u202f1111\u202f1111 12', '[redacted:card] 12'],
    ['٤١١١١١١١١١١١١١١١', '[redacted:card]'],
    ['४१११ ११११ ११११ ११११ १२', '[redacted:card] १२'],
    ['\u{1e954}\u{1e951}\u{1e951}\u{1e951}111111111111', '[redacted:card]'],
    ['123–45–6789', '[redacted:ssn]'],
    ['+1‑555‑123‑4567', '[redacted:phone]'],
    ['+٤٩ ١٥١ ١٢٣٤٥٦٧٨', '[redacted:phone]'],
    ['DE89–3704–0044–0532–0130–00', '[redacted:iban]'],
    ['password: “hunter 22” ok', `password: “${MASK}” ok`],
    ['password: ‘hunter 22’ ok', `password: ‘${MASK}’ ok`],
    ['password=““hunter22”” ok', `password=““${MASK}”” ok`],
    ['token: ‘’s3cr3t-value ok', `token: ‘’${MASK} ok`],
    ['api_key=“a“b9c8d7e6f5', `api_key=“${MASK}`],
    ['password=“pa”ss-word22', `password=“${MASK}`],
    ['password:“token="a b c" ok', `password:“${MASK}"${MASK}" ok`],
    ['db_pass=password: hunter22 ok', `db_pass=${MASK} ${MASK} ok`],
    ['postgres:\\/\\/app:hunter22@db', `postgres:\\/\\/app:${MASK}@db`],
    ['an\u0301n@exam\u0301ple.com', '[redacted:email]'],
  ];
  for (const [before, after] of cases) assert.equal(await text(`see ${before}`), `see ${after}`, before);
  assert.deepEqual(await json({ 'pass–word': 'x' }), { 'pass–word': MASK });
  for (const harmless of ['“quoted” – and ‘this’', '٤١١١ ١١١١', 'a \\/ b']) assert.equal(await text(harmless), harmless);
});

test('JSON after a byte order mark is JSON', async () => {
  assert.equal(await text('\ufeff{"password":{"value":7}}'), `\ufeff{"password":{"value":"${MASK}"}}`);
});

test('a folded text knows the place of each of its characters', () => {
  const pieces = ['a', '\u200b', 'ｂ', '㎏', '\\u0041', '\\\\u0042', '\\u200b', '💥', '\u00a0', '\ud800'];
  pieces.push('\x1b[31m', '\\u001b[1m', '\\n');
  let seed = 3;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  for (let i = 0; i < 500; i += 1) {
    const written = Array.from({ length: random(8) }, () => pieces[random(pieces.length)]);
    for (const becomes of FOLDS) assertPlaces(written, (text) => fold(text, becomes));
  }
});

function assertPlaces(written, folding) {
  const folded = folding(written.join(''));
  let [at, said] = [0, 0];
  for (const piece of written) {
    const size = folding(piece).text.length;
    if (size > 0) assert.deepEqual(place(folded, said, said + size), { start: at, end: at + piece.length });
    [at, said] = [at + piece.length, said + size];
  }
  assert.equal(said, folded.text.length);
}

function place(folded, start, end) {
  const { start: from, end: to } = folded.place(start, end);
  return { start: from, end: to };
}

test('a compatibility form is found wherever in a long text', async () => {
  for (let before = 250; before < 262; before += 1) {
    const masked = await text(`${'x'.repeat(before)} 𝐩𝐚𝐬𝐬𝐰𝐨𝐫𝐝: hunter22`);
    assert.ok(!masked.includes('hunter22'), `${before}`);
  }
});

const PIECES = ['\\', '\u200b', '：', '\\u0041', 'password=\\"', '㎏', 'password\\', 'aA', '"'];
PIECES.push('\\n', '\\/', '\x1b[', '\x1b[0', '²', '–', '٤', 'a\u0301', '\u0301\u0316');
for (const piece of PIECES) {
  test(`much of ${JSON.stringify(piece)} takes linear time`, () =>
    assertLinear(async (size) => {
      const content = piece.repeat(Math.ceil(size / piece.length));
      await text(content);
      await json({ text: content, [content]: 1 });
    }));
}
