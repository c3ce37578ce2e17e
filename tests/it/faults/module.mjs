// A Module that does wrong in the way that its configuration names; `fine` is the call that comes after.
import { spawn } from 'node:child_process';
import { closeSync, writeSync } from 'node:fs';
import { Worker } from 'node:worker_threads';

const mark = (raw, word = 'x') => JSON.stringify({ m: `${JSON.parse(raw).m}+${word}` });
const answer = (raw) => ({ text: mark(raw), continue: true });
const never = () => new Promise(() => {});
const forever = () => {
  for (;;);
};
const flood = (descriptor, line) => {
  const megabyte = line.repeat(Math.ceil((1 << 20) / line.length));
  for (let i = 0; i < 100; i += 1) writeSync(descriptor, megabyte);
};

// The id of the call in flight, overheard where the host reads its frame.
let id = 0;
const { parse } = JSON;
JSON.parse = (text, ...more) => {
  const value = parse(text, ...more);
  if (value?.input) ({ id } = value);
  return value;
};

const RESULT = 2;
const CONTENT = 0x40;
function frame(header, body) {
  const json = Buffer.from(JSON.stringify(header));
  const head = Buffer.alloc(8);
  head.writeUInt32LE((((RESULT | CONTENT) << 24) | json.length) >>> 0, 0);
  head.writeUInt32LE(body.length, 4);
  return Buffer.concat([head, json, body]);
}
const forged = (id, raw, word) => frame({ id, continue: true }, Buffer.from(mark(raw, word)));
const bytes = (...all) => writeSync(3, Buffer.from(all));

const acts = {
  fine: answer,
  loop: forever,
  regex: () => /^(a+)+$/.test(`${'a'.repeat(60)}!`),
  heap: () => {
    for (const kept = []; ; ) kept.push({ text: `${kept.length}`.repeat(10) });
  },
  buffers: () => {
    for (const kept = []; ; ) kept.push(Buffer.alloc(4 << 20, 1));
  },
  threads: () => {
    try {
      for (let i = 0; i < 64; i += 1) new Worker('for (;;);', { eval: true });
    } catch {
      // No more of them can be had. Those that there are go on.
    }
    forever();
  },
  forks: () => {
    for (let i = 0; i < 100; i += 1) spawn('/bin/sh', ['-c', '/bin/sleep 600 & /bin/sleep 600'], { stdio: 'ignore' });
    forever();
  },
  promises: async () => {
    const kept = [];
    for (let i = 0; i < 1_000_000; i += 1) kept.push(never());
    await Promise.all(kept);
  },
  'stdout-flood': (raw) => {
    flood(1, 'x');
    return answer(raw);
  },
  'stderr-flood': (raw) => {
    flood(2, 'a line of it\n');
    return answer(raw);
  },
  'half-a-frame': (raw) => {
    writeSync(3, forged(id, raw, 'half').subarray(0, 12));
    return answer(raw);
  },
  'endless-frame': () => {
    bytes(2, 0, 0, RESULT | CONTENT, 255, 255, 255, 255);
    return never();
  },
  'unknown-frame': () => {
    bytes(0, 0, 0, 0x3f, 0, 0, 0, 0);
    return never();
  },
  'invalid-utf8': () => {
    writeSync(3, frame({ id, continue: true }, Buffer.from([0x7b, 0xff])));
    return never();
  },
  'two-answers': (raw) => {
    writeSync(3, forged(id, raw));
    return { text: mark(raw, 'second'), continue: true };
  },
  'wrong-id': (raw) => {
    writeSync(3, forged(987_654_321, raw, 'wrong'));
    return answer(raw);
  },
  'early-id': (raw) => {
    const early = [1, 2, 3].map((ahead) => forged(id + ahead, raw, 'early'));
    setImmediate(() => writeSync(3, Buffer.concat(early)));
    return answer(raw);
  },
  'late-id': (raw) => {
    writeSync(3, forged(id - 1, raw, 'late'));
    return answer(raw);
  },
  'late-answer': (raw) => new Promise((done) => setTimeout(() => done(answer(raw)), 1000)),
  'own-id': () => ({ id: 987_654_321, continue: true }),
  huge: () => ({ text: 'x'.repeat(24 << 20), continue: true }),
  deep: (raw) => {
    let metadata = {};
    for (let i = 0; i < 1000; i += 1) metadata = { of: metadata };
    return { ...answer(raw), metadata };
  },
  exit: () => process.exit(0),
  'exit-writing': (raw) => {
    writeSync(3, forged(id, raw).subarray(0, 12));
    process.exit(0);
  },
  'exit-answered': (raw) => {
    setImmediate(() => process.exit(3));
    return answer(raw);
  },
  abort: () => process.abort(),
  reject: () => {
    Promise.reject(new Error('late'));
    return never();
  },
  overflow: () => acts.overflow() + 1,
  stop: (raw) => {
    process.kill(process.pid, 'SIGSTOP');
    return never();
  },
  'closed-socket': (raw) => {
    closeSync(3);
    return answer(raw);
  },
  'closed-output': (raw) => {
    closeSync(1);
    closeSync(2);
    return answer(raw);
  },
  pollute: (raw) => {
    for (const name of ['error', 'metadata', 'reason', 'text', 'id']) Object.prototype[name] = 'polluted';
    Array.prototype.more = () => 'polluted';
    return answer(raw);
  },
  'pollute-json': (raw) => {
    Object.prototype.toJSON = () => 'polluted';
    return answer(raw);
  },
};

export default ({ rawContent }, { config }) => acts[config.act](rawContent);
