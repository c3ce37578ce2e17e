import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertLinear } from '../../tests/fixtures/linear.mjs';
import normalizePaths from './index.mjs';

function run(rawContent, roots, contentType = 'text') {
  const metadata = { requestId: '1', serverName: 'files', phase: 'response', contentType };
  return normalizePaths({ toolName: 'files/list', rawContent, maxTokens: null, metadata }, { config: roots && { roots } });
}

function becomes(before, after, roots) {
  const output = run(before, roots);
  assert.equal(output.text, after);
  assert.equal(output.continue, true);
  return output.metadata.normalized;
}

test('one file has one name', () => {
  for (const [before, after] of [
    ['/srv//files/./a.txt', '/srv/files/a.txt'],
    ['/srv/files/../other/a.txt', '/srv/other/a.txt'],
    ['/../../etc', '/etc'],
    ['/srv/files//', '/srv/files/'],
    ['/srv/files/.', '/srv/files/'],
    ['/srv/..', '/'],
    ['C:\\Users\\ann\\a.txt', 'C:/Users/ann/a.txt'],
    ['c:/Users\\..\\bob', 'C:/bob'],
    ['c:\\', 'C:/'],
    ['\\\\server\\share\\..\\..\\a', '//server/share/a'],
    ['/srv/My Files//a b.txt', '/srv/My Files/a b.txt'],
  ]) {
    assert.equal(becomes(before, after), 1, before);
    assert.equal(becomes(after, after), 0, `${after} is as it should be`);
  }
});

test('paths are found in free text', () => {
  becomes('see /a//b, /c/./d and (/e//f); done: /g/../h.', 'see /a/b, /c/d and (/e/f); done: /h.');
  becomes('[FILE] /a//b\n[DIR] /c//', '[FILE] /a/b\n[DIR] /c/');
  becomes('open C:\\a\\b now', 'open C:/a/b now');
  becomes('"/a//b" and \'/c//d\' and `/e//f`', '"/a/b" and \'/c/d\' and `/e/f`');
});

test('what is no absolute path stays', () => {
  for (const text of [
    'https://example.com//a/../b and file:///a//b',
    'either/or, 1/2, a//b, ./a//b, ../a//b, ~/a//b, $HOME//a',
    '// a comment //',
    '/* another */ a /= b',
    '<p>text</p><br/>',
    'a \\d+\\s regular expression, \\n and \\\\',
    'C: is a drive, x:y is none',
    '',
    '/',
  ]) {
    assert.equal(becomes(text, text), 0);
  }
});

test('paths below a root are relative to it', () => {
  const roots = ['/srv/files', '/srv/files/ann/', 'c:\\data'];
  for (const [before, after] of [
    ['/srv/files/bob/a.txt', 'bob/a.txt'],
    ['/srv//files/ann/a.txt', 'a.txt'],
    ['/srv/files', '.'],
    ['/srv/files/', '.'],
    ['/srv/filesystem/a', '/srv/filesystem/a'],
    ['C:\\data\\a', 'a'],
  ]) {
    becomes(before, after, roots);
  }
  assert.equal(run('/a/b', ['/']).text, 'a/b');
});

test('JSON is searched inside its strings, and keeps its bytes besides', () => {
  const before = '{"content": [{"type":"text","text":"/a//b"}], "n": 1.0, "long": 12345678901234567890, "s": "\\u0041"}';
  const { text, metadata } = run(before, undefined, 'json');
  assert.equal(text, before.replace('/a//b', '/a/b'));
  assert.equal(metadata.normalized, 1);
  const nested = JSON.stringify({ text: JSON.stringify({ path: 'C:\\a\\.\\b c' }) });
  assert.deepEqual(JSON.parse(JSON.parse(run(nested, undefined, 'json').text).text), { path: 'C:/a/b c' });
  const same = '{ "path" : "/a/b" }';
  assert.equal(run(same, undefined, 'json').text, same);
});

for (const piece of ['/', '/.', '/..', '\\\\a', 'C:\\', '/a ', 'x/', '."/']) {
  test(`much of ${JSON.stringify(piece)}, which is nearly a path, takes linear time`, () =>
    assertLinear((size) => run(piece.repeat(size / piece.length), ['/srv/files'])));
}
