// @ts-check
// Transform: gives back what it got, with the time. The smallest plugin there is; it shows that a chain runs.
// Contract 1.0 to the letter: one JSON line in, to the end of standard input; one JSON line out; exit.

import { text } from 'node:stream/consumers';

/** @type {import('hawsepipe-plugin').Input} */
const input = JSON.parse(await text(process.stdin));

console.log(
  JSON.stringify({ text: input.rawContent, continue: true, metadata: { echoedAt: new Date().toISOString() } }),
);
