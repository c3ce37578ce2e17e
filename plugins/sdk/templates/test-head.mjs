// Runs the plugin of the manifest as a gateway does. `hawsepipe plugin test` runs this file; so does `node --test`.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const PROGRAM = process.env.HAWSEPIPE_PROGRAM ?? 'hawsepipe';
const MANIFEST = fileURLToPath(new URL('../my-plugin.yaml', import.meta.url));

/** Runs the plugin once, with options of `hawsepipe plugin run`, and returns the report. */
function run(...options) {
  const all = ['plugin', 'run', MANIFEST, '--node', process.execPath, '-o', 'json', ...options];
  const { stdout, stderr, error } = spawnSync(PROGRAM, all, { encoding: 'utf8' });
  if (error) throw error;
  assert.notEqual(stdout, '', stderr);
  return JSON.parse(stdout);
}

