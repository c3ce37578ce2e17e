// @ts-check
// Changes the system prompts of agents: a text is appended, {replace: text} takes the place of the prompt.

/** @type {import('./hawsepipe-plugin.d.ts').PromptProvider['getPromptOverrides']} */
export const getPromptOverrides = ({ context }) => ({
  researcher: 'Prefer primary sources.',
  synthesizer: context.researchType === 'light' ? 'Write at most 200 words.' : 'Write for engineers.',
});
