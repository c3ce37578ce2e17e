import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

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

for (const content of [
  'Please use password: secret123',
  '{"q": "my API_KEY"}',
  '{"q": "the Token"}',
  '{"q": "sk-ant-abcdefghijklmnopqrst"}',
  '{"q": "\\u0070assword"}',
]) {
  test(`denies ${content}`, () => {
    const output = run(content);
    assert.equal(output.continue, false);
    assert.match(output.error, /sensitive data/);
    assert.match(output.text, /^\[BLOCKED\]/);
    assert.ok(!JSON.stringify(output).includes('secret123'));
  });
}

test('lets answers pass', () => {
  assert.deepEqual(run('password: x', { phase: 'response' }), { text: 'password: x', continue: true });
});

test('takes its patterns from the configuration', () => {
  assert.equal(run('password', { config: { patterns: ['\\bcodename\\b'] } }).continue, true);
  assert.equal(run('CODENAME x', { config: { patterns: ['\\bcodename\\b'] } }).continue, false);
  assert.equal(run('password', { config: { alsoBlock: ['codename'] } }).continue, false);
});

test('exits with 1 on what is no input, and does not repeat it', () => {
  const { stdout, stderr, status } = spawnSync(process.execPath, [SCRIPT], { input: 's3cret', encoding: 'utf8' });
  assert.equal(status, 1);
  assert.equal(stdout, '');
  assert.equal(stderr, 'security-plugin: SyntaxError\n');
});
