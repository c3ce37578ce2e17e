// Errors, as plugins get them and as the gateway gets them. The text of an error that plugin code throws during a call is
// content, and may be shown only to those who may see content. `summary` is for logs and records: it has the class of the
// error, its place in the plugin's code and the length of its text.
'use strict';
const { writeSync } = require('node:fs');
const { constants: { errno } } = require('node:os');
const { pathToFileURL } = require('node:url');
const { types: { isNativeError } } = require('node:util');

// How messages begin that have no content: those of the gateway's scripts, and some of V8.
const OWN = new RegExp('^(?:its `error` is not a string|exports nothing that serves the \\w+ phase|exports no function \\w+'
  + '|onResponseStream yielded a value that is not a string|this plugin lists no egress'
  + '|the call is over|Do not know how to serialize a BigInt|Converting circular structure to JSON'
  + '|Invalid (?:string|array) length|Array buffer allocation failed)');

// The folder of the plugin's code, unless the plugin has changed its current folder before this file was loaded.
const cwd = process.cwd();

const isError = (error) => isNativeError(error) || error instanceof Error;

// Describes an error for the gateway. `isLoading` says whether the plugin is being loaded.
exports.describe = function describe(error, isLoading, folder = cwd) {
  const same = (message) => ({ message, summary: message });
  if (typeof error === 'string') return { message: `threw ${error}`.slice(0, 500), summary: `threw a text of ${error.length} characters` };
  if (!isError(error)) return same('threw a value that is not an Error');
  try {
    const places = placesOf(error, folder), place = places.find((place) => !place.startsWith('node:'));
    const at = place === undefined ? '' : `, at ${place}`;
    if (error.name === 'SyntaxError') return same(describeSyntaxError(error, isLoading) + (isLoading ? '' : at));
    let message = `${error.name}: ${error.message}`;
    // The error of `fetch` only says that it failed; the cause says why.
    if (error.message === 'fetch failed' && isError(error.cause)) message += `: ${error.cause.message}`;
    const stack = places.slice(0, 8).map((place) => `    at ${place}`).join('\n').slice(0, 2000);
    return { message: message.slice(0, 500), summary: summarize(error) + at, stack };
  } catch {
    return same('threw an error that cannot be read');
  }
};

// The class of an error, the code that Node.js gave it, and either a message that has no content or the length of the message.
function summarize({ constructor, name, message, code, cause }) {
  const known = [constructor?.name, 'Error'].find((name) => /^[A-Za-z_$][\w$]{0,79}$/.test(name));
  const isCode = (code) => typeof code === 'string' && (Object.hasOwn(errno, code) || /^(?:ERR|EAI)_[A-Z0-9_]{1,60}$/.test(code));
  const codes = [known === 'DOMException' && /^(?:Abort|Timeout)Error$/.test(name) ? name : undefined, code, cause?.code];
  const said = codes.find((code, at) => code !== undefined && (at === 0 || isCode(code)));
  const kind = said === undefined ? known : `${known} (${said})`;
  const own = OWN.exec(message)?.[0];
  return own === undefined ? `${kind} with a message of ${String(message).length} characters` : `${kind}: ${own}`;
}

// The places of an error's stack that are in Node.js or in the plugin's code. Names of functions are left out, and so is the
// message: both can have lines of the same form.
function placesOf({ stack, message }, folder) {
  const text = String(stack ?? ''), at = text.indexOf(message);
  const frames = (at < 0 ? text : text.slice(at + message.length)).split('\n').filter((line) => /^\s+at /.test(line));
  const places = frames.map((line) => /([^\s()]+:\d+:\d+)\)?$/.exec(line)?.[1] ?? '');
  const roots = [`${pathToFileURL(folder).href}/`, `${folder}/`];
  return places.flatMap((place) => {
    if (/^node:[\w/]+:\d+:\d+$/.test(place)) return [place];
    const root = roots.find((root) => place.startsWith(root));
    return root === undefined ? [] : [place.slice(root.length)];
  });
}

// The message of a SyntaxError is left out, because V8 quotes the text that it could not parse.
function describeSyntaxError(error, isLoading) {
  // While it loads, there is no content yet. These messages quote no text: a name, or syntax that is more than types.
  const isOfLoader = error.code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX' || / does not provide an export named '\w+'$/.test(error.message);
  if (isLoading) return isOfLoader ? `${error.name}: ${error.message}` : error.name;
  const byParse = /\n\s+at JSON\.parse \(<anonymous>\)/.test(error.stack);
  return byParse ? 'JSON.parse was given text that is not JSON' : 'it threw a SyntaxError while it ran';
}

// Describes an error that nothing has caught, in a line of JSON after a zero byte. If it is fatal, Node.js prints the error
// next, and the gateway keeps nothing of what follows.
exports.report = function report(error, fatal, folder) {
  try {
    writeSync(2, `\0${JSON.stringify({ ...exports.describe(error, false, folder), fatal })}\n`);
  } catch {
    // The process has closed its standard error.
  }
};

// The error that callTool rejects with. It holds the JSON-RPC error.
exports.CallToolError = class CallToolError extends Error {
  constructor({ message, code, data }) {
    super(message);
    Object.assign(this, { name: 'CallToolError', code, data, reason: data?.reason });
  }
};
