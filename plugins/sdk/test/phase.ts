// A step of a pipeline: its state, what it may ask for, and what it returns.
import type { Execute, PhaseResult } from 'hawsepipe-plugin';

export const execute: Execute<{ server: string }> = async (state, ctx) => {
  const query: string = state.query;
  const before: 'success' | 'failed' | undefined = state.agents['main']?.status;
  const answer = await ctx.callTool(`${ctx.config?.server}__search`, { query });
  const { id } = await ctx.sources.add({ url: 'https://example.com/a', title: 'A', sourceType: 'web' });
  // @ts-expect-error: no such type
  await ctx.sources.add({ title: 'A', sourceType: 'blog' });
  // @ts-expect-error: it is frozen
  ctx.run.id = id;
  const depth: 'light' | 'medium' | 'extended' = ctx.context.researchType;
  const left: number = ctx.budgets.remainingToolCalls;
  const known: boolean = await ctx.sources.has('https://example.com/a');
  return { output: { answer: answer.content.length, before: before ?? null, depth, left, known } };
};

export const generator: Execute = async function* (state) {
  yield `looks for ${state.query}`;
  yield { message: 'almost' };
  return { decision: 'again', state: { pluginData: { seen: 1 } } };
};

// @ts-expect-error: an output is an object
export const text: PhaseResult = { output: 'text' };
