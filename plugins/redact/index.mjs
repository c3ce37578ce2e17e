// @ts-check
// Guard: takes secrets and personal data out of what goes to a server and of what comes back.
//
// Text is searched as it is. JSON is searched inside its strings, decoded, so that "\u0041" hides nothing; only the
// literals that held something are written anew, and every other byte stays. A string that is itself JSON is treated
// in the same way, to a depth of four. What was found is counted by kind; the values are in no metadata and no log.

import { decode, member, read, readContainer, splice } from './json.mjs';
import { GROUPS, KINDS, TRIGGER, custom, isCard, isSecretName } from './patterns.mjs';

const MAX_NESTED = 4;
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
  return { builtin, own, masks, secretNames: wanted.has('password'), cards: wanted.has('card') };
}

/** A text, which may be the text of a JSON object or array. */
function redactString(text, rules, counts, nested) {
  const node = nested < MAX_NESTED ? readContainer(text) : undefined;
  return node ? redactJson(text, node, rules, counts, nested + 1) : redactText(text, rules, counts);
}

/** A text that is no JSON. Runs until nothing is left: a mask may have uncovered what a longer word had hidden. */
function redactText(text, rules, counts) {
  let current = text;
  for (let pass = 0; pass < MAX_PASSES; pass += 1) {
    const places = find(current, rules);
    if (places.length === 0) break;
    for (const { kind } of places) counts[kind] = (counts[kind] ?? 0) + 1;
    current = splice(
      current,
      places.map(({ start, end, kind }) => ({ start, end, text: rules.masks[kind] })),
    );
  }
  return current;
}

function find(text, rules) {
  const finders = TRIGGER.test(text) ? [...rules.own, ...rules.builtin] : rules.own;
  const claims = [];
  finders.forEach(([kind, list], rank) => {
    for (const finder of list) for (const place of finder(text)) claims.push({ ...place, kind, rank });
  });
  return claims.length === 0 ? claims : merge(claims, masked(text, rules));
}

/** Where masks stand already, in order. */
function masked(text, rules) {
  const places = [];
  for (const mask of new Set(Object.values(rules.masks))) {
    if (mask === '') continue;
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
  else if (node.kind === 'array') for (const item of node.items) visit(walk, item, secret);
  else if (node.kind === 'object') visitObject(walk, node);
}

function visitObject(walk, node) {
  const named = walk.rules.secretNames && namesSecret(walk.text, node);
  const names = new Set();
  for (const { key, name, value } of node.members) {
    const known = nameFacts(walk, name);
    if (known.found) visitKey(walk, key, name, names);
    else names.add(name);
    if (isBinary(walk.text, node, name, value)) continue;
    visit(walk, value, walk.rules.secretNames && (known.secret || (named && name === 'value')));
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
  const name = member(node, 'name') ?? member(node, 'key');
  return name?.kind === 'string' && member(node, 'value') !== undefined && isSecretName(decode(text, name));
}

/** The base64 of an image, an audio clip or a blob holds no readable text, and must stay whole. */
function isBinary(text, node, name, value) {
  if ((name !== 'data' && name !== 'blob') || value.kind !== 'string' || !member(node, 'mimeType')) return false;
  const encoded = text.slice(value.start + 1, value.end - 1);
  return encoded.length >= 64 && encoded.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(encoded);
}

/** Names hold data too (`{"ann@example.com": 3}`); two that become alike are numbered, so that neither is lost. */
function visitKey(walk, key, name, names) {
  let redacted = redactText(name, walk.rules, walk.counts);
  const base = redacted;
  for (let i = 2; names.has(redacted); i += 1) redacted = `${base}#${i}`;
  names.add(redacted);
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
  if (walk.rules.cards && /^\d{14,19}(?:\.0+)?$/.test(literal) && isCard(literal.split('.')[0])) {
    return mask(walk, node, 'card');
  }
  for (const [kind, [finder]] of walk.rules.own) if (finder(literal).length > 0) return mask(walk, node, kind);
}

function mask(walk, node, kind) {
  walk.counts[kind] = (walk.counts[kind] ?? 0) + 1;
  replace(walk, node, walk.rules.masks[kind]);
}

function replace(walk, node, string) {
  walk.edits.push({ start: node.start, end: node.end, text: JSON.stringify(string) });
}
