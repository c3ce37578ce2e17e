// The worker's side of the Module protocol: loads one plugin, then answers calls on descriptor 3, one after another or,
// for `pool.concurrency`, several at a time. docs/worker-protocol.md describes the wire.
//
// Three things make a call cheap: content is never escaped, content that the sender marks as ASCII is read as Latin-1,
// and a frame is written immediately, from one buffer. The gateway checks what a plugin answers and asks for; this
// script does not.
import { AsyncLocalStorage } from 'node:async_hooks';
import { writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { pathToFileURL } from 'node:url';
import { format } from 'node:util';
import { CallToolError, describe, report } from './errors.cjs';

const VERSION = 1;
const HEAD = 8;
const HEADER_BITS = 0x00ffffff;
const CALL = 1, RESULT = 2, LOG = 3, READY = 4, PING = 5, CANCEL = 6, FAILURE = 7, ASK = 8, REPLY = 9, PROGRESS = 10, INITIALIZE = 15;
const CONTENT = 0x40, ASCII = 0x80;
// The largest buffer that is kept for the next frame, in bytes.
const KEPT = 512 * 1024;
const LOG_BYTES_PER_CALL = 65536, LOG_LINE = 8192;
// The length from which `onResponseStream` gets a response, and that of the pieces, in UTF-16 code units.
const LARGE = 1024 * 1024, PIECE = 64 * 1024;
// A call's signal fires this many milliseconds before the deadline, but not earlier than a tenth of the call's time
// before it.
const NOTICE_MS = 250;
const [entry, ...options] = process.argv.slice(2);
const egress = options.includes('egress');

// The calls in flight, by id; the asynchronous context, which tells which of several calls writes to the console; and
// the call that came last. The context costs time, so it is only used if there can be several calls.
const calls = new Map();
const context = options.includes('concurrent') ? new AsyncLocalStorage() : undefined;
let last;
// The functions of the plugin; undefined until it is loaded.
let handlers;

const socket = new Socket({
  fd: 3,
  readable: true,
  writable: true,
  onread: { buffer: Buffer.allocUnsafeSlow(256 * 1024), callback: (n, buffer) => (feed(buffer, n), true) },
});
process.on('uncaughtExceptionMonitor', (error) => { if (process.listenerCount('uncaughtException') === 0) report(error, true); });

// The gateway has ended, or no longer needs this worker. An error of `shutdown` ends the process with code 1.
let shutDown, ended = false;
async function end() {
  if (ended) return;
  ended = true;
  await shutDown?.();
  process.exit(0);
}
socket.on('end', end);
socket.on('error', end);

// A frame is written synchronously, from a buffer that is reused. A stream would allocate memory for each frame, and
// take four times as long. Bytes for which the socket has no room go to the stream, and so do all later frames until
// the stream is empty.
let out = Buffer.allocUnsafeSlow(64 * 1024);

function write(frame, length) {
  let written = 0;
  if (socket.writableLength === 0) {
    try {
      written = writeSync(3, frame, 0, length);
    } catch {
      // Either there is no room or the gateway is gone; the stream finds out which.
    }
  }
  if (written < length) socket.write(Buffer.from(frame.subarray(written, length)));
}

function send(kind, header, text) {
  const json = JSON.stringify(header);
  const headerLength = Buffer.byteLength(json);
  const bodyLength = text === undefined ? 0 : Buffer.byteLength(text);
  const ascii = text !== undefined && bodyLength === text.length;
  const flags = kind | (text === undefined ? 0 : CONTENT) | (ascii ? ASCII : 0);
  const length = HEAD + headerLength + bodyLength;
  if (length > out.length && length <= KEPT) out = Buffer.allocUnsafeSlow(KEPT);
  const frame = length <= out.length ? out : Buffer.allocUnsafeSlow(length);
  frame.writeUInt32LE(((flags << 24) | headerLength) >>> 0, 0);
  frame.writeUInt32LE(bodyLength, 4);
  frame.write(json, HEAD, headerLength, 'utf8');
  if (bodyLength > 0) frame.write(text, HEAD + headerLength, bodyLength, ascii ? 'latin1' : 'utf8');
  write(frame, length);
}

// The owner of lines that are printed before the first call, or outside of any call.
const nobody = { id: 0, logBytes: 0 };

const writing = () => (context === undefined ? last : context.getStore()) ?? nobody;

function log(call, level, args) {
  if (call.logBytes > LOG_BYTES_PER_CALL) return;
  const line = format(...args).slice(0, LOG_LINE);
  call.logBytes += line.length + HEAD;
  const dropped = call.logBytes > LOG_BYTES_PER_CALL;
  const text = dropped ? 'further log lines of this call are dropped' : line;
  if (ended) process.stderr.write(`${text}\n`);
  else send(LOG, { id: call.id, level }, text);
}

// Returns a logger. Each line belongs to the call that `of` returns at that moment.
function loggerOf(of) {
  const logger = (...args) => log(of(), 'info', args);
  for (const level of ['debug', 'info', 'warn', 'error']) logger[level] = (...args) => log(of(), level, args);
  return logger;
}

const logger = loggerOf(writing);
Object.assign(console, { log: logger, info: logger, debug: logger.debug, trace: logger.debug, warn: logger.warn, error: logger.error });

// Requests to the gateway that are not answered yet, by number.
const asked = new Map();
// What the gateway said of requests that it refused, by the errors that the plugin got, and the longest message that is kept.
const refusals = new WeakMap();
const REFUSAL = 4096;
let lastAsk = 0;

function rejectAsked(call, reason) {
  for (const [ask, { of, reject }] of asked) {
    if (of !== call) continue;
    asked.delete(ask);
    reject(reason);
  }
}

// Makes the error that a refused request rejects with.
function refusal({ Refusal }, said) {
  const error = new Refusal(said), { message, data } = said;
  if (typeof data?.reason === 'string' && message?.length <= REFUSAL) refusals.set(error, { reason: data.reason, message });
  return error;
}

class Call {
  logBytes = 0;
  over = false;
  cancelled = undefined;
  aborter = undefined;
  timer = undefined;

  constructor({ id, timeoutMs, maxOutput }) {
    this.id = id;
    this.timeoutMs = timeoutMs;
    this.maxOutput = maxOutput;
    this.started = Date.now();
  }

  cancel(reason) {
    this.cancelled = reason;
    this.within(() => this.aborter?.abort(reason));
    rejectAsked(this, reason);
  }

  // Runs `action` in the asynchronous context of this call, if there is one.
  within(action) {
    return context === undefined ? action() : context.run(this, action);
  }

  end() {
    this.over = true;
    calls.delete(this.id);
    if (this.timer !== undefined) clearTimeout(this.timer);
    if (asked.size > 0) rejectAsked(this, new Error('the call is over'));
  }

  // The reason why the call can make no more requests; undefined while it can.
  get ended() {
    return this.cancelled ?? (this.over ? new Error('the call is over') : undefined);
  }

  // The signal is created on first use, because most plugins do not use it.
  get signal() {
    if (this.aborter === undefined) {
      this.aborter = new AbortController();
      if (this.cancelled !== undefined) {
        this.aborter.abort(this.cancelled);
      } else {
        const notice = this.timeoutMs - Math.min(NOTICE_MS, this.timeoutMs / 10);
        const reason = new DOMException('The call is near its deadline', 'TimeoutError');
        this.timer = setTimeout(() => this.aborter.abort(reason), this.started + notice - Date.now());
        this.timer.unref();
      }
    }
    return this.aborter.signal;
  }

  callTool(tool, args) {
    return this.request({ tool: String(tool) }, args);
  }

  // Sends a request to the gateway, and returns a promise of its answer. A refusal is an error of the class `Refusal`.
  request(what, args, Refusal = CallToolError) {
    const answered = new Promise((resolve, reject) => {
      if (this.ended !== undefined) throw this.ended;
      const text = JSON.stringify(args ?? {});
      const ask = ++lastAsk;
      asked.set(ask, { of: this, resolve, reject, Refusal });
      const bytes = Buffer.byteLength(text);
      // The gateway refuses such arguments, and would take no frame with them.
      if (bytes > this.maxOutput) send(ASK, { id: this.id, ask, ...what, bytes });
      else send(ASK, { id: this.id, ask, ...what }, text);
    });
    // Without this, a rejection that nobody handles would end the worker.
    answered.catch(() => {});
    return answered;
  }

  async fetch(input, init) {
    if (this.ended !== undefined) throw this.ended;
    if (!egress) {
      const host = URL.canParse(input?.url ?? input) ? new URL(input?.url ?? input).host : 'a host';
      log(this, 'warn', [`may not connect to ${host}: the plugin lists no egress`]);
      throw new TypeError(`this plugin lists no egress, so it may not reach ${host}`);
    }
    const signals = init?.signal ? [init.signal, this.signal] : [this.signal];
    return fetch(input, { ...init, signal: AbortSignal.any(signals) });
  }
}

// The plugin's second argument. Its members work without it (`const { callTool } = ctx`), and are created only when
// they are used.
class Context {
  #call;

  constructor(call, config) {
    this.#call = call;
    this.config = config;
  }

  get log() {
    const call = this.#call;
    return context === undefined ? logger : loggerOf(() => call);
  }

  get signal() {
    return this.#call.signal;
  }

  get progress() {
    const call = this.#call;
    return (progress, total, message) => {
      if (!call.over) send(PROGRESS, { id: call.id, progress, total, message });
    };
  }

  get callTool() {
    const call = this.#call;
    return (tool, args) => call.callTool(tool, args);
  }

  get fetch() {
    const call = this.#call;
    return (input, init) => call.fetch(input, init);
  }
}

// Returns a member of an answer as any code that reads the answer sees it, also if a class defines the member. What was
// added to Object.prototype is part of no answer.
function member(answer, name) {
  const value = answer?.[name];
  if (value === undefined) return undefined;
  return value === Object.prototype[name] && !Object.hasOwn(answer, name) ? undefined : value;
}

// The pieces of a text. None ends within a surrogate pair. Other work of the worker is done between two of them.
async function* pieces(text) {
  for (let at = 0, end; at < text.length; at = end) {
    end = at + PIECE;
    if ((text.charCodeAt(end) & 0xfc00) === 0xdc00) end -= 1;
    yield text.slice(at, end);
    await new Promise(setImmediate);
  }
}

// Gives a large response in pieces. The text of the result is that of all pieces which the plugin yields.
async function answerInPieces({ rawContent, ...input }, ctx) {
  Object.defineProperty(ctx, 'input', { value: input, enumerable: true });
  const yielded = handlers.onResponseStream(pieces(rawContent), ctx), changed = [];
  for (;;) {
    const { done, value } = await yielded.next();
    if (done) return { continue: true, ...value, text: changed.join('') };
    if (typeof value !== 'string') throw new TypeError('onResponseStream yielded a value that is not a string');
    changed.push(value);
  }
}

async function answer(call, input) {
  const { id } = call;
  let output;
  try {
    const isRequest = input.metadata.phase === 'request', ctx = new Context(call, input.metadata.config);
    const handler = isRequest ? handlers.onRequest : handlers.onResponse;
    if (handler === undefined) throw new TypeError(`exports nothing that serves the ${input.metadata.phase} phase`);
    const inPieces = !isRequest && handlers.onResponseStream !== undefined && input.rawContent.length > LARGE;
    output = await (inPieces ? answerInPieces(input, ctx) : handler(input, ctx));
  } catch (error) {
    call.end();
    send(FAILURE, { id, reason: 'PluginError', ...describe(error) });
    return;
  }
  call.end();
  try {
    const text = member(output, 'text'), denial = member(output, 'error');
    // What JSON makes of it counts. JSON leaves some values out, such as a function, or writes them as null: such an
    // `error` would deny nothing.
    const isSaid = denial == null || typeof denial === 'string';
    const error = isSaid ? denial : JSON.parse(JSON.stringify({ error: denial })).error;
    if (denial != null && typeof error !== 'string') throw new TypeError('its `error` is not a string');
    const header = { id, continue: member(output, 'continue'), metadata: member(output, 'metadata'), error };
    if (typeof text === 'string') send(RESULT, header, text);
    else send(RESULT, { ...header, text });
  } catch (error) {
    send(FAILURE, { id, reason: 'InvalidOutput', ...describe(error) });
  }
}

// Answers a call of a plugin that is not middleware: `text` is a JSON array of the function's arguments.
async function answerTyped(call, { typed: { method, context: given }, metadata, rawContent }) {
  const { id } = call;
  try {
    const result = await typed.callTyped(plugin, method, JSON.parse(rawContent), new TypedContext(call, metadata.config, given));
    call.end();
    send(RESULT, { id, continue: true }, JSON.stringify(result) ?? 'null');
  } catch (error) {
    call.end();
    send(FAILURE, { id, reason: 'PluginError', refusal: refusals.get(error), ...describe(error) });
  }
}

// Handles the frame that begins at index `at` of `source`. `source` contains the whole frame, and the frame is read
// before this returns, because the buffer is reused.
function receive(source, at) {
  const word = source.readUInt32LE(at), bodyLength = source.readUInt32LE(at + 4);
  const flags = word >>> 24, kind = flags & 0x3f;
  const body = at + HEAD + (word & HEADER_BITS);
  const header = JSON.parse(source.toString('utf8', at + HEAD, body));
  const text = bodyLength === 0 ? '' : source.toString(flags & ASCII ? 'latin1' : 'utf8', body, body + bodyLength);
  if (kind === CALL) {
    const { input } = header;
    const call = new Call(header);
    calls.set(call.id, call);
    last = call;
    nobody.logBytes = 0;
    input.rawContent = text;
    void call.within(() => (typed === undefined ? answer : answerTyped)(call, input));
  } else if (kind === REPLY) {
    const ask = asked.get(header.ask);
    asked.delete(header.ask);
    if (header.error) ask?.reject(refusal(ask, JSON.parse(text)));
    else ask?.resolve(JSON.parse(text));
  } else if (kind === CANCEL) {
    calls.get(header.id)?.cancel(new DOMException('The call was cancelled', 'AbortError'));
  } else if (kind === PING) {
    send(PING, header);
  } else if (kind === INITIALIZE) {
    initialize(header);
  }
}

const frameLength = (source, at) => HEAD + (source.readUInt32LE(at) & HEADER_BITS) + source.readUInt32LE(at + 4);

// Only for plugins that are not middleware: what their code made, and what its `initialize` gets.
let plugin, initialize;
const initialized = new Promise((resolve) => { initialize = resolve; });

// A frame that arrives in pieces: its first bytes, then the whole frame, in memory that is allocated once.
const head = Buffer.alloc(HEAD);
let frame = null, filled = 0;

function feed(chunk, end) {
  let at = 0;
  while (at < end) {
    if (filled === 0 && end - at >= HEAD) {
      const length = frameLength(chunk, at);
      if (end - at >= length) {
        receive(chunk, at);
        at += length;
        continue;
      }
    }
    if (frame === null) {
      const taken = chunk.copy(head, filled, at, Math.min(end, at + HEAD - filled));
      filled += taken;
      at += taken;
      if (filled < HEAD) return;
      frame = Buffer.allocUnsafeSlow(frameLength(head, 0));
      head.copy(frame);
    }
    const taken = chunk.copy(frame, filled, at, Math.min(end, at + frame.length - filled));
    filled += taken;
    at += taken;
    if (filled === frame.length) {
      const whole = frame;
      frame = null;
      filled = 0;
      receive(whole, 0);
    }
  }
}

// Only for them too: their part of this script, and the class of `ctx`.
const required = options.find((option) => option.startsWith('typed='));
const typed = required ? await import('./typed.mjs') : undefined;
const TypedContext = typed?.typedContext(Context);

// Returns the descriptor of a plugin that runs in chains. The plugin runs in any case, so an error here has no effect.
async function describedAs(getDescriptor) {
  try {
    const late = new Promise((resolve) => setTimeout(resolve, 1000).unref());
    return JSON.parse(JSON.stringify(await Promise.race([getDescriptor?.(), late])));
  } catch {
    return undefined;
  }
}

try {
  const exported = await import(pathToFileURL(entry).href);
  const { descriptor, ...given } = typed === undefined ? {} : await initialized;
  if (typed !== undefined) {
    plugin = await typed.loadTyped(exported, required.slice(6), { descriptor, config: given.config, log: logger });
  }
  // What CommonJS code assigns to module.exports is the default export of the namespace.
  const pick = (name) => [exported[name], exported.default?.[name]].find((value) => typeof value === 'function');
  const fallback = typeof exported.default === 'function' ? exported.default : pick('default');
  const names = ['onRequest', 'onResponse', 'onResponseStream'];
  handlers = Object.fromEntries(names.map((name) => [name, pick(name)]));
  for (const name of names.slice(0, 2)) handlers[name] ??= fallback;
  for (const name of typed === undefined ? names : []) {
    if (exported[name] !== undefined && typeof exported[name] !== 'function') throw new TypeError(`${name} is not a function`);
  }
  if (typed === undefined && !handlers.onRequest && !handlers.onResponse) {
    throw new TypeError('exports no function: export default, onRequest or onResponse');
  }
  if (typed !== undefined) {
    await plugin.initialize?.({ ...given, log: logger });
    shutDown = () => plugin.shutdown?.();
  }
  await pick('warmup')?.({ log: logger });
  const described = typed === undefined ? await describedAs(pick('getDescriptor')) : await plugin.getDescriptor?.();
  send(READY, { version: VERSION, node: process.version, descriptor: described });
} catch (error) {
  send(FAILURE, { id: 0, reason: 'NotLoaded', ...describe(error, handlers === undefined) });
}
