// A JSON reader that keeps the place of each value, so that what is not changed leaves as it came: `1.0` beside `1`,
// integers of any length, duplicate keys, escapes and spacing. JSON.parse keeps none of these.
// The same file stands in every plugin folder that needs it, since a plugin imports files of its own folder only.

const MAX_DEPTH = 200;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const SPACE = /[ \t\n\r]*/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

/**
 * Reads a JSON text.
 *
 * A node is {kind, start, end}, with `start` and `end` its place in the text, and besides: `items` (nodes) of an array;
 * `members` ([{key, name, value}], `key` the node of the name) of an object. Kinds: object, array, string, number,
 * literal.
 *
 * Throws a SyntaxError that names the place, never the text, where it is no JSON, and a RangeError where it nests
 * deeper than 200: what comes after that was not read.
 */
export function read(text) {
  const reader = { text, at: 0 };
  const node = value(reader, 0);
  space(reader);
  if (reader.at !== text.length) fail(reader, 'more text after the value');
  return node;
}

/** Reads a JSON text that is an object or an array; undefined where it is something else, or nests too deep. */
export function readContainer(text) {
  const first = /^[ \t\n\r]*[{[]/.test(text);
  if (!first) return undefined;
  try {
    return read(text);
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError) return undefined;
    throw error;
  }
}

/** The string that a string node stands for. */
export function decode(text, node) {
  const inner = text.slice(node.start + 1, node.end - 1);
  return inner.includes('\\') ? JSON.parse(text.slice(node.start, node.end)) : inner;
}

/** The member of an object node with this name; of several the last, as JSON.parse has it. */
export function member(node, name) {
  return node.members?.findLast((m) => m.name === name)?.value;
}

/** The text with each edit {start, end, text} carried out. Edits do not overlap; their order does not matter. */
export function splice(text, edits) {
  const sorted = [...edits].sort((a, b) => a.start - b.start);
  const parts = [];
  let at = 0;
  for (const edit of sorted) {
    parts.push(text.slice(at, edit.start), edit.text);
    at = edit.end;
  }
  parts.push(text.slice(at));
  return parts.join('');
}

function fail(reader, what) {
  throw new SyntaxError(`not JSON: ${what} at position ${reader.at}`);
}

function space(reader) {
  SPACE.lastIndex = reader.at;
  SPACE.test(reader.text);
  reader.at = SPACE.lastIndex;
}

function value(reader, depth) {
  if (depth > MAX_DEPTH) throw new RangeError(`JSON nested deeper than ${MAX_DEPTH} at position ${reader.at}`);
  space(reader);
  const first = reader.text[reader.at];
  if (first === '{') return object(reader, depth);
  if (first === '[') return array(reader, depth);
  if (first === '"') return string(reader);
  for (const word of ['true', 'false', 'null']) {
    if (reader.text.startsWith(word, reader.at)) return leaf(reader, 'literal', word.length);
  }
  NUMBER.lastIndex = reader.at;
  if (!NUMBER.test(reader.text)) fail(reader, 'a value was expected');
  return leaf(reader, 'number', NUMBER.lastIndex - reader.at);
}

function leaf(reader, kind, length) {
  const start = reader.at;
  reader.at += length;
  return { kind, start, end: reader.at };
}

function string(reader) {
  const { text, at: start } = reader;
  let at = start + 1;
  for (;;) {
    PLAIN.lastIndex = at;
    PLAIN.test(text);
    at = PLAIN.lastIndex;
    if (text[at] === '"') break;
    ESCAPE.lastIndex = at;
    reader.at = at;
    if (!ESCAPE.test(text)) fail(reader, 'a string does not end, or holds what must be escaped');
    at = ESCAPE.lastIndex;
  }
  reader.at = at + 1;
  return { kind: 'string', start, end: reader.at };
}

function array(reader, depth) {
  const node = { kind: 'array', start: reader.at, end: 0, items: [] };
  reader.at += 1;
  space(reader);
  if (reader.text[reader.at] !== ']') {
    do node.items.push(value(reader, depth + 1));
    while (comma(reader, ']'));
  }
  reader.at += 1;
  node.end = reader.at;
  return node;
}

function object(reader, depth) {
  const node = { kind: 'object', start: reader.at, end: 0, members: [] };
  reader.at += 1;
  space(reader);
  if (reader.text[reader.at] !== '}') {
    do node.members.push(pair(reader, depth));
    while (comma(reader, '}'));
  }
  reader.at += 1;
  node.end = reader.at;
  return node;
}

function pair(reader, depth) {
  space(reader);
  if (reader.text[reader.at] !== '"') fail(reader, 'a name was expected');
  const key = string(reader);
  const name = decode(reader.text, key);
  space(reader);
  if (reader.text[reader.at] !== ':') fail(reader, '`:` was expected');
  reader.at += 1;
  return { key, name, value: value(reader, depth + 1) };
}

/** Whether another element follows; stops at the closing bracket. */
function comma(reader, close) {
  space(reader);
  const next = reader.text[reader.at];
  if (next === close) return false;
  if (next !== ',') fail(reader, `\`,\` or \`${close}\` was expected`);
  reader.at += 1;
  return true;
}
