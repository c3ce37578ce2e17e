import assert from 'node:assert/strict';
import { test } from 'node:test';

import { assertLinear } from '../../tests/fixtures/linear.mjs';
import redact, { warmup } from './index.mjs';

const KEY = 'sk-ant-api03-abcdefghijklmnopqrstuvwxyz';

async function run(rawContent, { config = {}, contentType = 'text' } = {}) {
  const metadata = {
    requestId: '1',
    timestamp: '2026-01-01T00:00:00.000Z',
    serverName: 's',
    phase: 'response',
    contentType,
  };
  const output = await redact({ toolName: 's/t', rawContent, maxTokens: null, metadata }, { config, log: () => {} });
  assert.equal(output.continue, true);
  return { text: output.text, counts: output.metadata.redacted };
}

const json = (rawContent, config) => run(rawContent, { config, contentType: 'json' });

const FOUND = {
  privateKey: [
    '-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc+/=\n-----END RSA PRIVATE KEY-----',
    '-----BEGIN PRIVATE KEY-----\\nMIIEpAIB\\n-----END PRIVATE KEY-----',
    '-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE',
    '-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\nlQOYBF2',
    '-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nMIIEpAIB',
  ],
  apiKey: [
    KEY,
    'sk-proj-abcdefghijklmnop1234',
    `ghp_${'a1B2'.repeat(9)}`,
    `github_pat_${'a1B2_'.repeat(6)}`,
    'glpat-abcdefghij0123456789',
    'xoxb-123456789012-abcdefABCDEF',
    'AKIAIOSFODNN7EXAMPLE',
    `AIza${'aB3-_'.repeat(7)}`,
    `sk_live_${'a1'.repeat(12)}`,
    `npm_${'a1B2'.repeat(9)}`,
  ],
  jwt: ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P'],
  email: ['ann@example.com', 'ann.b+c@mail.example.co.uk', 'jürgen@exämple.de'],
  iban: ['DE89370400440532013000', 'DE89 3704 0044 0532 0130 00', 'gb29nwbk60161331926819'],
  card: ['4111111111111111', '4111 1111 1111 1111', '5500-0055-5555-5559', '3714 496353 98431', '378282246310005'],
  ssn: ['123-45-6789'],
  phone: ['+49 151 12345678', '+1 (555) 123-4567', '(555) 123-4567', '555-123-4567', '1-555-123-4567'],
};

for (const [kind, samples] of Object.entries(FOUND)) {
  for (const sample of samples) {
    test(`finds ${kind}: ${sample.slice(0, 24)}`, async () => {
      const { text, counts } = await run(`see ${sample}, ok`);
      assert.equal(text, `see [redacted:${kind}], ok`);
      assert.deepEqual(counts, { [kind]: 1 });
    });
  }
}

test('finds assigned secrets and passwords in addresses, and leaves the names', async () => {
  const cases = [
    ['password: hunter22', 'password: [redacted:password]'],
    ['DB_PASSWORD="p w"', 'DB_PASSWORD="[redacted:password]"'],
    ["client_secret = 'abc'", "client_secret = '[redacted:password]'"],
    ['{"apiKey": "abcd"} and so on', '{"apiKey": "[redacted:password]"} and so on'],
    ['Authorization: Bearer abcdef0123456789', 'Authorization: Bearer [redacted:bearer]'],
    ['postgres://app:hunter2@db.example.com/x', 'postgres://app:[redacted:password]@db.example.com/x'],
    ['mail:ann@example.com', 'mail:[redacted:email]'],
    ['postgres://app:hunter2@db:5432/x', 'postgres://app:[redacted:password]@db:5432/x'],
    [`PASSWORD="${'x'.repeat(2000)}"`, 'PASSWORD="[redacted:password]"'],
    ['password          =          hunter22', 'password          =          [redacted:password]'],
    ['DB_PASS=hunter22 passcode: 123456', 'DB_PASS=[redacted:password] passcode: [redacted:password]'],
    ['secret_key_base: abcdefgh', 'secret_key_base: [redacted:password]'],
    ['password=hunt(er)22! ok', 'password=[redacted:password] ok'],
    ['login(password=hunter22) ok', 'login(password=[redacted:password]) ok'],
  ];
  for (const [before, after] of cases) assert.equal((await run(before)).text, after);
});

