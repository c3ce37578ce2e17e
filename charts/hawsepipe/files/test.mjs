// What `helm test` does: asks the operator whether it is ready, then makes a call through the gateway, if the chart made
// one. What fails is tried again until the time is over.
const { READY_URL, MCP_URL, TOOL, ARGUMENTS, EXPECT, SECONDS } = process.env;
const VERSION = '2026-07-28';

async function ready() {
  const response = await fetch(READY_URL, { signal: AbortSignal.timeout(5000) });
  if (!response.ok) throw new Error(`${READY_URL}: ${response.status} ${await response.text()}`);
  return 'the operator is ready';
}

async function call() {
  const method = TOOL ? 'tools/call' : 'tools/list';
  const named = TOOL ? { name: TOOL, arguments: JSON.parse(ARGUMENTS) } : {};
  const meta = {
    'io.modelcontextprotocol/protocolVersion': VERSION,
    'io.modelcontextprotocol/clientInfo': { name: 'helm-test', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const response = await fetch(MCP_URL, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': VERSION,
      'mcp-method': method,
      ...(TOOL && { 'mcp-name': TOOL }),
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...named, _meta: meta } }),
    signal: AbortSignal.timeout(30000),
  });
  const body = await response.text();
  const events = body.split('\n').filter((line) => line.startsWith('data:') && line.length > 6);
  const { result } = JSON.parse(events.length > 0 ? events.at(-1).slice(5) : body);
  if (!result || result.isError || !body.includes(EXPECT ?? '')) throw new Error(`${MCP_URL}: ${body.slice(0, 2000)}`);
  return `${method} ${TOOL ?? ''} at ${MCP_URL}: ${JSON.stringify(result).slice(0, 2000)}`;
}

const deadline = Date.now() + Number(SECONDS) * 1000;
for (const step of MCP_URL ? [ready, call] : [ready]) {
  for (;;) {
    try {
      console.log(await step());
      break;
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
}
