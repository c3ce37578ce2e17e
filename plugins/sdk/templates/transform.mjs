// @ts-check
// Transform: of several blank lines in an answer, it leaves one. The rest passes unchanged.

/** @param {string} text */
const shorter = (text) => text.replace(/\n(?:[ \t]*\n){2,}/g, '\n\n');

/** @type {import('./hawsepipe-plugin.d.ts').Handler} */
export const onResponse = ({ rawContent, metadata }) => {
  if (metadata.contentType === 'text') return { text: shorter(rawContent), continue: true };
  // The JSON of a whole result or of an error. It is written anew only if a text changes: JSON.stringify rounds numbers.
  const result = JSON.parse(rawContent);
  let changed = false;
  for (const block of result.content ?? []) {
    if (block.type !== 'text' || shorter(block.text) === block.text) continue;
    block.text = shorter(block.text);
    changed = true;
  }
  return { text: changed ? JSON.stringify(result) : rawContent, continue: true };
};
