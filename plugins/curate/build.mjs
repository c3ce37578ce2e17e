// Bundles src/curate.mjs and the Anthropic SDK into one file, with the licences of what is in it beside it:
//
//   node build.mjs FOLDER
//
// The same lock file gives the same bytes. Of the SDK only what the Messages API needs is taken, since a worker loads all
// of it.

import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const folder = fileURLToPath(new URL('.', import.meta.url));
const [target] = process.argv.slice(2);
if (target === undefined) throw new Error('usage: node build.mjs FOLDER');

const { metafile } = await build({
  absWorkingDir: folder,
  entryPoints: ['src/curate.mjs'],
  outfile: `${target}/index.mjs`,
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'esm',
  minifySyntax: true,
  minifyWhitespace: true,
  lineLimit: 120,
  legalComments: 'none',
  metafile: true,
  banner: { js: '// Built by `make plugins` from src/curate.mjs; edits here are lost. LICENCES.txt is of what it holds.' },
});

const [output] = Object.values(metafile.outputs);
const files = Object.entries(output.inputs).filter(([, input]) => input.bytesInOutput > 0);
const packages = new Set(files.flatMap(([file]) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1] ?? []));
const licences = [...packages].sort().map((name) => {
  const { version, license } = JSON.parse(readFileSync(`${folder}node_modules/${name}/package.json`, 'utf8'));
  return `${name} ${version} (${license})\n\n${readFileSync(`${folder}node_modules/${name}/LICENSE`, 'utf8').trim()}\n`;
});
writeFileSync(`${target}/LICENCES.txt`, licences.join(`\n${'='.repeat(100)}\n\n`));