test('leaves alone what only looks like it', async () => {
  const harmless = [
    'version 1.2.3, 12 tokens, build 4111',
    '4111 1111 1111 1112', // Luhn
    '1234567890123456', // no issuer
    'DE89370400440532013001', // check number
    '1700000000000 2026-11-22T01:02:03Z 2026-11-22',
    'password: required, token: string',
    'next_page_token=CAUQAA',
    'user@localhost @here a@b',
    '000-12-3456 666-12-3456 987-65-4321',
    '550e8400-e29b-41d4-a716-446655440000',
    'public key: -----BEGIN PUBLIC KEY-----',
    '192.168.100.200:8080',
    'password=${DB_PASSWORD} token: $(cat /run/token)',
    '0.4111111111111111',
  ];
  for (const text of harmless) assert.deepEqual(await run(text), { text, counts: {} });
});

test('JSON in which nothing is found leaves byte for byte', async () => {
  const text =
    ' {"a" : 1.0, "b":1, "n": 12345678901234567890123, "a": 2, "s": "\\u0041\\/", "e": 1E400, "l": "\\ud800"}\n';
  assert.deepEqual(await json(text), { text, counts: {} });
});

test('only the affected literals of JSON are written anew', async () => {
  const before = `{"one":1.0, "n": 12345678901234567890123,"mail":"to ann@example.com","more":{"x":"\\u0041"}}`;
  const after = `{"one":1.0, "n": 12345678901234567890123,"mail":"to [redacted:email]","more":{"x":"\\u0041"}}`;
  assert.equal((await json(before)).text, after);
});

test('escapes hide nothing', async () => {
  const hidden = [...KEY].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');
  assert.equal((await json(`{"x":"${hidden}"}`)).text, '{"x":"[redacted:apiKey]"}');
  const nested = JSON.stringify({ text: `{"x":"${hidden}"}` });
  assert.equal((await json(nested)).text, JSON.stringify({ text: '{"x":"[redacted:apiKey]"}' }));
});

test('names of members say what is secret', async () => {
  const { text, counts } = await json(
    '{"password":"x","db_password":["y",1],"githubToken":"z","nextPageToken":"p","token":""}',
  );
  const mask = '"[redacted:password]"';
  assert.equal(
    text,
    `{"password":${mask},"db_password":[${mask},${mask}],"githubToken":${mask},"nextPageToken":"p","token":""}`,
  );
  assert.deepEqual(counts, { password: 4 });
  assert.equal((await json('[{"name":"API_TOKEN","value":"x"}]')).text, `[{"name":"API_TOKEN","value":${mask}}]`);
});

test('a number that is a card becomes a masked string', async () => {
  assert.equal(
    (await json('{"c":4111111111111111,"d":4111111111111112}')).text,
    '{"c":"[redacted:card]","d":4111111111111112}',
  );
});

test('a card is found whatever groups of digits stand beside it', async () => {
  const cards = ['4111 1111 1111 1111', '4111-1111-1111-1111', '3714 496353 98431', '6212 3456 7890 1234 569'];
  cards.push('3782 8224 6310 005', '3056 930902 5904', '3056 9309 0259 04', '4111111111111111');
  const beside = [' 123', ' 1', ' 12', ' 1234', ' 12/27', ' 12/2027 123', '-123', ' 12 27', ' 1234 5678 9012 3456', ''];
  for (const card of cards) {
    for (const after of beside) {
      for (const before of ['', '12 ', '1234 ', '1234 5678 ', '12/27 ', 'no.', 'no. ', '1. ']) {
        const { text } = await run(`${before}${card}${after}`);
        assert.equal(text.includes(card) || !text.includes('[redacted:card]'), false, `${before}${card}${after}: ${text}`);
      }
    }
  }
  assert.equal((await run('4111 1111 1111 1111 123')).text, '[redacted:card] 123');
  assert.equal((await run('4111 1111 1111 1111 12/27')).text, '[redacted:card] 12/27');
});

test('names that hold data are masked and stay apart', async () => {
  const { text } = await json('{"ann@example.com":1,"bob@example.com":2}');
  assert.equal(text, '{"[redacted:email]":1,"[redacted:email]#2":2}');
  const taken = await json('{"[redacted:email]#2":0,"ann@example.com":1,"bob@example.com":2,"cid@example.com":3}');
  assert.equal(
    taken.text,
    '{"[redacted:email]#2":0,"[redacted:email]":1,"[redacted:email]#3":2,"[redacted:email]#4":3}',
  );
});

test('a tool result keeps its shape; text and structured content lose the same', async () => {
  const inner = '{"mail":"ann@example.com"}';
  const image = Buffer.from('+49 151 12345678 '.repeat(12)).toString('base64');
  const result = JSON.stringify({
    content: [
      { type: 'text', text: inner },
      { type: 'image', data: image, mimeType: 'image/png' },
    ],
    structuredContent: { mail: 'ann@example.com' },
    extra: { unknown: true },
  });
  const { text, counts } = await json(result);
  const after = JSON.parse(text);
  assert.equal(after.content[0].text, '{"mail":"[redacted:email]"}');
  assert.deepEqual(after.structuredContent, { mail: '[redacted:email]' });
  assert.equal(after.content[1].data, image);
  assert.deepEqual(after.extra, { unknown: true });
  assert.deepEqual(counts, { email: 2 });
});

