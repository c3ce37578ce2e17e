import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

import { bom } from './sbom.mjs';

const checkout = fileURLToPath(new URL('..', import.meta.url));
const crate = (name) => ({ type: 'library', 'bom-ref': `registry#${name}@1.0.0`, name, version: '1.0.0' });
const root = { type: 'application', 'bom-ref': 'path+file:///home/someone/hawsepipe#0.1.0', name: 'hawsepipe', version: '0.1.0' };
const of = (names) => ({
  bomFormat: 'CycloneDX',
  specVersion: '1.5',
  serialNumber: 'urn:uuid:of-this-run',
  metadata: { timestamp: '2026-01-01T00:00:00Z', component: root },
  components: names.map(crate),
  dependencies: [{ ref: root['bom-ref'], dependsOn: names.map((name) => crate(name)['bom-ref']) }],
});
const made = bom(of(['b', 'a']), `${checkout}plugins`);
const all = (components) => components.flatMap((part) => [part, ...all(part.components ?? [])]);

test('nothing in it is of one run or one machine', () => {
  assert.deepEqual(bom(of(['a', 'b']), `${checkout}plugins`), made);
  const text = JSON.stringify(made);
  for (const word of ['timestamp', 'serialNumber', 'someone', checkout]) assert.ok(!text.includes(word), word);
});

test('crates, Node.js, plugins and what is bundled into them are in it', () => {
  const purls = all(made.components).flatMap((part) => part.purl ?? []);
  const { devDependencies } = JSON.parse(readFileSync(`${checkout}plugins/curate/package.json`, 'utf8'));
  const sdk = devDependencies['@anthropic-ai/sdk'];
  assert.ok(purls.includes(`pkg:generic/node@${process.versions.node}`), purls.join(' '));
  assert.ok(purls.includes(`pkg:npm/%40anthropic-ai/sdk@${sdk}`), purls.join(' '));
  const names = made.components.map((part) => part.name);
  for (const name of ['a', 'b', 'curate', 'redact']) assert.ok(names.includes(name), name);
});

test('each reference is to one component', () => {
  const refs = [made.metadata.component, ...all(made.components)].map((part) => part['bom-ref']);
  assert.equal(new Set(refs).size, refs.length);
  const named = made.dependencies.flatMap(({ ref, dependsOn }) => [ref, ...dependsOn]);
  assert.deepEqual(named.filter((ref) => !refs.includes(ref)), []);
  assert.ok(named.includes('plugin/curate') && named.includes('hawsepipe'));
});
