// Errors, as plugins get them and as the gateway gets them.

// Describes an error for the gateway. `isLoading` says whether the plugin is being loaded.
export function describe(error, isLoading) {
  if (typeof error === 'string') return { message: `threw ${error}`.slice(0, 500) };
  if (!(error instanceof Error)) return { message: 'threw a value that is not an Error' };
  const frames = String(error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line)).slice(0, 8);
  let message = error instanceof SyntaxError ? describeSyntaxError(error, frames, isLoading) : `${error.name}: ${error.message}`;
  // The error of `fetch` only says that it failed; the cause says why.
  if (error.message === 'fetch failed' && error.cause instanceof Error) message += `: ${error.cause.message}`;
  return { message: message.slice(0, 500), stack: frames.join('\n').slice(0, 2000) };
}

// The message of a SyntaxError is left out, because V8 quotes the text that it could not parse, and content must not
// reach logs. `last_words.rs` describes those that end a process.
function describeSyntaxError(error, frames, isLoading) {
  // While it loads, there is no content yet. These messages quote no text: a name, or syntax that is more than types.
  const isOfLoader = error.code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX' || / does not provide an export named '\w+'$/.test(error.message);
  if (isLoading) return isOfLoader ? `${error.name}: ${error.message}` : error.name;
  const byParse = /^\s+at JSON\.parse /.test(frames[0] ?? '');
  const what = byParse ? 'JSON.parse was given text that is not JSON' : 'it threw a SyntaxError while it ran';
  const places = frames.map((frame) => /(?:^\s+at |\()([^()]+:\d+:\d+)\)?$/.exec(frame)?.[1]);
  const place = places.find((place) => place !== undefined && !place.startsWith('node:'));
  return place === undefined ? what : `${what}, at ${place}`;
}

// The error that callTool rejects with. It holds the JSON-RPC error.
export class CallToolError extends Error {
  constructor({ message, code, data }) {
    super(message);
    Object.assign(this, { name: 'CallToolError', code, data });
  }
}
