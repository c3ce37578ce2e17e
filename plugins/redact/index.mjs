// @ts-check
// Guard: takes secrets and personal data out of what goes to a server and of what comes back.
//
// Text is searched as it is written, and in the forms that fold.mjs makes of it. JSON is searched inside its strings,
// decoded, so that "\u0041" hides nothing; only the literals that held something are written anew, and every other byte
// stays. A string that is itself JSON is treated in the same way, to a depth of eight. What cannot be searched to
// its end throws, so that the gateway withholds it. What was found is counted by kind; the values are in no metadata
// and no log.

import { forms } from './fold.mjs';
import { decode, read, splice } from './json.mjs';
import { isNameWord, isSecretName, isValueWord } from './names.mjs';
import { GROUPS, KINDS, TRIGGER, custom, isCardNumber } from './patterns.mjs';

const MAX_NESTED = 8;
const MAX_PASSES = 5;
const DEFAULT_MASK = '[redacted:{kind}]';

/** @type {import('hawsepipe-plugin').Handler} */
export default async function redact({ rawContent, metadata }, ctx) {
  const rules = rulesOf(ctx?.config ?? metadata?.config ?? {});
  /** @type {Record<string, number>} */
  const counts = {};
  const text =
    metadata?.contentType === 'json'
      ? redactJson(rawContent, read(rawContent), rules, counts, 0)
      : redactString(rawContent, rules, counts, 0);
  return { text, continue: true, metadata: { redacted: counts } };
}

/** Run once in a new worker, so that the first call does not pay for compiling the expressions. */
export async function warmup() {
  const rawContent = JSON.stringify({ content: [{ type: 'text', text: 'ann@example.com, password: example-1' }] });
  const call = /** @type {[any, any]} */ ([{ rawContent, metadata: { contentType: 'json' } }, {}]);
  for (let i = 0; i < 20; i += 1) await redact(...call);
}

const cache = new Map();

/** The rules that a configuration asks for. Few configurations are in use at a time, so they are kept. */
function rulesOf(config) {
  const key = JSON.stringify(config);
  let rules = cache.get(key);
  if (!rules) {
    if (cache.size >= 16) cache.clear();
    rules = compile(config);
    cache.set(key, rules);
  }
  return rules;
}

function compile({ kinds = ['secrets', 'personal'], patterns = [], mask = DEFAULT_MASK }) {
  if (typeof mask !== 'string') throw new Error('config.mask: a string is expected');
  const wanted = new Set(kinds.flatMap((name) => GROUPS[name] ?? [name]));
  for (const name of wanted) {
    if (!KINDS[name]) throw new Error(`config.kinds: no kind \`${name}\`; there are ${Object.keys(KINDS).join(', ')}`);
  }
  const builtin = Object.entries(KINDS).filter(([name]) => wanted.has(name));
  const own = patterns.map((entry) => [entry.kind ?? 'pattern', [custom(entry)]]);
  const finders = [...own, ...builtin];
  const masks = Object.fromEntries(
    [...finders.map(([kind]) => kind), 'password', 'card'].map((kind) => [kind, mask.replaceAll('{kind}', kind)]),
  );
  const shields = [...new Set(Object.values(masks))].filter((text) => text !== '');
  return { builtin, own, masks, shields, secretNames: wanted.has('password'), cards: wanted.has('card') };
}

/** A text, which may be the text of a JSON object, array or string, as files have it after a byte order mark too. */
function redactString(text, rules, counts, nested) {
  const mark = text.startsWith('\ufeff') ? '\ufeff' : '';
  const json = text.slice(mark.length);
  const node = embedded(json);
  if (!node) return redactText(text, rules, counts);
  if (nested >= MAX_NESTED) throw new RangeError(`JSON within strings of JSON is nested deeper than ${MAX_NESTED}`);
  return mark + redactJson(json, node, rules, counts, nested + 1);
}

