// A client under load: calls tools of server-everything through a gateway, 20 a second, until SIGTERM. Half of the calls
// are modern, half belong to legacy sessions that are begun once and used to the end; one in 20 takes 4 seconds. Every
// second it begins one more session, for one call; it calls a pipeline twice, and twice a tool of an upstream that is edited.
//
// It prints a line `{"failure": ...}` for each call that fails and a line with all counts every second. No call is tried
// again.
import http from 'node:http';

const url = new URL(process.env.MCP_URL);
const MODERN = '2026-07-28';
const LEGACY = '2025-11-25';
const SESSIONS = 4;
const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });
const counts = { modern: 0, legacy: 0, long: 0, sessions: 0, pipeline: 0, edited: 0, failed: 0, inFlight: 0, slowestMs: 0, connections: 0 };
let next = 0;

// Sends one message, and returns the status, the session and the JSON-RPC response.
function post(message, headers) {
  return new Promise((resolve, reject) => {
    const request = http.request(url, {
      agent,
      method: 'POST',
      timeout: 60_000,
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
    });
    request.on('socket', () => { if (!request.reusedSocket) counts.connections++; });
    request.on('timeout', () => request.destroy(new Error('no answer for 60 s')));
    request.on('error', reject);
    request.on('response', (response) => {
      const chunks = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const body = Buffer.concat(chunks).toString();
        const data = body.split('\n').filter((line) => line.startsWith('data:') && line.length > 6);
        const answers = (data.length ? data.map((line) => line.slice(5)) : [body]).filter(Boolean);
        try {
          const answer = answers.map((text) => JSON.parse(text)).find(({ id }) => id === message.id);
          resolve({ status: response.statusCode, session: response.headers['mcp-session-id'], answer, body });
        } catch {
          resolve({ status: response.statusCode, body });
        }
      });
    });
    request.end(JSON.stringify(message));
  });
}

// Calls a tool and returns nothing if the answer is the right one.
async function call(id, name, args, expected, session) {
  const params = { name, arguments: args };
  let headers = { 'mcp-protocol-version': LEGACY, 'mcp-session-id': session };
  if (!session) {
    headers = { 'mcp-protocol-version': MODERN, 'mcp-method': 'tools/call', 'mcp-name': name };
    params._meta = {
      'io.modelcontextprotocol/protocolVersion': MODERN,
      'io.modelcontextprotocol/clientInfo': { name: 'e2e', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    };
  }
  const { status, answer, body } = await post({ jsonrpc: '2.0', id, method: 'tools/call', params }, headers);
  const text = answer?.result?.content?.[0]?.text ?? '';
  if (status !== 200 || answer?.result?.isError || !text.includes(expected)) {
    throw new Error(`${status} ${body.slice(0, 500)}`);
  }
}

async function begin() {
  const params = { protocolVersion: LEGACY, capabilities: {}, clientInfo: { name: 'e2e', version: '1' } };
  const { status, session, body } = await post({ jsonrpc: '2.0', id: ++next, method: 'initialize', params }, {});
  if (status !== 200 || !session) throw new Error(`${status} ${body.slice(0, 500)}`);
  const headers = { 'mcp-protocol-version': LEGACY, 'mcp-session-id': session };
  const ready = await post({ jsonrpc: '2.0', method: 'notifications/initialized' }, headers);
  if (ready.status !== 202) throw new Error(`${ready.status} ${ready.body.slice(0, 500)}`);
  return session;
}

function end(session) {
  return new Promise((resolve, reject) => {
    const headers = { 'mcp-protocol-version': LEGACY, 'mcp-session-id': session };
    const request = http.request(url, { agent, method: 'DELETE', headers }, (response) => {
      response.resume();
      response.on('end', resolve);
    });
    request.on('error', reject);
    request.end();
  });
}

// Counts what the attempt does, and prints why it fails.
async function count(kind, attempt) {
  const started = Date.now();
  counts.inFlight++;
  try {
    await attempt();
    counts[kind]++;
  } catch (error) {
    counts.failed++;
    const took = Date.now() - started;
    console.log(JSON.stringify({ failure: kind, at: new Date().toISOString(), took, error: String(error), code: error.code }));
  }
  counts.inFlight--;
  counts.slowestMs = Math.max(counts.slowestMs, kind === 'long' ? 0 : Date.now() - started);
}

// Echoes a text that has a secret, which the chain takes out.
const echo = (session) => {
  const id = ++next;
  const message = `call ${id} token sk-ant-${'a1B2c3D4'.repeat(12)}`;
  return call(id, 'everything__echo', { message }, `call ${id} token [redacted`, session);
};
const long = (session) => call(++next, 'everything__trigger-long-running-operation', { duration: 4, steps: 2 }, 'ompleted', session);

const twice = () => {
  const id = ++next;
  return call(id, 'echo_twice', { message: `run ${id} token sk-ant-${'a1B2c3D4'.repeat(12)}` }, `again run ${id} token [redacted`);
};
const sum = () => call(++next, 'sums__get-sum', { a: 2, b: 3 }, '5');

const sessions = [];
for (;;) {
  try {
    await echo();
    console.log(JSON.stringify({ first: Date.now() }));
    while (sessions.length < SESSIONS) sessions.push(await begin());
    await twice();
    await sum();
    break;
  } catch (error) {
    console.log(JSON.stringify({ waiting: String(error) }));
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}
let tick = 0;
const calls = setInterval(() => {
  const session = tick % 2 ? sessions[(tick >> 1) % SESSIONS] : undefined;
  const kind = [0, 21].includes(tick % 40) ? 'long' : session ? 'legacy' : 'modern';
  void count(kind, () => (kind === 'long' ? long(session) : echo(session)));
  if (tick % 20 === 10) {
    void count('sessions', async () => {
      const passing = await begin();
      await echo(passing);
      await end(passing);
    });
  }
  if (tick % 10 === 3) void count('pipeline', twice);
  if (tick % 10 === 8) void count('edited', sum);
  tick++;
}, 50);
setInterval(() => console.log(JSON.stringify(counts)), 1000);
process.on('SIGTERM', async () => {
  clearInterval(calls);
  while (counts.inFlight > 0) await new Promise((resolve) => setTimeout(resolve, 50));
  console.log(JSON.stringify(counts));
  process.exit(0);
});
