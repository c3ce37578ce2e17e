// @ts-check
// Makes the tools of an MCPUpstream.

/** @type {import('./hawsepipe-plugin.d.ts').ToolProvider['getTools']} */
export const getTools = () => [
  {
    name: 'count_words',
    description: 'Counts the words of a text.',
    parameters: { type: 'object', required: ['text'], properties: { text: { type: 'string' } } },
    annotations: { readOnlyHint: true },
  },
];

/** @type {import('./hawsepipe-plugin.d.ts').ToolProvider['validateArguments']} */
export const validateArguments = (name, { text }) => (text === '' ? ['text is empty'] : []);

/** @type {import('./hawsepipe-plugin.d.ts').ToolProvider['execute']} */
export async function execute(name, { text }, ctx) {
  const words = String(text).match(/\S+/g)?.length ?? 0;
  ctx.log(`${name}: ${words} words`);
  return { content: `${words} words`, data: { words } };
}
