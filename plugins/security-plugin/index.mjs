// @ts-check
// Guard: denies a request whose arguments speak of credentials, so that nothing is sent. Answers pass.
// Contract 1.0 to the letter: one JSON line in, to the end of standard input; one JSON line out; exit.
//
// Searched is what the content says: where it is JSON each of its strings too, names of members included, and so in
// strings that are JSON themselves. In the text of JSON a word at the beginning of a line is `\nword`, with no boundary
// before it, and `\u0077ord` is another one. What cannot be searched to its end throws, so that the call is refused.
//
// `metadata.config`, where the gateway gives one: `patterns` replaces the list below; `alsoBlock` adds to it. Both are
// regular expressions, matched without regard to case.

import { text } from 'node:stream/consumers';

// The words of the contract's example, and the shapes of common keys, which need no such word beside them. Each runs in
// linear time.
const PROHIBITED = [
  '\\bpassword\\b',
  '\\bsecret\\b',
  '\\bapi[_-]?key\\b',
  '\\btoken\\b',
  '\\bsk-[a-z0-9_-]{16,}',
  '\\b(?:gh[pousr]|github_pat)_[a-z0-9_]{20,}',
  '\\bAKIA[0-9A-Z]{16}\\b',
  '-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----',
];
/** JSON within strings of JSON is searched so deep. */
const MAX_NESTED = 8;
/** An escape that hides a word or its beginning, with however many backslashes: of a run only the first is entered. */
const ESCAPE = /(?<!\\)\\+(?:u([0-9a-fA-F]{4})|[bfnrt])/g;
/** In pieces, since to normalize a long run of combining marks takes quadratic time. */
const OTHERS = /[^\u0000-\u007f]{1,256}/gu;
const UNSEEN = /[\p{Default_Ignorable_Code_Point}\p{Cf}]/gu;

/** A text with escapes and compatibility forms, such as fullwidth letters, undone, and without what nobody sees. */
function plain(content) {
  return content
    .replace(ESCAPE, (_, code) => (code ? String.fromCharCode(parseInt(code, 16)) : '\n'))
    .replace(OTHERS, (piece) => piece.normalize('NFKC').replace(UNSEEN, ''));
}

/** The strings of a JSON text, as they are written: JSON.parse would lose one whose name stands twice. */
function* literals(json) {
  for (let start = json.indexOf('"'), end; start >= 0; start = json.indexOf('"', end)) {
    for (end = start + 1; end < json.length && json[end] !== '"'; end += 1) if (json[end] === '\\') end += 1;
    end += 1;
    yield json.slice(start, end);
  }
}

/** The value of a JSON text; undefined where it is none. */
function parsed(json) {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

/** Whether `bad` holds for a text as it is written, as it reads, or for one of its strings where it looks like JSON. */
function says(content, bad, nested = 0) {
  const simple = plain(content);
  if (bad(content) || (simple !== content && bad(simple))) return true;
  if (!/^[\s\ufeff]*[{["]/.test(content)) return false;
  if (nested > MAX_NESTED) throw new RangeError('JSON within strings of JSON is nested too deep');
  for (const literal of literals(content)) if (says(parsed(literal) ?? '', bad, nested + 1)) return true;
  return false;
}

/** @returns {import('hawsepipe-plugin').Output} */
function judge({ rawContent, metadata }) {
  if (metadata.phase !== 'request') return { text: rawContent, continue: true };
  const value = metadata.contentType === 'json' ? JSON.parse(rawContent) : parsed(rawContent);
  const { patterns = PROHIBITED, alsoBlock = [] } = metadata.config ?? {};
  const expressions = [...patterns, ...alsoBlock].map((pattern) => new RegExp(pattern, 'i'));
  const bad = (content) => expressions.some((expression) => expression.test(content));
  // JSON without its spaces too, for expressions about a member and its value.
  if (!says(rawContent, bad) && !(value !== undefined && bad(JSON.stringify(value)))) {
    return { text: rawContent, continue: true, metadata: { securityCheck: 'passed' } };
  }
  return {
    text: '[BLOCKED] The request may hold credentials. Take them out and try again.',
    continue: false,
    error: 'Security policy violation: sensitive data detected in request',
  };
}

try {
  console.log(JSON.stringify(judge(JSON.parse(await text(process.stdin)))));
} catch (error) {
  // The name only: the message of a SyntaxError repeats the text.
  console.error(`security-plugin: ${error instanceof Error ? error.name : 'failed'}`);
  process.exitCode = 1;
}