test('the configuration chooses kinds, patterns and the mask', async () => {
  assert.equal(
    (await run('ann@example.com 123-45-6789', { config: { kinds: ['ssn'] } })).text,
    'ann@example.com [redacted:ssn]',
  );
  assert.equal(
    (await run(`ann@example.com ${KEY}`, { config: { kinds: ['secrets'] } })).text,
    'ann@example.com [redacted:apiKey]',
  );
  const config = { kinds: [], patterns: ['(?i)acme-\\d+', { kind: 'room', pattern: 'R\\d{3}' }], mask: '<{kind}>' };
  assert.deepEqual(await run('ACME-12 in R101', { config }), {
    text: '<pattern> in <room>',
    counts: { pattern: 1, room: 1 },
  });
  assert.equal((await json('{"a":"acme-1","b":7}', config)).text, '{"a":"<pattern>","b":7}');
  await assert.rejects(run('x', { config: { kinds: ['nonsense'] } }), /no kind `nonsense`/);
});

test('counts name kinds, never values', async () => {
  const output = await redact(
    { rawContent: `${KEY} ann@example.com`, metadata: { contentType: 'text' } },
    { config: {} },
  );
  assert.deepEqual(output.metadata, { redacted: { apiKey: 1, email: 1 } });
});

test('JSON that is none fails, so that the gateway withholds it', async () => {
  await assert.rejects(json('{"a":'), SyntaxError);
  await assert.rejects(json('['.repeat(10_000)), RangeError);
});

test('twice is once, also for what stands side by side', async () => {
  const pieces = [...Object.values(FOUND).flat(), 'password: ', 'x', '4', ' ', '"', '[redacted:email]', '@', ':', '\n'];
  let seed = 7;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  for (let i = 0; i < 2000; i += 1) {
    const text = Array.from({ length: 1 + random(6) }, () => pieces[random(pieces.length)]).join('');
    const once = (await run(text)).text;
    const twice = await run(once);
    assert.deepEqual(twice, { text: once, counts: {} }, JSON.stringify(text));
  }
  for (const mask of ['***', 'XXXX', 'gone@example.com', '']) {
    const config = { mask };
    const once = (await run(`password: hunter22 ann@example.com ${KEY}`, { config })).text;
    assert.equal((await run(once, { config })).text, once, mask);
  }
});

const HOSTILE = {
  letters: 'a',
  dots: 'a.',
  ats: 'a@',
  'ats in a row': '@',
  dashes: '-',
  digits: '1',
  'groups of four': '4111 ',
  'headers of keys': '-----BEGIN PRIVATE KEY-----\nA: b\n',
  'brackets in values': 'password=x(',
  'spaced digits': '4 ',
  eyJ: 'eyJ',
  'token heads': 'eyJaaaaaa.',
  keys: '-----BEGIN PRIVATE KEY-----',
  'key heads': '-----BEGIN A ',
  assigned: 'password=',
  quotes: 'password="',
  schemes: '://a:',
  iban: 'DE89',
  'iban heads': 'DE89 3704 ',
  phones: '+1 ',
  brackets: '[]',
  'spaces and names': 'token    ',
  slack: 'xoxb-',
  masks: '[redacted:email]',
  prose: 'The quick brown fox. ',
};
for (const [name, piece] of Object.entries(HOSTILE)) {
  test(`many ${name} take linear time`, () =>
    assertLinear(async (size) => {
      const text = piece.repeat(Math.ceil(size / piece.length));
      await run(text);
      await json(JSON.stringify({ content: [{ type: 'text', text }] }));
    }));
}

test('many names that become alike, or equal names, take linear time', () =>
  assertLinear(async (size) => {
    const length = size / 20;
    const members = (member) => `{${Array.from({ length }, (_, i) => member(i)).join(',')}}`;
    const { text, counts } = await json(members((i) => `"u${i}@example.com":1`));
    assert.deepEqual(counts, { email: length });
    assert.equal(new Set(Object.keys(JSON.parse(text))).size, length);
    await json(members(() => '"data":"x"'));
  }));

test('1 MB of ordinary JSON', async () => {
  const rows = Array.from({ length: 9000 }, (_, i) => ({
    id: i,
    name: `item ${i}`,
    text: 'Some words about it.',
    mail: `u${i}@example.com`,
    at: 1.5,
  }));
  const { counts } = await json(JSON.stringify({ structuredContent: { rows } }));
  assert.deepEqual(counts, { email: 9000 });
});

test('warms up', async () => {
  await warmup();
});
