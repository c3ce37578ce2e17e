// What redact looks for. Each finder takes a text and gives the places of what it found: [{start, end}].
// Every expression here runs in linear time: repetitions are bounded, or succeed as soon as they are long enough, and
// a run of like characters is entered at its start only. Nothing here may backtrack over unbounded text.

/**
 * Finds every match of the expression that `accept` takes; of a match with a group named `secret`, that group's place.
 * A text without the word `needs` is not searched: most texts are short and hold nothing.
 */
function matches(expression, { needs = '', accept = () => true } = {}) {
  return (text) => {
    const found = [];
    if (!text.includes(needs)) return found;
    expression.lastIndex = 0;
    for (let match; (match = expression.exec(text));) {
      if (match[0] === '') {
        expression.lastIndex += 1;
        continue;
      }
      const [start, end] = match.indices?.groups?.secret ?? [match.index, match.index + match[0].length];
      if (accept(text.slice(start, end), text, start)) found.push({ start, end });
    }
    return found;
  };
}

// Prefixes that vendors put on their keys so that they can be found.
const API_KEYS = [
  'sk-[A-Za-z0-9_-]{16,}', // Anthropic (sk-ant-), OpenAI (sk-, sk-proj-), and those who follow them
  'gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}',
  'gl(?:pat|ptt|dt|rt|cbt|soat|ft|imt|agent|oas)-[A-Za-z0-9_-]{16,}',
  'xox[abceoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}',
  'hooks\\.slack\\.com/services/[A-Za-z0-9/_-]{16,}',
  '(?:A3T[A-Z0-9]|AKIA|ASIA|AGPA|AIDA|AROA|ANPA|ANVA|ABIA|ACCA)[0-9A-Z]{16}(?![0-9A-Z])',
  'AIza[0-9A-Za-z_-]{35}|ya29\\.[0-9A-Za-z_-]{20,}|GOCSPX-[0-9A-Za-z_-]{20,}',
  '[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{16,}',
  'npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{32,}|hf_[A-Za-z0-9]{30,}',
  'SG\\.[A-Za-z0-9_-]{16,64}\\.[A-Za-z0-9_-]{16,}',
  'dop_v1_[a-f0-9]{32,}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|dapi[a-f0-9]{32}|lin_api_[A-Za-z0-9]{32,}',
  'hv[sb]\\.[A-Za-z0-9_-]{20,}|AGE-SECRET-KEY-1[0-9A-Z]{50,}|xai-[A-Za-z0-9]{32,}|gsk_[A-Za-z0-9]{32,}',
];

