// The forms in which a text is searched: as it is written, and what it says apart from how it is written.
//
// A fold alone would lose what stands beside something hidden (`x`, a zero-width space and a key become one word), and
// what the fold ends too early (`"a\u0022b"`). So the written text is always searched, and two folds only where they
// differ from it. Both undo the escapes of JSON, such as a log line with JSON in it has, compatibility forms such as
// fullwidth letters (NFKC), and what is ASCII but for its look: digits of other scripts, dashes, quotation marks. What nobody sees (zero-width spaces, soft hyphens, controls, colours of a terminal) is
// left out of the one, which joins what it parts, and ends a line in the other: a space would not part the digits of a
// card from others, since cards have spaces in them. There signs for a number or a word (`²`, `½`, `①`, `™`) do so too.

const INVISIBLE = '\\p{Default_Ignorable_Code_Point}\\p{Cf}\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f';
// Of a run of backslashes only the first is entered, so that a long run takes linear time.
const BACKSLASHES = '(?<!\\\\)\\\\+';
const SEQUENCE = `(?:(?:\\u001b|${BACKSLASHES}u001[bB])\\[|\\u009b)[0-?]{0,64}[ -/]{0,8}[@-~]`;
const BLANK = `${BACKSLASHES}[nrtbf]`;
const SLASH = `${BACKSLASHES}/`;
const CODE = `${BACKSLASHES}u(?<code>[0-9a-fA-F]{4})`;
const SPECIAL = `[^\\u0000-\\u007f]|[${INVISIBLE}]`;
const WRITTEN = new RegExp(`(?<sequence>${SEQUENCE})|(?<blank>${BLANK})|(?<slash>${SLASH})|${CODE}|${SPECIAL}`, 'gu');
const ALIKE = new Map(
  Object.entries({ '-': '‐‒–−', '"': '“”„‟«»', "'": '‘’‚‛' }).flatMap(([plain, others]) =>
    [...others].map((other) => [other, plain]),
  ),
);
const LOOKALIKE = `[${[...ALIKE.keys()].join('')}]|(?![0-9])\\p{Nd}`;
const LOOKALIKES = new RegExp(LOOKALIKE, 'gu');
const HIDDEN = new RegExp(`[${INVISIBLE}]|${LOOKALIKE}|${BLANK}|${SLASH}|${BACKSLASHES}u[0-9a-fA-F]{4}`, 'u');
const UNSEEN = new RegExp(`[${INVISIBLE}]`, 'gu');
const SIGN = /^[\p{No}\p{Nl}\p{So}\p{Lm}ªº]$/u;

/** A text without characters that nobody sees, and in plain forms of the others. */
export function plain(text) {
  return ascii(compatible(text).replace(UNSEEN, ''));
}

/** NFKC, in pieces: a long run of combining marks takes quadratic time. */
function compatible(text) {
  if (text.length <= 256) return text.normalize('NFKC');
  return text.replace(/[^]{1,256}/gu, (piece) => piece.normalize('NFKC'));
}

/** Digits of other scripts, dashes and quotation marks as ASCII has them. */
function ascii(text) {
  return text.replace(LOOKALIKES, (character) => ALIKE.get(character) ?? digit(character));
}

/** The digits of a script stand side by side, from 0 to 9. */
function digit(character) {
  const code = character.codePointAt(0);
  let zero = code;
  while (/\p{Nd}/u.test(String.fromCodePoint(zero - 1))) zero -= 1;
  return String((code - zero) % 10);
}

/**
 * What a text is searched as, the written text first: [{text, place}]. `place(start, end)` gives the {start, end} in
 * the written text that became the characters from `start` to `end`.
 */
export function forms(written) {
  const found = [{ text: written, place: (start, end) => ({ start, end }) }];
  if (!HIDDEN.test(written) && compatible(written) === written) return found;
  for (const said of FOLDS) {
    const form = fold(written, said);
    if (found.every(({ text }) => text !== form.text)) found.push(form);
  }
  return found;
}

function apart(character) {
  const said = character.normalize('NFKC');
  const sign = said.length > character.length || (said !== character && SIGN.test(character));
  return sign ? '\n' : ascii(said.replace(UNSEEN, '\n'));
}

/** What becomes of a character in each of the folds. */
export const FOLDS = [plain, apart];

/** One fold of a text; `said` says what becomes of a character. */
export function fold(text, said) {
  const known = new Map();
  const parts = [];
  const changes = [];
  let at = 0;
  let length = 0;
  for (const match of text.matchAll(WRITTEN)) {
    const { 0: written, index } = match;
    let folded = known.get(written);
    if (folded === undefined) known.set(written, (folded = foldedPiece(match, said)));
    if (folded === written) continue;
    parts.push(text.slice(at, index), folded);
    length += index - at;
    at = index + written.length;
    changes.push({ folded: length, after: length + folded.length, start: index, end: at });
    length += folded.length;
  }
  parts.push(text.slice(at));
  const place = (start, end) => ({ start: original(changes, start).start, end: original(changes, end - 1).end });
  return { text: parts.join(''), place };
}

function foldedPiece({ 0: written, groups }, said) {
  if (groups.blank) return written.endsWith('t') ? '\t' : '\n';
  if (groups.slash) return '/';
  if (groups.sequence) return said('\u001b');
  return said(groups.code ? String.fromCharCode(parseInt(groups.code, 16)) : written);
}

/** Where the folded character at `index` comes from. */
function original(changes, index) {
  let low = 0;
  let high = changes.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (changes[middle].folded <= index) low = middle + 1;
    else high = middle;
  }
  const change = changes[low - 1];
  if (!change) return { start: index, end: index + 1 };
  if (index < change.after) return change;
  const start = change.end + index - change.after;
  return { start, end: start + 1 };
}
