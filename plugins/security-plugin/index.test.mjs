import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { assertLinear } from '../../tests/fixtures/linear.mjs';

const SCRIPT = fileURLToPath(new URL('index.mjs', import.meta.url));

function run(rawContent, { phase = 'request', config } = {}) {
  const metadata = { requestId: '1', timestamp: new Date().toISOString(), serverName: 'test', phase, config };
  const input = `${JSON.stringify({ toolName: 'test/tool', rawContent, metadata })}\n`;
  const { stdout, status } = spawnSync(process.execPath, [SCRIPT], { input, encoding: 'utf8' });
  assert.equal(status, 0);
  return JSON.parse(stdout);
}

test('lets a harmless request pass', () => {
  const content = '{"path": "/data/a.txt", "tokens": 12}';
  assert.deepEqual(run(content), { text: content, continue: true, metadata: { securityCheck: 'passed' } });
});

/** What is a string to a server stands in JSON text with escapes, and each of these is denied. */
const SAID = [
  'first line\npassword hunter2',
  'a\r\npassword=x',
  'a\ttoken abc',
  'a\fsecret',
  'x\nsk-abcdefghijklmnopqrstuvwxyz',
  'x\nAKIAABCDEFGHIJKLMNOP',
  'x\nghp_abcdefghijklmnopqrstuvwxyz',
  'x\n-----BEGIN RSA PRIVATE KEY-----\nMII',
  'C:\\token',
  // JSON, or an escape, within other text.
  `curl -d '{"a":"b\\npassword x"}'`,
  'printf "user\\npassword x"',
  'it is \\u0070assword',
  // What is not seen, and other forms of letters.
  'pass\u200bword x',
  'my\u200bpassword',
  'ｐａｓｓｗｏｒｄ x',
];
const nest = (value, levels) => (levels === 0 ? value : JSON.stringify([nest(value, levels - 1)]));
const escape = (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
const DENIED = [
  'Please use password: secret123',
  '{"q": "my API_KEY"}',
  '{"q": "the Token"}',
  '{"q": "sk-ant-abcdefghijklmnopqrst"}',
  '{"q": "\\u0070assword"}',
  'first line\npassword hunter2',
  '{"password": "x"}',
  '{"pass\\u0077ord": 1}',
  '{"a": {"x\\npassword": null}}',
  '"x\\npassword"',
  '{"q": "C:\\\\tok\\u0065n"}',
  '{"a": 1, "list": [true, 2, ["x\\tsecret"]]}',
  // JSON in strings, and in these of two with one name the one that JSON.parse loses.
  JSON.stringify({ body: JSON.stringify({ a: 'x\npassword' }) }),
  JSON.stringify({ body: '\ufeff{"a": "\\u0070assword"}' }),
  JSON.stringify({ body: '{"a": "C:\\\\tok\\u0065n", "a": "x"}' }),
  '{"a": "\\u0070assword", "a": "x"}',
  // Not JSON, though it begins like it.
  '{"q": "x\\npassword',
  '[INFO] "x\\npassword" y',
];
for (const said of SAID) {
  DENIED.push(JSON.stringify({ q: said }), JSON.stringify({ [said]: 1 }), `{"q":["${said.replace(/./gs, escape)}"]}`);
}
for (let levels = 1; levels <= 8; levels += 1) DENIED.push(nest('x\npassword', levels));
for (const content of DENIED) {
  test(`denies ${content.slice(0, 80)}`, () => {
    const output = run(content);
    assert.equal(output.continue, false);
    assert.match(output.error, /sensitive data/);
    assert.match(output.text, /^\[BLOCKED\]/);
    assert.ok(!JSON.stringify(output).includes('secret123'));
  });
}

test('lets pass what only looks like it', () => {
  const alike = ['passwords', 'n\npasswordless', 'tokens\ttokenize', 'C:\\new\\temp', 'a\\\\b', '[INFO] "x', '{"a": "\\'];
  for (const said of alike) {
    const content = JSON.stringify({ q: said, [said]: [said, nest(said, 3)] });
    assert.deepEqual(run(content), { text: content, continue: true, metadata: { securityCheck: 'passed' } });
  }
});

test('lets answers pass', () => {
  assert.deepEqual(run('password: x', { phase: 'response' }), { text: 'password: x', continue: true });
});

test('takes its patterns from the configuration', () => {
  assert.equal(run('password', { config: { patterns: ['\\bcodename\\b'] } }).continue, true);
  assert.equal(run('CODENAME x', { config: { patterns: ['\\bcodename\\b'] } }).continue, false);
  assert.equal(run('password', { config: { alsoBlock: ['codename'] } }).continue, false);
});

test('patterns are for strings, for numbers as they are written, and for members with their values', () => {
  const denies = (content, pattern) => assert.equal(run(content, { config: { patterns: [pattern] } }).continue, false);
  denies('{"n": 12345678901234567890}', '\\b12345678901234567890\\b');
  denies('{"a": ["x", "rm -r /"]}', '^rm\\b');
  denies('{"path": "..\\/x"}', '^\\.\\./');
  denies('{"mode" : "\\u0061ll"}', '"mode":"all"');
});

function ends(rawContent) {
  const metadata = { requestId: '1', timestamp: '', serverName: 'test', phase: 'request', contentType: 'json' };
  const input = JSON.stringify({ toolName: 'test/tool', rawContent, metadata });
  return spawnSync(process.execPath, [SCRIPT], { input, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 });
}

test('exits with 1 on what it cannot search to its end', () => {
  for (const [content, name] of [['{"a": s3cret}', 'SyntaxError'], [nest('s3cret', 12), 'RangeError']]) {
    const { stdout, stderr, status } = ends(content);
    assert.deepEqual({ stdout, stderr, status }, { stdout: '', stderr: `security-plugin: ${name}\n`, status: 1 });
  }
});

const PIECES = ['a', '\\', '\\\\', '\\u005c', '"', '",', '[', '{"a":', '\n', '\u0301\u0316', '\u200b', '\ufdfa'];
PIECES.push('-', 'api_', '-----BEGIN A', 'sk-aaaaaaaaaaaaaaa ', 'ghp_aaaaaaaaaaaaaaaaaaa ', 'AKIAABCDEFGHIJKLMNO ');
for (const piece of PIECES) {
  test(`much of ${JSON.stringify(piece)} takes linear time`, () =>
    assertLinear((size) => {
      const content = piece.repeat(Math.ceil(size / piece.length));
      assert.equal(ends(JSON.stringify({ a: content, [content]: 1 })).status, 0);
    }, Date.now));
}

test('exits with 1 on what is no input, and does not repeat it', () => {
  const { stdout, stderr, status } = spawnSync(process.execPath, [SCRIPT], { input: 's3cret', encoding: 'utf8' });
  assert.equal(status, 1);
  assert.equal(stdout, '');
  assert.equal(stderr, 'security-plugin: SyntaxError\n');
});
