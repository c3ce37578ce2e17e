// What stands beside a secret, hidden or in another form, does not hide the secret.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import redact from './index.mjs';

async function text(rawContent, config = {}) {
  return (await redact({ rawContent, metadata: { contentType: 'text' } }, { config })).text;
}

const escaped = (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`;

const CONTROLS = [...Array(32).keys(), 0x7f, 0x85, 0x9b].map((code) => String.fromCharCode(code));
const INVISIBLE = [...'\u200b\u200c\u200d\u00ad\u2060\ufeff\u034f\u3164\ufe0f\u061c\u202e', '\u{e0061}'];
const SIGNS = [...'²¹½™①ªⁿ℡㎏Ⅳ…'];
const FORMS = [...'ａ１ﬁ𝐱'];
const SEQUENCES = ['\x1b[31m', '\x1b[0;1m', '\x9b31m', '\\u001b[31m'];
const ESCAPED = [...CONTROLS, ...INVISIBLE.slice(0, -1), ...SIGNS].map(escaped);
const ESCAPES = ['\\n', '\\r', '\\t', '\\b', '\\f', '\\\\n', ...ESCAPED];

const SECRETS = {
  privateKey: '-----BEGIN PRIVATE KEY-----\nMIIEpAIB\n-----END PRIVATE KEY-----',
  apiKey: `ghp_${'a1B2'.repeat(9)}`,
  'apiKey of AWS': 'AKIAIOSFODNN7EXAMPLE',
  'apiKey of Anthropic': 'sk-ant-api03-abcdefghijklmnopqrstuvwxyz',
  jwt: 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P',
  bearer: 'Bearer abcdef0123456789',
  password: 'password=hunter22',
  'password in quotes': '"password":"hunter 22"',
  'password in an address': 'postgres://app:hunter22@db',
  email: 'ann@example.com',
  iban: 'DE89370400440532013000',
  'iban in groups': 'DE89 3704 0044 0532 0130 00',
  card: '4111111111111111',
  'card in groups': '4111 1111 1111 1111',
  ssn: '123-45-6789',
  phone: '+14155552671',
  'phone of North America': '555-123-4567',
};

/** The part of a secret that may stay in no text: of an assignment its value. */
const core = (secret) => /hunter ?22|[a-f]+0123456789$/.exec(secret)?.[0] ?? secret;

for (const [kind, secret] of Object.entries(SECRETS)) {
  test(`nothing hidden or in another form beside a secret hides it: ${kind}`, async () => {
    for (const beside of [...CONTROLS, ...INVISIBLE, ...SIGNS, ...FORMS, ...SEQUENCES, ...ESCAPES]) {
      for (const [before, after] of ['xy', '12']) {
        const content = `${before}${beside}${secret}${beside}${after}`;
        const masked = await text(content);
        assert.ok(!masked.includes(core(secret)) && masked.includes('[redacted:'), JSON.stringify([content, masked]));
      }
    }
  });
}

const GHP = SECRETS.apiKey;
const IBAN = SECRETS.iban;
const WHOLE = [
  [`user\0${GHP}`, 'user\0[redacted:apiKey]'],
  ['key\0AKIAIOSFODNN7EXAMPLE', 'key\0[redacted:apiKey]'],
  ['page 12\f4111111111111111', 'page 12\f[redacted:card]'],
  ['42\x1f4111111111111111', '42\x1f[redacted:card]'],
  ['total 7\u00854111111111111111', 'total 7\u0085[redacted:card]'],
  [`x\u200b${SECRETS['apiKey of Anthropic']}`, 'x\u200b[redacted:apiKey]'],
  [`a\u200b${SECRETS.jwt}`, 'a\u200b[redacted:jwt]'],
  ['x\u200bBearer abcdef0123456789', 'x\u200bBearer [redacted:bearer]'],
  ['4111111111111111²', '[redacted:card]²'],
  ['card 4111111111111111¹', 'card [redacted:card]¹'],
  // The first four groups are a card's digits too, by chance.
  ['order 4008 4111 1111 1111 1111', 'order [redacted:card]'],
  ['¹123-45-6789', '¹[redacted:ssn]'],
  [`${IBAN}²`, '[redacted:iban]²'],
  ['½4111111111111111', '½[redacted:card]'],
  [`TM™${GHP}`, 'TM™[redacted:apiKey]'],
  [`①${GHP}`, '①[redacted:apiKey]'],
  [`A\f${IBAN}`, 'A\f[redacted:iban]'],
  ['1\f+14155552671', '1\f[redacted:phone]'],
  ['got {"password":"a\\u0022bc def"}', 'got {"password":"[redacted:password]"}'],
  ['password=hunter\\u0020two', 'password=[redacted:password]'],
  ['password: abc\u200b d', 'password: [redacted:password] d'],
  [`2026 got {"msg":"line1\\n${GHP}"}`, '2026 got {"msg":"line1\\n[redacted:apiKey]"}'],
  [`x\x1b[31m${GHP}\x1b[0m`, 'x\x1b[31m[redacted:apiKey]\x1b[0m'],
  ['pass\x1b[1mword\x1b[0m: hunter22', 'pass\x1b[1mword\x1b[0m: [redacted:password]'],
  ['x\u200b４１１１１１１１１１１１１１１１²', 'x\u200b[redacted:card]²'],
];

test('a secret beside something hidden is masked, and what stands beside it stays', async () => {
  for (const [before, after] of WHOLE) assert.equal(await text(before), after, JSON.stringify(before));
});

test('patterns of the configuration are searched in the written text and in its folded forms', async () => {
  const config = { kinds: [], patterns: ['№\\d+', 'a\\u200bb', '\\\\u00e9t\\\\u00e9', '\\bACME-\\d{6}\\b'] };
  const written = await text('№12, a\u200bb, \\u00e9t\\u00e9', config);
  assert.equal(written, '[redacted:pattern], [redacted:pattern], [redacted:pattern]');
  for (const written of ['ACME-123456', 'AC\u200bME-123456', 'ＡＣＭＥ-123456', '\\u0041CME-123456']) {
    assert.equal(await text(`x ${written} y`, config), 'x [redacted:pattern] y', JSON.stringify(written));
  }
  assert.equal(await text('x\\nACME-123456', config), 'x\\n[redacted:pattern]');
});

test('a mask that folds to something else is known again', async () => {
  for (const mask of ['№', '\\u0041@b.example', '<\u200b>', 'ＸＸ{kind}', '\\n4111111111111111']) {
    const once = await text(`password: "hunter 22" x\u200bann@example.com ${GHP}`, { mask });
    assert.equal(await text(once, { mask }), once, JSON.stringify(mask));
  }
});
