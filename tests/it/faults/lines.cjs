// The same for a script that answers line by line.
const { writeSync } = require('node:fs');
const { createInterface } = require('node:readline');

const forever = () => {
  for (;;);
};
const flood = (descriptor, text) => {
  const megabyte = text.repeat(Math.ceil((1 << 20) / text.length));
  for (let i = 0; i < 100; i += 1) writeSync(descriptor, megabyte);
};
const answer = (input, more) => {
  const marked = JSON.stringify({ m: `${JSON.parse(input.rawContent).m}+x` });
  return `${JSON.stringify({ text: marked, continue: true, ...more })}\n`;
};
const say = (input, more) => writeSync(1, answer(input, more));

const acts = {
  fine: say,
  loop: forever,
  silent: () => {},
  heap: () => {
    for (const kept = []; ; ) kept.push({ text: `${kept.length}`.repeat(10) });
  },
  buffers: () => {
    for (const kept = []; ; ) kept.push(Buffer.alloc(4 << 20, 1));
  },
  'no-newline': () => flood(1, 'x'),
  'stderr-flood': (input) => {
    flood(2, 'a line of it\n');
    say(input);
  },
  'cut-line': () => {
    writeSync(1, '{"text":"cu');
    process.exit(0);
  },
  'no-json': () => writeSync(1, 'said\n'),
  'invalid-utf8': () => writeSync(1, Buffer.from('{"text":"\xff","continue":true}\n', 'latin1')),
  'two-answers': (input) => writeSync(1, answer(input) + answer(input)),
  'late-answer': (input) => setTimeout(() => say(input), 500),
  huge: (input) => say(input, { text: 'x'.repeat(24 << 20) }),
  exit: () => process.exit(0),
  'exit-answered': (input) => {
    say(input);
    process.exit(0);
  },
  throw: () => {
    throw new Error('thrown');
  },
  'closed-output': () => process.stdout.destroy(),
};

createInterface({ input: process.stdin }).on('line', (line) => {
  const input = JSON.parse(line);
  acts[input.metadata.config.act](input);
});
