// An estimate of tokens without a tokenizer, and cuts that follow it.
//
// Tokenizers differ by model; this leans to the high side of the common ones. A token is about: 4 ASCII letters or
// spaces; 3 digits; 2 ASCII signs or line ends; 2 letters of other alphabets (accents, Greek, Cyrillic, Arabic); 1
// character of Chinese, Japanese, Korean; half an emoji.

/** Token cost of one UTF-16 unit, in twelfths, so that sums stay whole. */
function cost(unit) {
  if (unit < 0x80) {
    const letter = (unit >= 97 && unit <= 122) || (unit >= 65 && unit <= 90) || unit === 32;
    if (letter) return 3;
    return unit >= 48 && unit <= 57 ? 4 : 6;
  }
  return unit < 0x2e80 ? 6 : 12;
}

/** About how many tokens the text has. */
export function tokens(text) {
  let sum = 0;
  for (let i = 0; i < text.length; i += 1) sum += cost(text.charCodeAt(i));
  return Math.ceil(sum / 12);
}

/** How many UTF-16 units of the text fit into `budget` tokens; never half of a pair of surrogates. */
export function fitting(text, budget) {
  let left = budget * 12;
  for (let i = 0; i < text.length; i += 1) {
    left -= cost(text.charCodeAt(i));
    if (left < 0) return isLow(text, i) ? i - 1 : i;
  }
  return text.length;
}

function isLow(text, i) {
  return i > 0 && (text.charCodeAt(i) & 0xfc00) === 0xdc00 && (text.charCodeAt(i - 1) & 0xfc00) === 0xd800;
}

const BOUNDARIES = [/\n[ \t]*\n/g, /\n/g, /[.!?](?=\s)|[。！？]/g, /\s/g];

/** The best place for a cut at or before `end`: a paragraph, a line, a sentence, a word; none of these, `end`. */
export function boundary(text, end) {
  const from = Math.floor(end * 0.75);
  const tail = text.slice(from, end);
  for (const expression of BOUNDARIES) {
    const last = [...tail.matchAll(expression)].at(-1);
    if (last) return from + last.index + (/\s/.test(last[0]) ? 0 : last[0].length);
  }
  return end;
}
