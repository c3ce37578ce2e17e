// The worker's side of Once with `reuse: true`: one CommonJS script, compiled once, and run again for each call in a
// fresh context that has its own stdin, stdout and exit. To the script, it looks as if it had the process to itself.
//
// Standard input and output are connected to the gateway. An input is a big-endian u32 length and the line that the
// script reads. An answer is a length, one byte for the exit code, and everything that the script printed. The gateway
// judges an answer like the output of a script with its own process. The first answer, which is sent without an input,
// reports that the script is compiled.
'use strict';
const { Console } = require('node:console');
const { EventEmitter } = require('node:events');
const fs = require('node:fs');
const { createRequire } = require('node:module');
const { Socket } = require('node:net');
const { dirname } = require('node:path');
const { Readable, Writable } = require('node:stream');
const { inspect, promisify } = require('node:util');
const vm = require('node:vm');
const { report } = require('./errors.cjs');

// How long a script can keep running after it has printed its line. Until then, it can still report by its exit code
// that it failed. protocol/once.rs has the same number.
const EXIT_WINDOW_MS = 20;
const NEWLINE = 10;
const { readFileSync, readSync, writeFileSync, writeSync } = fs;

// The pipe is made blocking, as in once.cjs. Otherwise, a script that prints much to standard error would get EAGAIN.
process.stderr._handle?.setBlocking?.(true);

