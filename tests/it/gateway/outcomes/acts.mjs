// A plugin that does what its configuration says: one worker for many ways to answer and to fail.
const mark = (raw, word) => JSON.stringify({ m: `${JSON.parse(raw).m}+${word}` });

const acts = {
  change: (raw, { word }) => ({ text: mark(raw, word ?? 'x'), continue: true, metadata: { did: 'change' } }),
  same: (raw) => ({ text: raw, continue: true, more: 1 }),
  stop: (raw) => ({ text: mark(raw, 'x'), continue: false }),
  deny: () => ({ text: 'not this way', continue: false, error: 'E_NO' }),
  'deny-empty': () => ({ text: 'not this way', continue: false, error: '' }),
  torn: (raw) => ({ text: mark(raw, 'x'), continue: true, error: 'E_TORN' }),
  throw: () => {
    throw new Error('boom');
  },
  'no-text': () => ({ continue: true }),
  'no-continue': (raw) => ({ text: raw }),
  'odd-type': (raw) => ({ text: raw, continue: 'yes' }),
  nothing: () => undefined,
  bad: () => ({ text: '[1]', continue: true }),
  large: () => ({ text: 'x'.repeat(300_000), continue: true }),
  exit: () => process.exit(3),
  kill: () => {
    process.kill(process.pid, 'SIGKILL');
    for (;;);
  },
  late: () => {
    for (;;);
  },
  sleep: async (raw, { ms }) => {
    await new Promise((done) => setTimeout(done, ms));
    return { text: mark(raw, 'x'), continue: true };
  },
};

export default ({ rawContent }, { config }) => acts[config.act](rawContent, config);