const apiKeys = matches(new RegExp(`(?<![A-Za-z0-9])(?:${API_KEYS.join('|')})`, 'g'));
const jwts = matches(/(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*/g, { needs: 'eyJ' });
// In prose a word with no digit is a word (`token authentication`); in this header it is a secret.
const IN_HEADER = /authorization\W{1,8}\w+[ \t]{1,4}$/i;
const bearers = matches(/(?<![A-Za-z0-9])(?:bearer|basic|token)[ \t]{1,4}(?<secret>[A-Za-z0-9._~+/=-]{12,})/dgi, {
  accept: (secret, text, start) => /\d/.test(secret) || IN_HEADER.test(text.slice(Math.max(0, start - 48), start)),
});

const HEAD = /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----/g;
const TAIL = /-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----/g;
// Header lines, such as `Proc-Type: 4,ENCRYPTED`, and base64.
const KEY_BODY = /(?:\s{0,4}[A-Z][A-Za-z-]{1,20}: [^\n]{0,200}(?=\n|$)){0,8}[A-Za-z0-9+/=\s\\]*/y;

/** Private key blocks; one whose end is cut off counts as far as its body goes. */
function privateKeys(text) {
  const found = [];
  if (!text.includes('-----BEGIN')) return found;
  let tails = true;
  HEAD.lastIndex = 0;
  for (let head; (head = HEAD.exec(text));) {
    let end;
    TAIL.lastIndex = HEAD.lastIndex;
    tails = tails && TAIL.test(text);
    if (tails) {
      end = TAIL.lastIndex;
    } else {
      KEY_BODY.lastIndex = HEAD.lastIndex;
      KEY_BODY.test(text);
      end = KEY_BODY.lastIndex;
    }
    found.push({ start: head.index, end });
    HEAD.lastIndex = end;
  }
  return found;
}

// `password: x`, `DB_PASSWORD="x"`, `"client_secret": "x"`, `apiKey=x` in plain text.
const NAMES = [
  'pass(?:word|wd|phrase|code)',
  '(?<=[a-z0-9]_)pass',
  '(?<![a-z])pwd',
  'secret(?:[_-]?(?:access[_-]?)?key(?:[_-]?base)?)?',
  'api[_-]?key',
  'access[_-]?key(?![_-]?id)',
  'private[_-]?key',
  '(?<![a-z]|page[_-]|max[_-])token',
  '(?:access|auth|refresh|bearer|session|id)[_-]?token',
  'credentials?',
].join('|');
// In quotes, to the closing one or the end of the line; in JSON that was quoted (`\"password\":\"x\"`) the quotes have
// backslashes before them. A value without quotes has brackets only between its other characters: `f(password=x)` ends
// before the bracket. References such as `${DB_PASSWORD}` and `$(cat file)` are no secrets. Curly quotes are quotes in a
// fold, and also a part of the value that stands between blanks: they may be doubled, or stand within a secret.
const ENDS = '\\s"\',;&|<>(){}[\\]';
const CURLY = '“”„‟«»‘’‚‛';
const WITHIN = `(?:[^${ENDS}]|[(){}[\\]](?=[^${ENDS}]))`;
const VALUE = [
  '"(?<dq>(?:[^"\\\\\\n]|\\\\[^\\n])+)',
  "'(?<sq>(?:[^'\\\\\\n]|\\\\[^\\n])+)",
  '(?<quote>\\\\+["\'])(?!\\k<quote>)(?<quoted>[^\\n]+?)(?=(?<!\\\\)\\k<quote>|\\n|$)',
  `(?<bare>(?![$%][({]|[${CURLY}])[^${ENDS}]${WITHIN}{3,})`,
].join('|');
const ASSIGNS = `(?:${NAMES})(?:\\\\*["'])?[ \\t]{0,32}[:=]>?[ \\t]{0,32}`;
const ASSIGNED = new RegExp(`${ASSIGNS}(?:${VALUE})`, 'dgi');
const NO_SECRET = /^(?:true|false|null|none|nil|undefined|required|optional|string|str|bearer|basic|\*+)$/i;

// A value that ends with a name: what follows may be the value of that.
const ENDS_WITH_NAME = new RegExp(`(?:${NAMES})(?:\\\\*["'])?[ \\t]{0,32}[:=]?>?[ \\t]{0,32}\\\\*$`, 'i');
const LONGEST_END = 128;

function values(expression, text) {
  const found = [];
  if (!/[:=]/.test(text)) return found;
  expression.lastIndex = 0;
  for (let match; (match = expression.exec(text));) {
    const { dq, sq, quoted, bare } = match.indices.groups;
    const [start, end] = dq ?? sq ?? quoted ?? bare;
    if (!NO_SECRET.test(text.slice(start, end))) found.push({ start, end });
    const from = Math.max(start, end - LONGEST_END);
    const name = ENDS_WITH_NAME.exec(text.slice(from, end));
    if (name) expression.lastIndex = from + name.index;
  }
  return found;
}

// A value that begins with curly quotes, without those around it, as it is found in a fold.
const AFTER_CURLY = new RegExp(
  `${ASSIGNS}(?=[^${ENDS}]{4})[${CURLY}]+(?<bare>${WITHIN}*[^${ENDS}${CURLY}])`,
  'dgi',
);
const HAS_CURLY = new RegExp(`[${CURLY}]`);

const assigned = (text) => values(ASSIGNED, text);
const assignedAfterCurly = (text) => (HAS_CURLY.test(text) ? values(AFTER_CURLY, text) : []);

const userinfo = matches(/:\/\/[^\s/?#:@]{0,128}:(?<secret>[^\s/?#@]{1,256})@/dg, { needs: '://' });

// `user:password@host` in an address ends like an e-mail address, and is none.
const emails = matches(
  /(?<![\p{L}\p{M}\p{N}._%+-])[\p{L}\p{M}\p{N}._%+-]{1,64}@(?:[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}-]{0,61}[\p{L}\p{M}\p{N}])?\.){1,8}\p{L}{2,24}/gu,
  {
    needs: '@',
    accept: (_, text, start) =>
      text[start - 1] !== ':' || !/:\/\/[^\s/?#:@]*:$/.test(text.slice(Math.max(0, start - 140), start)),
  },
);

// With a country code, or in the North American form; other national forms cannot be told from other numbers.
const phones = matches(
  /(?<![\w+])\+(?:[ ()./\u00a0-]{0,2}\d){8,15}(?!\d)|(?<![\w.+-])(?:1[ .-])?(?:\(\d{3}\)[ -]?|\d{3}[-.])\d{3}[-.]\d{4}(?![\w-])/g,
);

const ssns = matches(/(?<![\w-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])/g, { needs: '-' });

// A number may begin here: not within another one, nor in the fraction of a decimal one.
const CARD_HEAD = /(?<!\d|\d\.)\d{4}/g;
// One run of digits, or the groups that cards are printed in, the longest first. Other groups may stand before and after
// a number (`4111 1111 1111 1111 123`, `... 12/27`), so every form that fits is tried at every group.
const CARD_FORMS = [
  /\d{14,19}(?!\d)/y,
  ...[[4, 4, 4, 3], [4, 4, 4, 2], [4, 4, 4, 1], [4, 4, 4], [6, 5], [6, 4], [4, 4, 3], [4, 4, 2]].map(
    ([first, ...more]) =>
      new RegExp(`\\d{4}([ \\u00a0-])\\d{${first}}${more.map((n) => `\\1\\d{${n}}`).join('')}(?!\\d)`, 'y'),
  ),
];
// Visa; Mastercard; American Express; Discover; JCB; Diners; UnionPay: first digits and lengths.
const ISSUERS = new RegExp(
  `^(?:${[
    '4(?:\\d{15}|\\d{18})',
    '5[1-5]\\d{14}|2(?:22[1-9]|2[3-9]\\d|[3-6]\\d\\d|7[01]\\d|720)\\d{12}',
    '3[47]\\d{13}',
    '6(?:011|4[4-9]\\d|5\\d\\d)\\d{12,15}',
    '35(?:2[89]|[3-8]\\d)\\d{12,15}',
    '3(?:0[0-5]|[689]\\d)\\d{11}',
    '62\\d{14,17}',
  ].join('|')})$`,
);

/** Whether the digits are those of a payment card: an issuer's range, its length, and the check digit (Luhn). */
function isCard(text) {
  const digits = text.replace(/\D/g, '');
  if (!ISSUERS.test(digits)) return false;
  let sum = 0;
  for (let i = 0; i < digits.length; i += 1) {
    const digit = Number(digits[digits.length - 1 - i]) * (i % 2 === 1 ? 2 : 1);
    sum += digit > 9 ? digit - 9 : digit;
  }
  return sum % 10 === 0;
}

/** Cards, whatever groups of digits stand beside them. */
function cards(text) {
  const found = [];
  CARD_HEAD.lastIndex = 0;
  for (let head; (head = CARD_HEAD.exec(text));) {
    const end = cardEnd(text, head.index);
    if (!end) continue;
    found.push({ start: head.index, end });
    // On from the next group: what was found may be another number's digits and the first of a card.
  }
  return found;
}

function cardEnd(text, start) {
  for (const form of CARD_FORMS) {
    form.lastIndex = start;
    const [digits] = form.exec(text) ?? [];
    if (digits && isCard(digits)) return start + digits.length;
  }
  return undefined;
}

/** Whether a JSON number is that of a card, in whichever way it is written: `4111111111111111.0`, `4.1...e15`. */
export function isCardNumber(literal) {
  const [, whole, fraction = '', exponent = '0'] = /^(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(literal) ?? [];
  const length = (whole?.length ?? 0) + Number(exponent);
  if (length < 14 || length > 19) return false;
  const digits = (whole + fraction).padEnd(length, '0');
  return /^0*$/.test(digits.slice(length)) && isCard(digits.slice(0, length));
}

// Lengths by country, from the SWIFT IBAN registry.
const IBAN_LENGTHS = Object.fromEntries(
  `AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 ES24
   FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21
   LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22
   RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30`
    .split(/\s+/)
    .map((entry) => [entry.slice(0, 2), Number(entry.slice(2))]),
);
const IBAN_HEAD = /(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}/g;

/** IBANs, grouped or not, of a known country, with its length and a right check number (ISO 13616, mod 97). */
function ibans(text) {
  const found = [];
  IBAN_HEAD.lastIndex = 0;
  for (let head; (head = IBAN_HEAD.exec(text));) {
    const length = IBAN_LENGTHS[head[0].slice(0, 2).toUpperCase()];
    const end = length && ibanEnd(text, head.index, length);
    if (!end) continue;
    found.push({ start: head.index, end });
    IBAN_HEAD.lastIndex = end;
  }
  return found;
}

function ibanEnd(text, start, length) {
  let compact = '';
  let at = start;
  while (compact.length < length) {
    if (at > start && /[ \u00a0-]/.test(text[at] ?? '')) at += 1;
    if (!/[A-Za-z0-9]/.test(text[at] ?? '')) return undefined;
    compact += text[at].toUpperCase();
    at += 1;
  }
  if (/[A-Za-z0-9]/.test(text[at] ?? '')) return undefined;
  let remainder = 0;
  for (const character of compact.slice(4) + compact.slice(0, 4)) {
    for (const digit of String(parseInt(character, 36))) remainder = (remainder * 10 + Number(digit)) % 97;
  }
  return remainder === 1 ? at : undefined;
}

/** Kinds by name; a place that two kinds claim belongs to the first of them. */
export const KINDS = {
  privateKey: [privateKeys],
  apiKey: [apiKeys],
  jwt: [jwts],
  bearer: [bearers],
  password: [userinfo, assigned, assignedAfterCurly],
  email: [emails],
  iban: [ibans],
  card: [cards],
  ssn: [ssns],
  phone: [phones],
};

/** Names for several kinds. */
export const GROUPS = {
  secrets: ['privateKey', 'apiKey', 'jwt', 'bearer', 'password'],
  personal: ['email', 'iban', 'card', 'ssn', 'phone'],
};

/** A text without any of these holds nothing that a kind could find. */
export const TRIGGER = /[0-9@:=_-]|bearer|basic|token|AIza|eyJ|hooks/i;

/** A finder for an expression that the configuration gives: a string, or {pattern, flags}. */
export function custom(entry) {
  const { pattern, flags = '' } = typeof entry === 'string' ? { pattern: entry } : entry;
  const insensitive = pattern.startsWith('(?i)');
  const kept = flags.replace(/[gyd]/g, '') + (insensitive && !flags.includes('i') ? 'i' : '');
  return matches(new RegExp(insensitive ? pattern.slice(4) : pattern, `${kept}gd`));
}
