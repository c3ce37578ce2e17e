import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const SCRIPT = fileURLToPath(new URL('index.mjs', import.meta.url));

function run(stdin) {
  return spawnSync(process.execPath, [SCRIPT], { input: stdin, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 });
}

function input(rawContent) {
  const metadata = { requestId: '1', timestamp: new Date().toISOString(), serverName: 'test', phase: 'response' };
  return `${JSON.stringify({ toolName: 'test/echo', rawContent, metadata })}\n`;
}

for (const content of ['Hello, World!', '', 'line\nline\u2028ünï 🙂', 'x'.repeat(1_000_000)]) {
  test(`gives back ${content.length} characters, as one line`, () => {
    const { stdout, status } = run(input(content));
    assert.equal(status, 0);
    assert.equal(stdout.indexOf('\n'), stdout.length - 1);
    const output = JSON.parse(stdout);
    assert.equal(output.text, content);
    assert.equal(output.continue, true);
    assert.ok(!Number.isNaN(Date.parse(output.metadata.echoedAt)));
  });
}

test('fails on what is no input', () => {
  const { stdout, status } = run('not JSON');
  assert.notEqual(status, 0);
  assert.equal(stdout, '');
});