const file = process.argv[2];
const requireFrom = createRequire(file);
const compile = (text) => new vm.Script(
  // The wrapper adds no line before the code, so that line numbers in errors match the file. The newline after the code
  // ends a comment on its last line.
  `globalThis.global = globalThis; (function (exports, require, module, __filename, __dirname) {${text}\n})`,
  { filename: file, importModuleDynamically: vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER },
);
const script = compile(readFileSync(file, 'utf8').replace(/^#!.*/, ''));
// The first call costs as much as fifty later ones, so it is made with this script, before the gateway sends a call.
const warmUp = compile("process.stdin.on('data', (line) => console.log(String(line)))");

// Thrown by `process.exit`, because the code after it must not run.
const EXIT = new Error('process.exit');

// The globals that Node.js adds to a bare context. Those that Node.js creates on first use are not created here.
const bare = new Set(vm.runInNewContext('Object.getOwnPropertyNames(globalThis)'));
const OWN = ['process', 'console', 'global', 'setTimeout', 'setInterval', 'setImmediate'];
const shared = Object.getOwnPropertyNames(globalThis).filter((name) => !bare.has(name) && !OWN.includes(name));
const copied = shared.map((name) => {
  const { get, ...plain } = Object.getOwnPropertyDescriptor(globalThis, name);
  return [name, get ? { configurable: true, enumerable: false, get: () => globalThis[name] } : plain];
});

function freshContext() {
  const global = Object.create(null);
  for (const [name, descriptor] of copied) Object.defineProperty(global, name, descriptor);
  return vm.createContext(global);
}

// The context of the next call. It is created after an answer, because creating a context takes longer than most
// scripts run.
let spare = freshContext();

// The call that is running, and whether there was one.
let run = null, served = false;

class Run {
  printed = [];
  hasLine = false;
  timers = new Set();
  window = undefined;

  constructor(line) {
    this.line = line;
    this.process = this.ownProcess();
  }

  ownProcess() {
    const { line } = this;
    const value = (of) => ({ value: of, writable: true, configurable: true, enumerable: true });
    const lazy = (make) => {
      let made;
      return { get: () => (made ??= make()), configurable: true, enumerable: true };
    };
    const own = Object.create(process, {
      argv: value([process.execPath, file]),
      env: value({ ...process.env }),
      exitCode: value(undefined),
      exit: value((code) => {
        if (code !== undefined) own.exitCode = code;
        finish(this);
        throw EXIT;
      }),
      stdin: lazy(() => Object.assign(Readable.from([line], { objectMode: false }), { fd: 0 })),
      stdout: lazy(() => stream(1, (bytes) => this.print(bytes))),
      stderr: lazy(() => stream(2, (bytes) => writeSync(2, bytes))),
    });
    EventEmitter.call(own);
    return own;
  }

  print(bytes) {
    this.printed.push(bytes);
    if (!this.hasLine && bytes.includes(NEWLINE) && Buffer.concat(this.printed).toString('latin1').trim() !== '') {
      this.hasLine = true;
      // The timer is unreferenced, so that a script that ends right away does not wait for it.
      this.window = setTimeout(finish, EXIT_WINDOW_MS, this).unref();
    }
  }

  timer(start) {
    const own = (...args) => {
      const timer = start(...args);
      this.timers.add(timer);
      return timer;
    };
    return Object.defineProperty(own, promisify.custom, { value: start[promisify.custom] });
  }

  start(script) {
    const global = spare ?? freshContext();
    spare = undefined;
    global.process = this.process;
    const { stdout, stderr } = this.process;
    global.console = new Console({ stdout, stderr });
    Object.assign(global, {
      setTimeout: this.timer(setTimeout), setInterval: this.timer(setInterval), setImmediate: this.timer(setImmediate),
    });
    const module = { exports: {}, id: '.', filename: file, loaded: false, children: [], paths: [] };
    const own = (name) => {
      switch (name) {
        case 'process': case 'node:process': return this.process;
        case 'console': case 'node:console': return global.console;
        default: return requireFrom(name);
      }
    };
    const require = Object.assign(own, { resolve: requireFrom.resolve, cache: requireFrom.cache, main: module });
    const main = script.runInContext(global);
    main.call(module.exports, module.exports, require, module, file, dirname(file));
  }
}

function stream(fd, take) {
  const write = (bytes, _, done) => {
    take(bytes);
    done();
  };
  return Object.assign(new Writable({ write }), { fd });
}

// Ends a call: the script has ended, or has printed all that counts.
function finish(ended) {
  if (run !== ended) return;
  run = null;
  clearTimeout(ended.window);
  try {
    ended.process.emit('exit', Number(ended.process.exitCode ?? 0));
  } catch (error) {
    if (error !== EXIT) ended.process.exitCode = 1;
  }
  for (const timer of ended.timers) {
    clearTimeout(timer);
    clearImmediate(timer);
  }
  input.ref();
  answer(Buffer.concat([Buffer.of(Number(ended.process.exitCode ?? 0) & 255), ...ended.printed]));
  setImmediate(() => { spare ??= freshContext(); });
}

function answer(bytes) {
  const frame = Buffer.allocUnsafe(4 + bytes.length);
  frame.writeUInt32BE(bytes.length, 0);
  bytes.copy(frame, 4);
  for (let at = 0; at < frame.length;) at += writeSync(1, frame, at);
}

function begin(script, line) {
  run = new Run(line);
  // The input is unreferenced, so that the event loop is empty when the script has ended, as in a process of its own.
  input.unref();
  try {
    run.start(script);
  } catch (error) {
    failed(error);
  }
}

function failed(error) {
  if (error === EXIT) return;
  const at = run;
  if (at === null) {
    // An error that an earlier call left behind must not be attributed to the next call. Before the first call there is no
    // content, and the gateway quotes the error.
    if (served) report(error, false);
    else writeSync(2, `${inspect(error)}\n`);
    process.exit(1);
  }
  if (at.process.listenerCount('uncaughtException') > 0) {
    at.process.emit('uncaughtException', error);
    return;
  }
  report(error, false);
  at.process.exitCode = 1;
  finish(at);
}

process.on('uncaughtException', failed);
process.on('beforeExit', () => { if (run !== null) finish(run); });

// Code that uses descriptors 0 and 1 gets this call's input and output. This includes the script's packages.
const isInput = (from) => from === 0 || from === '/dev/stdin';
const isOutput = (to) => to === 1 || to === '/dev/stdout';
fs.readFileSync = (from, options) => {
  if (run === null || !isInput(from)) return readFileSync(from, options);
  const encoding = typeof options === 'string' ? options : options?.encoding;
  const { line } = run;
  run.line = Buffer.alloc(0);
  return encoding ? line.toString(encoding) : Buffer.from(line);
};
fs.readSync = (from, buffer, ...rest) => {
  if (run === null || !isInput(from)) return readSync(from, buffer, ...rest);
  const { offset = 0, length = buffer.byteLength - offset } =
    typeof rest[0] === 'object' ? rest[0] ?? {} : { offset: rest[0], length: rest[1] };
  const read = run.line.copy(buffer, offset, 0, length);
  run.line = run.line.subarray(read);
  return read;
};
fs.writeSync = (to, data, ...rest) => {
  if (run === null || !isOutput(to)) return writeSync(to, data, ...rest);
  const bytes = typeof data === 'string'
    ? Buffer.from(data, rest[1])
    : Buffer.from(data.buffer, data.byteOffset + (rest[0] ?? 0), rest[1] ?? data.byteLength - (rest[0] ?? 0));
  run.print(Buffer.from(bytes));
  return bytes.length;
};
fs.writeFileSync = (to, data, options) => {
  if (run === null || !isOutput(to)) return writeFileSync(to, data, options);
  run.print(Buffer.from(data, typeof options === 'string' ? options : options?.encoding));
};

let held = [];
let heldLength = 0;

function feed(chunk) {
  held.push(Buffer.from(chunk));
  heldLength += chunk.length;
  if (heldLength < 4) return;
  if (held[0].length < 4) held = [Buffer.concat(held)];
  const length = held[0].readUInt32BE(0);
  if (heldLength < 4 + length) return;
  const whole = held.length === 1 ? held[0] : Buffer.concat(held);
  held = [];
  heldLength = 0;
  served = true;
  begin(script, whole.subarray(4, 4 + length));
}

const input = new Socket({ fd: 0, readable: true, writable: false });
input.on('data', feed);
// The gateway has ended, or no longer needs this worker.
input.on('end', () => process.exit(0));
input.on('error', () => process.exit(0));
begin(warmUp, Buffer.from('{}\n'));
