// @ts-check
// Guard: denies a request that has a forbidden word, so that nothing is sent.

const FORBIDDEN = /\bconfidential\b/i;

/** @type {import('./hawsepipe-plugin.d.ts').Handler} */
export const onRequest = ({ rawContent }) => {
  let found = false;
  // After JSON.parse, because in the text of JSON a letter can be an escape. If this throws, the call is rejected.
  JSON.parse(rawContent, (name, value) => {
    found ||= FORBIDDEN.test(name) || (typeof value === 'string' && FORBIDDEN.test(value));
    return value;
  });
  if (!found) return { text: rawContent, continue: true };
  // The client gets `text`. `error` denies the call, and is in its record.
  return { text: '[BLOCKED] The request has a forbidden word.', continue: false, error: 'the request has a forbidden word' };
};
