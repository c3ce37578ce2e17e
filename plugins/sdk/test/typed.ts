// The plugins that are no middleware: their functions, and what these return.
import type {
  CallbackError,
  CreatePlugin,
  Lifecycle,
  OutputTypeProvider,
  PhasePlugin,
  PipelineCustomizer,
  PromptProvider,
  ToolProvider,
} from 'hawsepipe-plugin';

export const phase: PhasePlugin<{ role: string }> = {
  async execute({ query }, ctx) {
    const schema = { type: 'object', required: ['n'], properties: { n: { type: 'integer' } } };
    const tools = [{ name: 'find', parameters: { type: 'object' } }];
    const messages = [{ role: 'user', content: query }];
    const role = ctx.config?.role ?? 'complex';
    const answer = await ctx.llm(role).complete({ messages, schema, tools, maxTokens: 100, temperature: 0, stop: ['.'] });
    const found: (string | number)[] = [answer.text, answer.usage.completionTokens, answer.toolCalls[0]?.name ?? ''];
    // @ts-expect-error: messages are needed
    await ctx.llm(role).complete({ schema });
    const asked = await ctx.ask({ message: 'Go on?', schema: { type: 'object', properties: {} }, timeoutMs: 1000 });
    // @ts-expect-error: there are values only if the user accepts
    asked.content.name;
    const refused = await ctx.ask({ message: '', schema: {} }).catch((error: CallbackError) => error.reason);
    const { id } = await ctx.evidence.add({ claim: 'It rains.', found });
    const pieces: number = (await ctx.evidence.list()).length;
    const left: number = ctx.budgets.remainingLLMCalls + ctx.budgets.maxLLMCalls - ctx.budgets.llmCallsUsed;
    return { output: { n: answer.json.n, action: asked.action, refused: typeof refused, id, pieces, left } };
  },
};

export const provider: ToolProvider = {
  getTools: () => [{ name: 'sum', parameters: { type: 'object' } }],
  validateArguments: (name, { a }) => (typeof a === 'number' ? [] : [`${name}: a must be a number`]),
  async execute(name, args, ctx) {
    // @ts-expect-error: there may be no caller
    ctx.context.userId;
    // @ts-expect-error: models are for steps
    ctx.llm;
    return { content: `${name} for ${ctx.context?.userId}`, data: args, sources: [{ url: 'https://example.com' }] };
  },
};

export const prompts: PromptProvider = {
  getPromptOverrides: (ctx) => ({ researcher: `Be quick: ${ctx.budgets.remainingTimeMs} ms.`, synthesizer: { replace: 'Write.' } }),
};
// @ts-expect-error: no such agent
export const unknown: PromptProvider = { getPromptOverrides: () => ({ writer: 'Write.' }) };

export const customizer: PipelineCustomizer = {
  initialize: ({ name, version, log }) => log(`${name} ${version ?? ''}`),
  getPipelineConfig: async ({ context }) =>
    context.researchType === 'light' ? { startAgent: 'a', agents: [{ name: 'a', type: 'custom', plugin: 'fast' }] } : null,
  getPipelineCustomizations: () => ({ disabledAgents: ['background'], agentOverrides: { researcher: { config: { n: 1 } } } }),
  getPhases: () => [{ name: 'facts', plugin: 'fact-check', after: 'researcher' }],
};
// @ts-expect-error: phases have a plugin
export const nothing: PipelineCustomizer = { getPhases: () => [{ name: 'f', after: 'a' }] };

export const memo: OutputTypeProvider = {
  getOutputSchema: () => ({ type: 'object', properties: { sources: { type: 'array' } } }),
  getSynthesizerConfig: () => ({ maxTokens: 12000, temperature: 0.2, outputFormat: 'json' }),
  getSynthesizerPrompt: ({ run }) => `Write for ${run.pipeline}: {query}`,
};
// @ts-expect-error: a schema is needed
export const shapeless: OutputTypeProvider = { getSynthesizerPrompt: () => null };

export const createPlugin: CreatePlugin<PhasePlugin> = ({ log }) => ({ execute: () => log('ran'), shutdown() {} });
export const all: Lifecycle[] = [phase as Lifecycle, provider, prompts, customizer, memo];
