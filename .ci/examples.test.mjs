// The guards that people copy, as the manifests and the pages print them.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';

/** The guard that stands in a file as the Plugin `name`, with its code inline: whether it denies a content. */
async function guard(file, name) {
  const text = readFileSync(new URL(`../${file}`, import.meta.url), 'utf8');
  const [, code] = new RegExp(`name: ${name}[,}][^]*?inline: \\|\\n([^]*?)\\n(?:---|\`\`\`)\n`).exec(text);
  const module = await import(`data:text/javascript,${encodeURIComponent(code)}`);
  return (rawContent) => {
    const output = module.onRequest({ rawContent });
    if (output.continue) assert.deepEqual(output, { text: rawContent, continue: true });
    else assert.ok(output.text.startsWith('[BLOCKED]') && output.error);
    return !output.continue;
  };
}

test('the example guard denies parent folders, however they are written and wherever they stand', async () => {
  const denies = await guard('manifests/examples/guard.yaml', 'no-parent-folders');
  const paths = ['..', '../x', '..\\x', 'a/..', 'a\\..', 'a/../b', 'a\\..\\b', 'C:..\\x', '....//x', 'file:///a/../b'];
  paths.push(' ../x', '..\n', '..\0', 'cat ../x', '-I../x', '["../x"]', '{"path":"..\\/x"}', '["\\u002e\\u002E/x"]');
  paths.push('%2e%2e/x', '%2E.%2fx', 'a/..%2f', 'a%5C..%5cb', '..%00', '100%/%2e%2e', 'file:///a/%2e%2e/b');
  for (const path of paths) {
    for (const value of [path, [1, path], { a: { b: path } }]) {
      for (const name of ['path', 'paths', 'source']) assert.ok(denies(JSON.stringify({ [name]: value })), path);
    }
    assert.ok(denies(JSON.stringify({ [path]: 1 })), path);
    const escaped = path.replace(/./gs, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
    assert.ok(denies(`{"path": "${escaped}"}`), path);
  }
  for (const text of ['{"path":"..\\/x"}', '{"a":1,"list":[[{"b":null},"x/.."]]}', '{"__proto__":{"path":"../x"}}']) {
    assert.ok(denies(text), text);
  }
  const others = ['', 'a', '/a/b.txt', 'a..b', 'a..', '...', 'wait... no', '.', './a', '.b', '100%', '%2e', '%252e./x'];
  for (const path of others) {
    assert.ok(!denies(JSON.stringify({ path, paths: [path, 1.5, true], [path]: {} })), path);
  }
  const source = 'import "../x";\nwait .. what';
  assert.ok(!denies(JSON.stringify({ path: '/a.js', content: source, edits: [{ oldText: source, newText: source }] })));
  for (const value of [[source], { path: source }]) assert.ok(denies(JSON.stringify({ content: value })));
  assert.throws(() => denies('{"path": ../x}'), SyntaxError);
});

test('a megabyte for the example guard takes linear time', async () => {
  const denies = await guard('manifests/examples/guard.yaml', 'no-parent-folders');
  for (const piece of ['.', '%2e', '%', 'a..', '...', '%2', '. .']) {
    const before = Date.now();
    denies(JSON.stringify({ path: piece.repeat(1_000_000 / piece.length) }));
    assert.ok(Date.now() - before < 2000, piece);
  }
});

test('the guard of docs/tenancy.md denies passwords, however they are written and wherever they stand', async () => {
  const denies = await guard('docs/tenancy.md', 'no-credentials');
  for (const text of ['{"a":"my Password"}', '{"a":["x\\npass\\u0077ord"]}', '{"pass\\u0077ord":{}}']) {
    assert.ok(denies(text), text);
  }
  for (const text of ['{"a":"pass","b":"word"}', '{}', '{"a":[1,null,true]}']) assert.ok(!denies(text), text);
});
