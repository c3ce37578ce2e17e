// @ts-check
// Defines the form of the output of a pipeline. The gateway fills `sources`.

/** @type {import('./hawsepipe-plugin.d.ts').OutputTypeProvider['getOutputSchema']} */
export const getOutputSchema = () => ({
  type: 'object',
  required: ['title', 'text', 'sources'],
  properties: {
    title: { type: 'string' },
    text: { type: 'string' },
    sources: { type: 'array', items: { type: 'object' } },
  },
});

/** @type {import('./hawsepipe-plugin.d.ts').OutputTypeProvider['getSynthesizerConfig']} */
export const getSynthesizerConfig = () => ({ maxTokens: 4000, temperature: 0.2 });
