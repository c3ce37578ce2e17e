// @ts-check
// Transform of answers: drops named fields and empty values, cuts long arrays and strings, and says what it left out.
//
// A tool result is shaped inside and stays a valid one: text blocks that hold JSON, other text, structured content.
// Numbers, order and whatever is not touched keep their text. What was left out stands in the result itself: behind a
// cut string, in an added last text block of a result, as `_leftOut` in JSON that is the whole content.

import { decode, member, read, readContainer, splice } from './json.mjs';

/** @type {import('hawsepipe-plugin').Handler} */
export default async function shape({ rawContent, metadata }, ctx) {
  const done = (text, left) => ({ text, continue: true, metadata: left ? { leftOut: left } : null });
  if (metadata?.phase === 'request') return done(rawContent);
  const rules = rulesOf(ctx?.config ?? metadata?.config ?? {});
  const log = new Log();
  const text =
    metadata?.contentType === 'json' ? shapeResult(rawContent, rules, log) : shapeContent(rawContent, rules, log);
  return log.empty ? done(rawContent) : done(text, log.counts());
}

/** Run once in a new worker, so that the first call does not pay for it. */
export async function warmup() {
  const rawContent = JSON.stringify({ content: [{ type: 'text', text: '{"a": "some words", "b": [1, 2, 3]}' }] });
  const config = { drop: ['b'], dropEmpty: true, maxString: 4 };
  const call = /** @type {[any, any]} */ ([{ rawContent, metadata: { contentType: 'json', config } }, {}]);
  for (let i = 0; i < 20; i += 1) await shape(...call);
}

/** What was left out. Names at most 20 fields; the rest are counted. */
class Log {
  fields = new Map();
  empties = 0;
  items = 0;
  characters = 0;

  get empty() {
    return this.fields.size + this.empties + this.items + this.characters === 0;
  }

  field(name) {
    const known = this.fields.has(name) || this.fields.size < 20;
    const entry = known ? name.slice(0, 64) : '(others)';
    this.fields.set(entry, (this.fields.get(entry) ?? 0) + 1);
  }

  counts() {
    const { empties, items, characters } = this;
    return { fields: Object.fromEntries(this.fields), empties, items, characters };
  }

  sentence() {
    const names = [...this.fields].map(([name, count]) => (count === 1 ? name : `${name} (${count} times)`));
    const parts = [];
    if (names.length > 0) parts.push(`fields ${names.join(', ')}`);
    if (this.empties > 0) parts.push(`${this.empties} empty values`);
    if (this.items > 0) parts.push(`${this.items} items of long lists`);
    if (this.characters > 0) parts.push(`${this.characters} characters of long strings`);
    return `Left out: ${parts.join('; ')}.`;
  }
}

/**
 * `drop` and `keep` hold names and paths. A name without a dot stands for that field wherever it is. A path
 * (`issue.user.url`) starts at the root of the JSON; lists are passed through; `*` is any one field.
 */
function rulesOf({ drop = [], keep = [], dropEmpty = false, maxItems = Infinity, maxString = Infinity, note = true }) {
  return { drop: select(drop), keep: keep.length > 0 ? select(keep) : undefined, dropEmpty, maxItems, maxString, note };
}

function select(entries) {
  const names = new Set(entries.filter((entry) => !entry.includes('.') && entry !== '*'));
  const paths = entries.filter((entry) => entry.includes('.') || entry === '*').map((entry) => entry.split('.'));
  return { names, paths };
}

function selects({ names, paths }, path) {
  if (names.has(path.at(-1))) return true;
  return paths.some((p) => p.length === path.length && p.every((word, i) => word === '*' || word === path[i]));
}

/** Content that is the whole of it: the text of an only block. */
function shapeContent(text, rules, log) {
  const root = readContainer(text);
  if (!root) return cutString(text, rules, log);
  const shaped = shapeNode({ text, rules, log }, root, [], !rules.keep);
  return rules.note && !log.empty ? annotate(shaped, log.sentence()) : shaped;
}

/** Says inside of JSON what it lacks: a member of an object, a last item of an array. */
function annotate(json, sentence) {
  const root = read(json);
  const said = JSON.stringify(sentence);
  const addition = root.kind === 'object' ? `"_leftOut":${said}` : said;
  const some = (root.members ?? root.items).length > 0;
  return splice(json, [{ start: root.end - 1, end: root.end - 1, text: some ? `,${addition}` : addition }]);
}

