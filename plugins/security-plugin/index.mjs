// @ts-check
// Guard: denies a request whose arguments speak of credentials, so that nothing is sent. Answers pass.
// Contract 1.0 to the letter: one JSON line in, to the end of standard input; one JSON line out; exit.
//
// `metadata.config`, where the gateway gives one: `patterns` replaces the list below; `alsoBlock` adds to it. Both are
// regular expressions, matched without regard to case.

import { text } from 'node:stream/consumers';

// The words of the contract's example, and the shapes of common keys, which need no such word beside them.
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

/** The text, with JSON escapes undone where it is JSON: an escape must not hide a word. */
function plain(content) {
  try {
    return `${content}\n${JSON.stringify(JSON.parse(content))}`;
  } catch {
    return content;
  }
}

/** @returns {import('hawsepipe-plugin').Output} */
function judge({ rawContent, metadata }) {
  if (metadata.phase !== 'request') return { text: rawContent, continue: true };
  const { patterns = PROHIBITED, alsoBlock = [] } = metadata.config ?? {};
  const content = plain(rawContent);
  const hit = [...patterns, ...alsoBlock].some((pattern) => new RegExp(pattern, 'i').test(content));
  if (!hit) return { text: rawContent, continue: true, metadata: { securityCheck: 'passed' } };
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
