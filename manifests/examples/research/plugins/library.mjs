// A tool-provider: one tool, which searches notes on version 2025-11-25 of the MCP specification. Put your own search here.

const BASE = 'https://modelcontextprotocol.io/specification/2025-11-25/';
const NOTES = [
  ['basic/lifecycle', 'Lifecycle', 'A client begins with initialize, which negotiates the version of the protocol and the capabilities of both sides. After the answer it sends the notification initialized.'],
  ['basic/transports', 'Transports', 'Messages go over stdio to a child process, or over streamable HTTP: POST requests, whose answers are JSON or a stream of server-sent events. A server can name a session in the header Mcp-Session-Id.'],
  ['basic/authorization', 'Authorization', 'A server over HTTP can require access tokens by OAuth 2.1. It names its authorization servers in protected resource metadata (RFC 9728). A token must not be passed through to other services.'],
  ['basic/utilities/cancellation', 'Cancellation', 'Either side can cancel a request that is in progress with the notification cancelled, which names the request and may give a reason.'],
  ['basic/utilities/progress', 'Progress', 'A request with a progress token gets notifications of progress. The progress must increase with each; the total may be unknown.'],
  ['server/tools', 'Tools', 'A tool has a name, a description and a JSON Schema of its input. Its result has content, and isError if the tool failed, so that the model can correct the call. Annotations of a tool are hints and are not to be trusted.'],
  ['server/resources', 'Resources', 'A server offers data as resources with URIs. Clients read them, and can subscribe to changes.'],
  ['server/prompts', 'Prompts', 'Prompts are templates of messages with arguments, which users choose.'],
  ['server/utilities/pagination', 'Pagination', 'Lists come in pages. A cursor in the result asks for the next page; clients do not interpret it.'],
  ['client/sampling', 'Sampling', 'A server can ask for a completion of the language model of the client. The user should be able to deny it.'],
  ['client/elicitation', 'Elicitation', 'A server can ask the user for input during a call, by a form or by a URL. A form must not ask for secrets.'],
  ['client/roots', 'Roots', 'A client can list the folders that a server may work in, its roots.'],
].map(([path, title, text]) => ({ url: BASE + path, title, text }));
const MOST = 3;

const words = (text) => new Set(text.toLowerCase().match(/[a-z]{4,}/g));

/** The notes with most words of the query, best first. */
function search(query) {
  const wanted = [...words(query)];
  const scored = NOTES.map((note) => {
    const of = words(`${note.title} ${note.text}`);
    return { note, score: wanted.filter((word) => of.has(word)).length };
  });
  const found = scored.filter(({ score }) => score > 0).sort((a, b) => b.score - a.score);
  return found.slice(0, MOST).map(({ note }) => note);
}

export const getTools = () => [{
  name: 'search',
  description: 'Searches notes on the specification of the Model Context Protocol.',
  annotations: { readOnlyHint: true, openWorldHint: false },
  parameters: {
    type: 'object',
    required: ['query'],
    properties: { query: { type: 'string', description: 'Words to search for' } },
  },
}];

export function execute(name, { query }) {
  const found = search(query);
  const texts = found.map(({ title, url, text }) => `${title} (${url})\n${text}`);
  return {
    content: texts.join('\n\n') || 'No note has a word of the query.',
    sources: found.map(({ url, title }) => ({ url, title })),
  };
}