/** The tree of a text that is JSON; of a lone number or word there is nothing to be read. */
function embedded(text) {
  if (!/^[ \t\n\r]*[{["]/.test(text)) return undefined;
  try {
    return read(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** A text that is no JSON. Runs until nothing is left: a mask may have uncovered what a longer word had hidden. */
function redactText(text, rules, counts) {
  let current = text;
  for (let pass = 0; pass < MAX_PASSES; pass += 1) {
    const places = find(current, rules);
    if (places.length === 0) return current;
    for (const { kind } of places) counts[kind] = (counts[kind] ?? 0) + 1;
    current = splice(
      current,
      places.map(({ start, end, kind }) => ({ start, end, text: rules.masks[kind] })),
    );
  }
  if (find(current, rules).length > 0) throw new RangeError(`something is left after ${MAX_PASSES} passes`);
  return current;
}

/** What is to be masked in a text: what is found in any of its forms, by its places as they are written. */
function find(written, rules) {
  const claims = [];
  for (const { text, place } of forms(written)) {
    const finders = TRIGGER.test(text) ? [...rules.own, ...rules.builtin] : rules.own;
    finders.forEach(([kind, list], rank) => {
      for (const finder of list) {
        for (const { start, end } of finder(text)) claims.push({ ...place(start, end), kind, rank });
      }
    });
  }
  return claims.length === 0 ? claims : merge(claims, masked(written, rules));
}

/** Where masks stand already, in order. */
function masked(text, rules) {
  const places = [];
  for (const mask of rules.shields) {
    for (let at = text.indexOf(mask); at >= 0; at = text.indexOf(mask, at + mask.length)) {
      places.push({ start: at, end: at + mask.length });
    }
  }
  return places.sort((a, b) => a.start - b.start);
}

/**
 * Joins claims that overlap to one place, named after the kind that comes first. A claim inside a mask was dealt with;
 * one that reaches beyond a mask takes the whole mask in.
 */
function merge(claims, masks) {
  let next = 0;
  claims.sort((a, b) => a.start - b.start || a.rank - b.rank);
  const places = [];
  for (const claim of claims) {
    while (next < masks.length && masks[next].end <= claim.start) next += 1;
    let place = { ...claim };
    for (let i = next; i < masks.length && masks[i].start < claim.end; i += 1) {
      if (masks[i].start <= claim.start && claim.end <= masks[i].end) place = undefined;
      else if (place)
        Object.assign(place, { start: Math.min(place.start, masks[i].start), end: Math.max(place.end, masks[i].end) });
    }
    if (place) join(places, place);
  }
  return places;
}

function join(places, place) {
  const last = places.at(-1);
  if (!last || place.start >= last.end) {
    places.push(place);
    return;
  }
  last.end = Math.max(last.end, place.end);
  if (place.rank < last.rank) Object.assign(last, { kind: place.kind, rank: place.rank });
}

/** A JSON text, with its tree. */
function redactJson(text, root, rules, counts, nested) {
  const walk = { text, rules, counts, nested, edits: [], names: new Map() };
  visit(walk, root, false);
  return walk.edits.length === 0 ? text : splice(text, walk.edits);
}

function visit(walk, node, secret) {
  if (node.kind === 'string') visitString(walk, node, secret);
  else if (node.kind === 'number') visitNumber(walk, node, secret);
  else if (node.kind === 'array') visitArray(walk, node, secret);
  else if (node.kind === 'object') visitObject(walk, node, secret);
}

function visitArray(walk, node, secret) {
  for (const item of node.items) {
    if (walk.rules.secretNames && isSecretPair(walk, item)) {
      visit(walk, item.items[0], secret);
      visit(walk, item.items[1], true);
    } else {
      visit(walk, item, secret);
    }
  }
}

/** `["password", "x"]` in a list of such pairs. By itself it may as well be a list of two words. */
function isSecretPair(walk, node) {
  return (
    node.items?.length === 2 && node.items[0].kind === 'string' && isSecretName(decode(walk.text, node.items[0]))
  );
}

/** Of an object below a secret name only what it calls its value is secret: it may as well be a schema. */
function visitObject(walk, node, secret) {
  const named = walk.rules.secretNames && (secret || namesSecret(walk.text, node));
  const names = new Map();
  const typed = node.members.some(({ name }) => name === 'mimeType');
  for (const { key, name, value } of node.members) {
    const known = nameFacts(walk, name);
    if (known.found) visitKey(walk, key, name, names);
    else if (!names.has(name)) names.set(name, 1);
    if (typed && isBinary(walk.text, name, value)) continue;
    visit(walk, value, walk.rules.secretNames && (known.secret || (named && isValueWord(name))));
  }
}

/** What a member's name says. The same few names come again and again in one document. */
function nameFacts(walk, name) {
  let facts = walk.names.get(name);
  if (!facts) {
    facts = { secret: isSecretName(name), found: find(name, walk.rules).length > 0 };
    walk.names.set(name, facts);
  }
  return facts;
}

/** {"name": "DB_PASSWORD", "value": "..."}: the form that lists of variables and headers have. */
function namesSecret(text, node) {
  return node.members.some(
    ({ name, value }) => value.kind === 'string' && isNameWord(name) && isSecretName(decode(text, value)),
  );
}

/** The base64 of an image, an audio clip or a blob, beside its `mimeType`, holds no readable text, and must stay whole. */
function isBinary(text, name, value) {
  if ((name !== 'data' && name !== 'blob') || value.kind !== 'string') return false;
  const encoded = text.slice(value.start + 1, value.end - 1);
  return encoded.length >= 64 && encoded.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(encoded);
}

/**
 * Names hold data too (`{"ann@example.com": 3}`); two that become alike are numbered, so that neither is lost. `names`
 * has the last number of each name.
 */
function visitKey(walk, key, name, names) {
  const base = redactText(name, walk.rules, walk.counts);
  let redacted = base;
  if (names.has(base)) {
    let number = names.get(base);
    do redacted = `${base}#${(number += 1)}`;
    while (names.has(redacted));
    names.set(base, number);
  }
  names.set(redacted, names.get(redacted) ?? 1);
  replace(walk, key, redacted);
}

function visitString(walk, node, secret) {
  const { rules, counts } = walk;
  const before = decode(walk.text, node);
  if (secret && before !== '') {
    if (before === rules.masks.password) return;
    return mask(walk, node, 'password');
  }
  const after = redactString(before, rules, counts, walk.nested);
  if (after !== before) replace(walk, node, after);
}

function visitNumber(walk, node, secret) {
  const literal = walk.text.slice(node.start, node.end);
  if (secret) return mask(walk, node, 'password');
  if (walk.rules.cards && isCardNumber(literal)) return mask(walk, node, 'card');
  for (const [kind, [finder]] of walk.rules.own) if (finder(literal).length > 0) return mask(walk, node, kind);
}

function mask(walk, node, kind) {
  walk.counts[kind] = (walk.counts[kind] ?? 0) + 1;
  replace(walk, node, walk.rules.masks[kind]);
}

function replace(walk, node, string) {
  walk.edits.push({ start: node.start, end: node.end, text: JSON.stringify(string) });
}
