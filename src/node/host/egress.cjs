// Preloaded before a plugin that lists `egress`. A worker has no network: its connections are streams over descriptor
// 4, and the gateway dials the hosts that the plugin may reach. docs/worker-protocol.md describes the frames.
//
// This file replaces `net.Socket.prototype.connect` and `tls.connect`, on which `fetch`, http, https and the libraries
// above them are built. Node.js does TLS here, in the worker, so the gateway sees no more than a proxy would.
'use strict';
const net = require('node:net');
const tls = require('node:tls');
const { syncBuiltinESMExports } = require('node:module');

const HEAD = 8;
const HEADER_BITS = 0x00ffffff;
const OPEN = 11, CHUNK = 12, CREDIT = 13, CLOSE = 14;
const CONTENT = 0x40;
const CHUNK_BYTES = 65536;

// The socket to the gateway, created for the first connection, and the connections by stream number.
let line;
const streams = new Map();
let lastStream = 0;
let unread = Buffer.alloc(0);

function send(kind, header, body) {
  const json = Buffer.from(JSON.stringify(header));
  const head = Buffer.allocUnsafe(HEAD);
  head.writeUInt32LE(((kind | (body === undefined ? 0 : CONTENT)) << 24 | json.length) >>> 0, 0);
  head.writeUInt32LE(body?.length ?? 0, 4);
  line.write(body === undefined ? Buffer.concat([head, json]) : Buffer.concat([head, json, body]));
}

// Parses frames as they arrive. The bytes of a frame can be kept, because the buffer is not reused.
function feed(chunk) {
  unread = unread.length === 0 ? chunk : Buffer.concat([unread, chunk]);
  while (unread.length >= HEAD) {
    const word = unread.readUInt32LE(0), bodyAt = HEAD + (word & HEADER_BITS), end = bodyAt + unread.readUInt32LE(4);
    if (unread.length < end) return;
    const header = JSON.parse(unread.toString('utf8', HEAD, bodyAt));
    const body = unread.subarray(bodyAt, end);
    unread = unread.subarray(end);
    streams.get(header.stream)?.receive((word >>> 24) & 0x3f, header, body);
  }
}

function hangUp() {
  for (const stream of [...streams.values()]) stream.fail('ECONNRESET', 'the gateway is gone');
}

// The socket to the gateway keeps the process alive as long as there is a connection whose `unref` was not called.
function hold() {
  if ([...streams.values()].some((stream) => stream.held)) line?.ref();
  else line?.unref();
}

function begin(stream) {
  if (line === undefined) {
    line = new net.Socket({ fd: 4, readable: true, writable: true });
    line.on('data', feed).on('end', hangUp).on('error', hangUp);
  }
  stream.id = ++lastStream;
  streams.set(stream.id, stream);
  hold();
}

// Turns `socket`, which is not connected, into a socket whose connection the gateway makes.
function attach(socket, host, port) {
  // Each side has credit for one chunk at a time. `credit` is true if this side may send one, and `written` sends the
  // next one when credit arrives. `owed` is true while the gateway still has to get credit for the chunk that it has
  // sent.
  const stream = { id: 0, held: true, receive, fail };
  let credit = false, written, owed = false;

  function fail(code, message) {
    const error = new Error(`connect ${code} ${host}:${port}: ${message}`);
    socket.destroy(Object.assign(error, { code, syscall: 'connect', host, port }));
  }

  function forget() {
    if (!streams.delete(stream.id)) return false;
    hold();
    return true;
  }

  function receive(kind, header, body) {
    socket._unrefTimer();
    if (kind === CREDIT) {
      credit = true;
      if (socket.connecting) {
        socket.connecting = false;
        socket.emit('connect');
        socket.emit('ready');
      }
      resume();
    } else if (kind === CHUNK && body.length > 0) {
      owed = true;
      if (socket.push(body)) settle();
    } else if (kind === CHUNK) {
      socket.push(null);
    } else if (kind === CLOSE) {
      forget();
      if (header.code !== undefined) fail(header.code, header.message);
      else socket.push(null);
      resume();
    }
  }

  // Called when the plugin has read the last chunk: gives the gateway credit for the next one.
  function settle() {
    if (owed && streams.has(stream.id)) {
      owed = false;
      send(CREDIT, { stream: stream.id });
    }
  }

  // Runs `go` when there is credit, or when there can never be any, because the connection has ended.
  function whenCredited(go) {
    if (credit || !streams.has(stream.id)) go();
    else written = go;
  }

  function resume() {
    const go = written;
    written = undefined;
    go?.();
  }

  function write(data, done, from = 0) {
    whenCredited(() => {
      const piece = data.subarray(from, from + CHUNK_BYTES);
      if (!streams.has(stream.id)) return done(new Error('the connection is closed'));
      credit = false;
      send(CHUNK, { stream: stream.id }, piece);
      const next = from + piece.length;
      if (next < data.length) write(data, done, next);
      else done();
    });
  }

  Object.assign(socket, {
    connecting: true,
    _read: settle,
    _write(data, encoding, done) {
      const bytes = typeof data === 'string' ? Buffer.from(data, encoding) : data;
      socket._unrefTimer();
      if (bytes.length === 0) return done();
      write(bytes, done);
    },
    _writev: null,
    _final(done) {
      whenCredited(() => {
        if (streams.has(stream.id)) send(CHUNK, { stream: stream.id }, Buffer.alloc(0));
        done();
      });
    },
    _destroy(error, done) {
      if (forget()) send(CLOSE, { stream: stream.id });
      net.Socket.prototype._destroy.call(socket, error, done);
    },
    ref() {
      stream.held = true;
      hold();
      return socket;
    },
    unref() {
      stream.held = false;
      hold();
      return socket;
    },
  });
  Object.defineProperty(socket, 'pending', { get: () => socket.connecting });
  begin(stream);
  send(OPEN, { stream: stream.id, host, port });
}

const connectPath = net.Socket.prototype.connect;
net.Socket.prototype.connect = function connect(...args) {
  const [options, connected] = Array.isArray(args[0]) ? args[0] : net._normalizeArgs(args);
  if (options.path) return connectPath.apply(this, args);
  if (connected) this.once('connect', connected);
  attach(this, String(options.host || 'localhost'), Number(options.port));
  return this;
};

const connectTls = tls.connect;
tls.connect = function connect(...args) {
  const [options, connected] = net._normalizeArgs(args);
  const more = args.slice(1).find((argument) => argument !== null && typeof argument === 'object');
  Object.assign(options, more);
  if (options.socket || options.path) return connectTls.apply(this, args);
  const socket = net.connect({ host: options.host, port: options.port });
  const secure = connectTls({ ...options, socket }, connected ?? undefined);
  secure.ref = () => (socket.ref(), secure);
  secure.unref = () => (socket.unref(), secure);
  if (options.timeout) secure.setTimeout(options.timeout);
  return secure;
};

syncBuiltinESMExports();
