// @ts-check
// Observer: notes the size of each answer in the log and in the record of the call.

/** @type {import('./hawsepipe-plugin.d.ts').Handler} */
export const onResponse = ({ toolName, rawContent }, ctx) => {
  ctx.log(`${toolName}: ${rawContent.length} characters`);
  return { text: rawContent, continue: true, metadata: { characters: rawContent.length } };
};
