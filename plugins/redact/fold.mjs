// What a text says, apart from how it is written: the form that is searched.
//
// Characters that nobody sees (zero-width spaces, soft hyphens, controls) are left out, compatibility forms such as
// fullwidth letters become the plain ones (NFKC), and `\u0041` in text that is no JSON by itself, such as a log line
// with JSON in it, becomes its character. Each place in the folded text is known in the text that it was made of.

const INVISIBLE = '\\p{Default_Ignorable_Code_Point}\\p{Cf}\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f';
// Of a run of backslashes only the first is entered, so that a long run takes linear time.
const ESCAPED = '(?<!\\\\)\\\\+u[0-9a-fA-F]{4}';
const WRITTEN = new RegExp(`${ESCAPED}|[^\\u0000-\\u007f]|[${INVISIBLE}]`, 'gu');
const HIDDEN = new RegExp(`[${INVISIBLE}]|${ESCAPED}`, 'u');
const UNSEEN = new RegExp(`[${INVISIBLE}]`, 'gu');

/** A text without characters that nobody sees, and in plain forms of the others. */
export function plain(text) {
  return text.normalize('NFKC').replace(UNSEEN, '');
}

/**
 * The folded form of a text: {text, place}. `place(start, end)` gives the {start, end} in the original that became
 * the characters from `start` to `end`.
 */
export function fold(text) {
  if (!HIDDEN.test(text) && text.normalize('NFKC') === text) return { text, place: (start, end) => ({ start, end }) };
  const known = new Map();
  const parts = [];
  const changes = [];
  let at = 0;
  let length = 0;
  for (const { 0: written, index } of text.matchAll(WRITTEN)) {
    let said = known.get(written);
    if (said === undefined) known.set(written, (said = saidBy(written)));
    if (said === written) continue;
    parts.push(text.slice(at, index), said);
    length += index - at;
    at = index + written.length;
    changes.push({ folded: length, after: length + said.length, start: index, end: at });
    length += said.length;
  }
  parts.push(text.slice(at));
  const place = (start, end) => ({ start: original(changes, start).start, end: original(changes, end - 1).end });
  return { text: parts.join(''), place };
}

function saidBy(written) {
  return plain(written.startsWith('\\') ? String.fromCharCode(parseInt(written.slice(-4), 16)) : written);
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
