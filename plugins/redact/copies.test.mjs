// json.mjs stands in several folders, since a plugin imports files of its own folder only. The copies must not part.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

const OTHERS = ['path-normalizer', 'shape', 'truncate'];

test('the copies of json.mjs are alike', (t) => {
  const text = (folder) => new URL(`../${folder}/json.mjs`, import.meta.url);
  if (!OTHERS.every((folder) => existsSync(text(folder)))) return t.skip('this folder stands alone');
  const ours = readFileSync(text('redact'), 'utf8');
  for (const folder of OTHERS) assert.equal(readFileSync(text(folder), 'utf8'), ours, folder);
});
