// Makes the software bill of materials of the image (CycloneDX) from the list of crates that cargo-cyclonedx writes:
//
//   node sbom.mjs CRATES.json PLUGINS > sbom.cdx.json
//
// It adds the Node.js that runs it, and the plugins of the folder PLUGINS with the packages that are bundled into them. The
// same inputs give the same bytes: there are no times, no random numbers and no paths of the machine in it. Packages of the
// image's base are not in it: scanners read those from the image itself.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The name of the whole; cargo-cyclonedx gives it one with a path. */
const ROOT = 'hawsepipe';
/** Versions of interfaces, which are no software. */
const INTERFACES = ['modules', 'napi', 'node'];

const byRef = (a, b) => (a['bom-ref'] < b['bom-ref'] ? -1 : 1);
const licensed = (expression) => [{ expression }];

function npm(name, version, license) {
  const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`;
  return { type: 'library', 'bom-ref': purl, name, version, licenses: licensed(license), purl };
}

/** Node.js, with what is compiled into it. */
function node() {
  const { node: version } = process.versions;
  const within = Object.entries(process.versions).filter(([name]) => !INTERFACES.includes(name));
  return {
    type: 'application',
    'bom-ref': `pkg:generic/node@${version}`,
    name: 'node',
    version,
    licenses: licensed('MIT'),
    cpe: `cpe:2.3:a:nodejs:node.js:${version}:*:*:*:*:*:*:*`,
    purl: `pkg:generic/node@${version}`,
    components: within
      .map(([name, its]) => ({ type: 'library', 'bom-ref': `node/${name}@${its}`, name, version: its }))
      .sort(byRef),
  };
}

/** The packages that are bundled into a plugin, by the headings of its licences. */
function bundled(folder) {
  const file = join(folder, 'LICENCES.txt');
  if (!existsSync(file)) return [];
  const headings = readFileSync(file, 'utf8').split(/^={100}\n\n/m).map((part) => part.split('\n', 1)[0]);
  return headings.map((heading) => {
    const [, name, version, license] = /^(\S+) (\S+) \((.+)\)$/.exec(heading) ?? [];
    if (name === undefined) throw new Error(`${file}: this is not "NAME VERSION (LICENCE)": ${heading}`);
    return npm(name, version, license);
  });
}

function plugins(folder) {
  const found = readdirSync(folder).filter((name) => existsSync(join(folder, name, 'plugin.json')));
  if (found.length === 0) throw new Error(`${folder} has no plugins`);
  return found.map((name) => {
    const { version } = JSON.parse(readFileSync(join(folder, name, 'plugin.json'), 'utf8'));
    const parts = bundled(join(folder, name)).sort(byRef);
    const plugin = { type: 'library', 'bom-ref': `plugin/${name}`, name, version, licenses: licensed('Apache-2.0') };
    return parts.length === 0 ? plugin : { ...plugin, components: parts };
  });
}

export function bom(crates, pluginFolder) {
  const root = crates.metadata.component;
  const named = (ref) => (ref === root['bom-ref'] ? ROOT : ref);
  const component = {
    type: 'application',
    'bom-ref': ROOT,
    name: root.name,
    version: root.version,
    licenses: root.licenses,
    purl: `pkg:cargo/${root.name}@${root.version}`,
  };
  const added = [node(), ...plugins(pluginFolder)];
  const dependencies = crates.dependencies.map(({ ref, dependsOn = [] }) => {
    const all = ref === root['bom-ref'] ? [...dependsOn, ...added.map((part) => part['bom-ref'])] : dependsOn;
    return { ref: named(ref), dependsOn: all.map(named).sort() };
  });
  return {
    bomFormat: 'CycloneDX',
    specVersion: crates.specVersion,
    version: 1,
    metadata: { component },
    components: [...crates.components, ...added].sort(byRef),
    dependencies: dependencies.sort((a, b) => (a.ref < b.ref ? -1 : 1)),
  };
}

if (import.meta.main ?? process.argv[1] === new URL(import.meta.url).pathname) {
  const [crates, pluginFolder] = process.argv.slice(2);
  if (pluginFolder === undefined) throw new Error('usage: node sbom.mjs CRATES.json PLUGINS');
  const made = bom(JSON.parse(readFileSync(crates, 'utf8')), pluginFolder);
  process.stdout.write(`${JSON.stringify(made, null, 1)}\n`);
}
