import assert from 'node:assert/strict';
import { test } from 'node:test';

import log from './index.mjs';

async function run(rawContent, config) {
  const lines = [];
  const metadata = {
    requestId: 'r-1',
    timestamp: '2026-01-01T00:00:00.000Z',
    serverName: 's',
    phase: 'response',
    contentType: 'text',
  };
  const output = await log(
    { toolName: 's/t', rawContent, maxTokens: null, metadata },
    { config, log: (line) => lines.push(line) },
  );
  assert.deepEqual(output, { text: rawContent, continue: true });
  return lines;
}

test('logs one line, without content', async () => {
  const lines = await run('größe', {});
  assert.deepEqual(
    lines.map((line) => JSON.parse(line)),
    [{ requestId: 'r-1', tool: 's/t', phase: 'response', contentType: 'text', bytes: 7 }],
  );
});

test('logs content only when asked to, cut, on the same line', async () => {
  const [line, ...more] = await run(`a\nb${'x'.repeat(9000)}`, { content: true });
  assert.deepEqual(more, []);
  assert.ok(!line.includes('\n'));
  assert.equal(JSON.parse(line).content.length, 200);
  assert.equal(JSON.parse((await run('x'.repeat(9000), { content: true, maxContent: 5 }))[0]).content, 'xxxxx');
  assert.equal(JSON.parse((await run('x'.repeat(9000), { content: true, maxContent: 1e9 }))[0]).content.length, 2000);
});
