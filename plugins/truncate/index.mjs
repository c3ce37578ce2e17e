// @ts-check
// Transform of answers: cuts what is longer than `maxTokens`, and says how much is left out. Without `maxTokens` it
// does nothing. tokens.mjs says how tokens are estimated.
//
// JSON stays JSON: it is cut in the order of the document, and closed. A tool result stays a valid one. Its text blocks
// share `maxTokens`; structured content, which a client shows in place of the text, has as many for itself, and keeps
// its fields, with strings and lists cut, as long as that is enough.

import { decode, member, read, readContainer } from './json.mjs';
import { boundary, fitting, tokens } from './tokens.mjs';

/** What a note of what is left out costs; a text with less room gets none. */
const NOTE = 16;

/** @type {import('hawsepipe-plugin').Handler} */
export default async function truncate({ rawContent, maxTokens, metadata }) {
  if (!maxTokens || metadata?.phase === 'request') return { text: rawContent, continue: true, metadata: null };
  const whole = tokens(rawContent);
  const result = metadata?.contentType === 'json';
  const text = result ? cutResult(rawContent, maxTokens) : cutContent(rawContent, maxTokens);
  if (text === rawContent) return { text, continue: true, metadata: null };
  return { text, continue: true, metadata: { truncated: { maxTokens, before: whole, after: tokens(text) } } };
}

/** Run once in a new worker, so that the first call does not pay for it. */
export async function warmup() {
  const rawContent = JSON.stringify({ content: [{ type: 'text', text: '{"a": "some words", "b": [1, 2, 3]}' }] });
  const call = /** @type {[any, any]} */ ([{ rawContent, maxTokens: 8, metadata: { contentType: 'json' } }, {}]);
  for (let i = 0; i < 20; i += 1) await truncate(...call);
}

function note(count) {
  return `[… about ${count} tokens left out]`;
}

/** A text, which may be JSON, with at most `budget` tokens. */
function cutContent(text, budget) {
  const count = tokens(text);
  if (count <= budget) return text;
  const root = readContainer(text);
  return root ? cutJson(text, root, budget, count) : cutText(text, budget, count);
}

function cutText(text, budget, count) {
  if (budget <= NOTE) return `${text.slice(0, fitting(text, budget - 1))}…`;
  const kept = text.slice(0, boundary(text, fitting(text, budget - NOTE))).trimEnd();
  return `${kept}\n${note(count - tokens(kept))}`;
}

function cutJson(text, root, budget, count) {
  const fit = new Fit(text, budget - NOTE - 6, false);
  const kept = fit.container(root);
  const said = JSON.stringify(note(Math.max(1, count - tokens(kept))));
  const open = kept.slice(0, -1);
  const comma = open.length > 1 ? ',' : '';
  return root.kind === 'object' ? `${open}${comma}"_leftOut":${said}}` : `${open}${comma}${said}]`;
}

/** Writes as much of a tree as its budget allows, in document order; from the first value that does not fit, no more. */
class Fit {
  /** With `fields`, objects keep all their members: strings and lists behind the cut are empty. */
  constructor(text, budget, fields) {
    this.text = text;
    this.left = budget;
    this.fields = fields;
    this.full = budget <= 0;
  }

  value(node) {
    if (node.kind === 'object' || node.kind === 'array') return this.container(node);
    const raw = this.text.slice(node.start, node.end);
    if (this.full) return node.kind === 'string' ? '""' : raw;
    const count = tokens(raw);
    if (count <= this.left) {
      this.left -= count;
      return raw;
    }
    this.full = true;
    return node.kind === 'string' ? this.string(node) : raw;
  }

  /** The part of a string that fits. A cut one ends with an ellipsis. */
  string(node) {
    const whole = decode(this.text, node);
    const length = fitting(whole, this.left - 2);
    return length < 8 ? '""' : JSON.stringify(`${whole.slice(0, length)}…`);
  }

  container(node) {
    this.left -= 1;
    return node.kind === 'object' ? `{${this.members(node).join(',')}}` : `[${this.items(node).join(',')}]`;
  }

  members(node) {
    const parts = [];
    for (const { key, value } of node.members) {
      const head = this.text.slice(key.start, value.start);
      this.take(tokens(head) + 1, value);
      if (this.full && !this.fields) break;
      parts.push(`${head}${this.value(value)}`);
    }
    return parts;
  }

  items(node) {
    const parts = [];
    for (const item of node.items) {
      this.take(1, item);
      if (this.full) break;
      parts.push(this.value(item));
    }
    return parts;
  }

  /** Pays for what stands before a value; full where that, or a value that cannot be cut, does not fit. */
  take(count, node) {
    if (this.full) return;
    this.left -= count;
    const least = node.kind === 'number' || node.kind === 'literal' ? tokens(this.text.slice(node.start, node.end)) : 3;
    this.full = this.left < least;
  }
}

function cutResult(text, maxTokens) {
  const root = read(text);
  const content = member(root, 'content');
  const structured = member(root, 'structuredContent');
  const parts = [];
  if (content?.kind === 'array') parts.push({ ...content, text: cutBlocks(text, content, maxTokens) });
  if (structured?.kind === 'object') parts.push({ ...structured, text: cutStructured(text, structured, maxTokens) });
  return parts
    .sort((a, b) => b.start - a.start)
    .reduce((whole, part) => whole.slice(0, part.start) + part.text + whole.slice(part.end), text);
}

function cutStructured(text, node, maxTokens) {
  const raw = text.slice(node.start, node.end);
  if (tokens(raw) <= maxTokens) return raw;
  const bare = tokens(new Fit(text, 0, true).container(node));
  return new Fit(text, bare < maxTokens ? maxTokens - bare : maxTokens, bare < maxTokens).container(node);
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

/** A list of content blocks whose texts have `maxTokens` together. Blocks behind the cut go; images stay. */
function cutBlocks(text, content, maxTokens) {
  const blocks = content.items.map((block) => {
    const place = textOf(text, block);
    const string = place && decode(text, place);
    return { block, place, string, count: place ? tokens(string) : 0 };
  });
  if (blocks.reduce((sum, { count }) => sum + count, 0) <= maxTokens) return text.slice(content.start, content.end);
  const kept = [];
  let left = maxTokens;
  let gone = 0;
  for (const { block, place, string, count } of blocks) {
    const raw = text.slice(block.start, block.end);
    if (!place || count <= left) {
      kept.push(raw);
      left -= count;
    } else if (left > NOTE * 2 || (left > 0 && left === maxTokens)) {
      const cut = JSON.stringify(cutContent(string, left));
      kept.push(text.slice(block.start, place.start) + cut + text.slice(place.end, block.end));
      left = 0;
    } else {
      gone += count;
      left = 0;
    }
  }
  if (gone > 0) kept.push(JSON.stringify({ type: 'text', text: note(gone) }));
  return `[${kept.join(',')}]`;
}