/** A tool result; what is no tool result (an error) stays as it is. */
function shapeResult(text, rules, log) {
  const root = read(text);
  const content = member(root, 'content');
  const structured = member(root, 'structuredContent');
  const edits = [];
  if (structured?.kind === 'object') {
    edits.push({ ...structured, text: shapeNode({ text, rules, log }, structured, [], !rules.keep) });
  }
  if (content?.kind !== 'array')
    return splice(
      text,
      edits.map(({ start, end, text: t }) => ({ start, end, text: t })),
    );
  for (const block of content.items) {
    const place = textOf(text, block);
    if (!place) continue;
    const before = decode(text, place);
    const after = shapeText(before, rules, log);
    if (after !== before) edits.push({ start: place.start, end: place.end, text: JSON.stringify(after) });
  }
  if (rules.note && !log.empty) edits.push(noteBlock(content, log));
  return splice(text, edits);
}

/** The string node that holds a block's text: of a text block, or of an embedded resource. */
function textOf(text, block) {
  const type = member(block, 'type');
  if (type?.kind !== 'string') return undefined;
  const kind = decode(text, type);
  const holder = kind === 'text' ? block : kind === 'resource' ? member(block, 'resource') : undefined;
  const node = holder && member(holder, 'text');
  return node?.kind === 'string' ? node : undefined;
}

function shapeText(text, rules, log) {
  const root = readContainer(text);
  return root ? shapeNode({ text, rules, log }, root, [], !rules.keep) : cutString(text, rules, log);
}

function noteBlock(content, log) {
  const block = JSON.stringify({ type: 'text', text: log.sentence() });
  const at = content.end - 1;
  return { start: at, end: at, text: content.items.length > 0 ? `,${block}` : block };
}

/** The text of a node, shaped. `path` holds the names above it; `kept`: whether a `keep` entry covers it. */
function shapeNode(walk, node, path, kept) {
  const { text, rules, log } = walk;
  if (node.kind === 'object') return shapeObject(walk, node, path, kept);
  if (node.kind === 'array') return shapeArray(walk, node, path, kept);
  const raw = text.slice(node.start, node.end);
  if (node.kind !== 'string' || raw.length - 2 <= rules.maxString) return raw;
  const before = decode(text, node);
  const after = cutString(before, rules, log);
  return after === before ? raw : JSON.stringify(after);
}

function shapeObject(walk, node, path, kept) {
  const { text, rules, log } = walk;
  const parts = [];
  let changed = false;
  for (const { key, name, value } of node.members) {
    const here = [...path, name];
    const inside = kept || (rules.keep !== undefined && selects(rules.keep, here));
    const wanted = !selects(rules.drop, here) && (inside || holdsKept(rules, value, here));
    if (!wanted) {
      changed = true;
      log.field(name);
      continue;
    }
    const before = text.slice(value.start, value.end);
    const after = shapeNode(walk, value, here, inside);
    if (rules.dropEmpty && isEmpty(after)) {
      changed = true;
      log.empties += 1;
      continue;
    }
    changed ||= after !== before;
    parts.push(`${text.slice(key.start, value.start)}${after}`);
  }
  return changed ? `{${parts.join(',')}}` : text.slice(node.start, node.end);
}

function shapeArray(walk, node, path, kept) {
  const { text, rules, log } = walk;
  const cut = Math.max(0, node.items.length - rules.maxItems);
  let changed = cut > 0;
  log.items += cut;
  const parts = node.items.slice(0, node.items.length - cut).map((item) => {
    const after = shapeNode(walk, item, path, kept);
    changed ||= after !== text.slice(item.start, item.end);
    return after;
  });
  return changed ? `[${parts.join(',')}]` : text.slice(node.start, node.end);
}

/** Whether something below the node is kept. */
function holdsKept(rules, node, path) {
  if (node.kind === 'array') return node.items.some((item) => holdsKept(rules, item, path));
  if (node.kind !== 'object') return false;
  return node.members.some(({ name, value }) => {
    const here = [...path, name];
    return selects(rules.keep, here) || holdsKept(rules, value, here);
  });
}

function isEmpty(json) {
  return json === 'null' || json === '""' || /^(?:\[\s*\]|\{\s*\})$/.test(json);
}

/** Cuts at `maxString` UTF-16 units, never inside a pair of surrogates. */
function cutString(string, rules, log) {
  if (string.length <= rules.maxString) return string;
  const pair = /[\ud800-\udbff]/.test(string[rules.maxString - 1] ?? '');
  const kept = string.slice(0, rules.maxString - (pair ? 1 : 0));
  const left = string.length - kept.length;
  const mark = rules.note ? `… [${left} more characters]` : '…';
  if (mark.length >= left) return string;
  log.characters += left;
  return kept + mark;
}
