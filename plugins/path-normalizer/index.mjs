// @ts-check
// Transform of answers: writes absolute paths in one way, so that a client meets one name for one file. Separators are
// `/`, doubled ones and `.` go, `..` is resolved, drives are upper case; a path below one of `roots` becomes relative
// to it. Relative paths stay: nobody here knows what they start from.
//
// JSON is searched inside its strings, and what holds no such path keeps its bytes. A string of JSON that is a path as a
// whole may hold spaces; in free text a path ends at one.

import { decode, read, readContainer, splice } from './json.mjs';

/** A string that is JSON itself is looked into so many times. */
const MAX_NESTED = 4;

const REST = String.raw`[^\s"'\`<>|*?:;,()\[\]{}\\]*`;
const WINDOWS_REST = String.raw`[^\s"'\`<>|*?:;,()\[\]{}]*`;
/**
 * An absolute path in free text: `C:\...`, `\\server\share...` or `/...`. Not within a word, an address
 * (`https://a/b`), a tag (`</a>`) or a comment (`//`).
 */
const PATH = new RegExp(
  String.raw`(?<![\w:/\\.<~$@%-])(?:[A-Za-z]:[\\/](?![\\/])${WINDOWS_REST}|\\\\(?=[\w.-]+\\)${WINDOWS_REST}|/(?![/\s])${REST})`,
  'g',
);
/** A string that is nothing but an absolute path. */
const WHOLE = /^(?:[A-Za-z]:[\\/](?![\\/])|\\\\(?=[\w.-]+\\)|\/(?!\/))[^\n\r\t"<>|*?]*$/;

/**
 * @typedef {object} Config
 * @property {string[]} [roots] absolute folders; paths below the longest that fits become relative to it
 */

/** @type {import('hawsepipe-plugin').Handler<Config>} */
export default function normalizePaths({ rawContent, metadata }, ctx) {
  const roots = (ctx.config?.roots ?? []).map((root) => clean(root).replace(/(?<=[^/])\/$/, ''));
  const walk = { roots: roots.sort((a, b) => b.length - a.length), count: 0 };
  const text =
    metadata.contentType === 'json' ? inJson(walk, rawContent, read(rawContent), 0) : inString(walk, rawContent, 0);
  return { text, continue: true, metadata: { normalized: walk.count } };
}

/** A string, which may be the text of a JSON object or array, or a path as a whole. */
function inString(walk, text, nested) {
  const node = nested < MAX_NESTED ? readContainer(text) : undefined;
  if (node) return inJson(walk, text, node, nested + 1);
  if (WHOLE.test(text) && !text.endsWith('/*')) return normalize(walk, text);
  return text.replace(PATH, (path) => {
    // The full stop that ends a sentence is no part of a path; `..` is.
    const end = /(?<![./\\])[.!]$/.test(path) ? path.length - 1 : path.length;
    return normalize(walk, path.slice(0, end)) + path.slice(end);
  });
}

function inJson(walk, text, root, nested) {
  const edits = [];
  const visit = (node) => {
    if (node.kind === 'object') for (const { value } of node.members) visit(value);
    else if (node.kind === 'array') for (const item of node.items) visit(item);
    else if (node.kind === 'string') {
      const before = decode(text, node);
      const after = inString(walk, before, nested);
      if (after !== before) edits.push({ start: node.start, end: node.end, text: JSON.stringify(after) });
    }
  };
  visit(root);
  return edits.length === 0 ? text : splice(text, edits);
}

function normalize(walk, path) {
  const whole = clean(path);
  const root = walk.roots.find((folder) => whole === folder || whole.startsWith(folder === '/' ? '/' : `${folder}/`));
  const after = root === undefined ? whole : whole.slice(root === '/' ? 1 : root.length + 1) || '.';
  if (after !== path) walk.count += 1;
  return after;
}

/** The one way to write an absolute path. A `/` at its end stays. */
function clean(path) {
  const windows = /^(?:[A-Za-z]:|\\\\)/.test(path);
  const slashed = windows ? path.replaceAll('\\', '/') : path;
  const share = windows && slashed.startsWith('//');
  const drive = windows && !share ? slashed.slice(0, 2).toUpperCase() : '';
  const kept = [];
  for (const part of slashed.slice(drive.length).split('/')) {
    // Above the root is the root; of a share, server and name are its root.
    if (part === '..') kept.length = Math.max(share ? Math.min(2, kept.length) : 0, kept.length - 1);
    else if (part !== '' && part !== '.') kept.push(part);
  }
  const end = kept.length > 0 && /\/\.{0,2}$/.test(slashed) ? '/' : '';
  return `${drive}${share ? '//' : '/'}${kept.join('/')}${end}`;
}
