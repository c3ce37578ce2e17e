// A small MCP server to try the gateway with: two tools, and an answer that holds what should not leave. Nothing in it is
// real.
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';

const NOTE = `Import job: it runs at 02:00 with IMPORT_API_KEY=sk-ant-EXAMPLE-this-is-not-a-real-key-0000.
Questions go to Ann Example, ann@example.com.`;

const tools = [
  {
    name: 'read_note',
    description: 'Reads the note of the team.',
    inputSchema: { type: 'object', additionalProperties: false },
    annotations: { readOnlyHint: true },
    call: () => NOTE,
  },
  {
    name: 'echo',
    description: 'Says what it is told.',
    inputSchema: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
    annotations: { readOnlyHint: true },
    call: ({ message }) => String(message),
  },
];

const methods = {
  initialize: () => ({
    protocolVersion: '2025-11-25',
    capabilities: { tools: {} },
    serverInfo: { name: 'hawsepipe-demo', version: '1.0.0' },
  }),
  ping: () => ({}),
  'tools/list': () => ({ tools: tools.map(({ call, ...tool }) => tool) }),
  'tools/call': ({ name, arguments: given = {} }) => {
    const tool = tools.find((tool) => tool.name === name);
    if (!tool) throw Object.assign(new Error(`there is no tool ${name}`), { code: -32602 });
    return { content: [{ type: 'text', text: tool.call(given) }] };
  },
};

function answer({ id, method, params }) {
  try {
    if (!Object.hasOwn(methods, method)) throw Object.assign(new Error(`no method ${method}`), { code: -32601 });
    return { jsonrpc: '2.0', id, result: methods[method](params ?? {}) };
  } catch (error) {
    return { jsonrpc: '2.0', id, error: { code: error.code ?? -32603, message: error.message } };
  }
}

createServer(async (request, response) => {
  if (request.method !== 'POST') return response.writeHead(405).end();
  let message;
  try {
    message = JSON.parse(await text(request));
  } catch {
    return response.writeHead(400).end();
  }
  if (message.id === undefined) return response.writeHead(202).end();
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer(message)));
}).listen(Number(process.env.PORT ?? 8080), function () {
  console.log(`listening on ${this.address().port}`);
});

process.on('SIGTERM', () => process.exit(0));
