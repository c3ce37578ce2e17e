// @ts-check
// Changes a pipeline for single runs. A result of null changes nothing.

/** @type {NonNullable<import('./hawsepipe-plugin.d.ts').PipelineCustomizer['getPipelineCustomizations']>} */
export const getPipelineCustomizations = ({ context }) =>
  context.researchType === 'light'
    ? { disabledAgents: ['reflector'], agentOverrides: { researcher: { config: { maxToolCalls: 2 } } } }
    : null;
