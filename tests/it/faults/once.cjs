// The same for a script of contract 1.0: what a process of its own can do wrong.
const { spawn } = require('node:child_process');
const { closeSync, readFileSync, writeSync } = require('node:fs');
const { Worker } = require('node:worker_threads');

const input = JSON.parse(readFileSync(0, 'utf8'));
// What an earlier call left behind would show.
const left = `${globalThis.left ?? ''}${{}.left ?? ''}`;
const marked = () => JSON.stringify({ m: `${JSON.parse(input.rawContent).m}+x${left}` });
const line = (more) => `${JSON.stringify({ text: marked(), continue: true, ...more })}\n`;
const say = (text = line()) => process.stdout.write(text);
const forever = () => {
  for (;;);
};
const stay = () => setInterval(() => {}, 1000);
const flood = (descriptor, text) => {
  const megabyte = text.repeat(Math.ceil((1 << 20) / text.length));
  for (let i = 0; i < 100; i += 1) writeSync(descriptor, megabyte);
};

const acts = {
  fine: () => say(),
  loop: forever,
  regex: () => /^(a+)+$/.test(`${'a'.repeat(60)}!`),
  heap: () => {
    for (const kept = []; ; ) kept.push({ text: `${kept.length}`.repeat(10) });
  },
  buffers: () => {
    for (const kept = []; ; ) kept.push(Buffer.alloc(4 << 20, 1));
  },
  threads: () => {
    for (let i = 0; i < 64; i += 1) new Worker('for (;;);', { eval: true });
    forever();
  },
  forks: () => {
    for (let i = 0; i < 100; i += 1) spawn('/bin/sh', ['-c', '/bin/sleep 600 & /bin/sleep 600'], { stdio: 'inherit' });
    forever();
  },
  promises: () => {
    globalThis.kept = [];
    for (let i = 0; i < 1_000_000; i += 1) globalThis.kept.push(new Promise(() => {}));
    stay();
  },
  'no-newline': () => flood(1, 'x'),
  'lines-flood': () => flood(1, 'a line of it\n'),
  'stderr-flood': () => {
    flood(2, 'a line of it\n');
    say();
  },
  'cut-line': () => {
    say(line().slice(0, 12));
    process.exit(0);
  },
  'whole-line': () => {
    say(line({ metadata: 'x'.repeat(300_000) }));
    process.exit(0);
  },
  'invalid-utf8': () => say(Buffer.from([0x7b, 0xff, 0x7d, 0x0a])),
  'two-answers': () => say(line() + line()),
  'late-answer': () => setTimeout(say, 1000),
  huge: () => say(line({ text: 'x'.repeat(24 << 20) })),
  'exit-writing': () => {
    say(line().slice(0, 12));
    process.exit(3);
  },
  'exit-answered': () => {
    say();
    process.exit(3);
  },
  'exit-later': () => {
    say();
    setTimeout(() => process.exit(3), 300);
  },
  abort: () => process.abort(),
  reject: () => Promise.reject(new Error('late')),
  overflow: () => acts.overflow() + 1,
  stop: () => {
    process.kill(process.pid, 'SIGSTOP');
    stay();
  },
  'closed-output': () => {
    closeSync(1);
    stay();
  },
  pollute: () => {
    const whole = line();
    globalThis.left = 'left';
    Object.prototype.left = 'left';
    JSON.parse = () => 'polluted';
    say(whole);
  },
};
acts[input.metadata.config.act]();
