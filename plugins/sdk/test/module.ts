// A Module: its handlers, and what they may ask for.
import type { CallToolError, Context, Handler, Output, StreamHandler, ToolResult, Warmup } from 'hawsepipe-plugin';

interface Config {
  style: 'short' | 'long';
}

const plugin: Handler<Config> = async ({ rawContent, metadata }, ctx) => {
  const style: 'short' | 'long' = ctx.config?.style ?? metadata.config?.style ?? 'short';
  // @ts-expect-error: there may be no configuration
  ctx.config.style;
  ctx.log('text', { any: 'thing' }, 1);
  ctx.log.warn('careful');
  // @ts-expect-error: no such level
  ctx.log.fatal('no');

  ctx.signal.throwIfAborted();
  ctx.signal.addEventListener('abort', () => ctx.log('over'));
  const signal: AbortSignal = ctx.signal;

  ctx.progress(1);
  ctx.progress(1, 3, 'begun');
  // @ts-expect-error: a number
  ctx.progress('half');

  const answer: Response = await ctx.fetch('https://example.com', { signal });
  const found = await ctx.callTool('files__search', { query: rawContent });
  const texts = found.content.map((block) => (block.type === 'text' ? block.text : block.type));
  // @ts-expect-error: arguments are an object
  await ctx.callTool('files__search', 'query');
  // @ts-expect-error: not every block has a text
  found.content[0].text;

  const failed = await ctx.callTool('files__search').catch((error: CallToolError) => error.code);
  return { text: [style, answer.status, failed, ...texts].join(' '), continue: true };
};
export default plugin;

export const onRequest: Handler = ({ rawContent }) => ({ text: rawContent, continue: true });
export const onResponseStream: StreamHandler<Config> = async function* (chunks, ctx) {
  let length = 0;
  for await (const chunk of chunks) {
    length += chunk.length;
    yield chunk.toUpperCase();
  }
  // @ts-expect-error: the content comes in pieces
  ctx.input.rawContent;
  return { metadata: { length, tool: ctx.input.toolName, style: ctx.config?.style ?? 'short' } };
};
// @ts-expect-error: text only
export const wrong: StreamHandler = async function* () { yield 1; };
export const warmup: Warmup = ({ log }) => log('warm');

// @ts-expect-error: an answer is needed
export const nothing: Handler = async () => {};
// @ts-expect-error: an answer is no text
export const word: Handler = async ({ rawContent }) => rawContent;

// What a test puts in the place of the gateway.
export const ctx: Context<Config> = {
  config: { style: 'short' },
  log: Object.assign(() => {}, { debug() {}, info() {}, warn() {}, error() {} }),
  signal: new AbortController().signal,
  progress() {},
  callTool: async (): Promise<ToolResult> => ({ content: [{ type: 'text', text: 'found' }] }),
  fetch,
};
export const output: PromiseLike<Output> | Output = plugin(
  {
    toolName: 's/t',
    rawContent: '',
    maxTokens: null,
    metadata: {
      requestId: '1',
      timestamp: '',
      method: 'tools/call',
      serverName: 's',
      phase: 'request',
      userQuery: null,
      contentType: 'json',
      chain: 'a/b',
      attempt: 1,
    },
  },
  ctx,
);
