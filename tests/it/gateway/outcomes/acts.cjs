// The same for a script of contract 1.0: what only a process can do wrong.
const input = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const { act } = input.metadata.config;
const say = (output) => process.stdout.write(`${JSON.stringify(output)}\n`);
const marked = () => JSON.stringify({ m: `${JSON.parse(input.rawContent).m}+x` });

const acts = {
  change: () => say({ text: marked(), continue: true, metadata: { did: 'change' } }),
  stop: () => say({ text: marked(), continue: false }),
  deny: () => say({ text: 'not this way', continue: false, error: 'E_NO' }),
  torn: () => say({ text: marked(), continue: true, error: 'E_TORN' }),
  'exit-code': () => process.exit(3),
  'half-a-line': () => process.stdout.write('{"text": "a", "con'),
  silent: () => {},
  twice: () => {
    const line = `${JSON.stringify({ text: 'a', continue: true })}\n`;
    process.stdout.write(line + line);
  },
  kill: () => {
    process.kill(process.pid, 'SIGKILL');
    for (;;);
  },
  late: () => {
    for (;;);
  },
};
acts[act]();
