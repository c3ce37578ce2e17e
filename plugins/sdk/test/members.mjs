// @ts-check
// A step that compares its arguments with their types. The lists have every member of the types, or the type check fails; the step
// returns the members that only a list or only an argument has. A test of the gateway runs it.

/** @typedef {import('hawsepipe-plugin').PhaseContext} Context */
/** @template Type @typedef {{ [Name in keyof Type]-?: 1 }} Members */

/** @type {{ ctx: Members<Context>, llm: Members<ReturnType<Context['llm']>> } & { state: Members<import('hawsepipe-plugin').PhaseState> } & { [Name in 'budgets' | 'context' | 'conversation' | 'evidence' | 'run' | 'sources' | 'store']: Members<Context[Name]> }} */
const typed = {
  ctx: {
    config: 1, log: 1, signal: 1, progress: 1, callTool: 1, fetch: 1, requestId: 1, run: 1, context: 1, budgets: 1, llm: 1,
    ask: 1, sources: 1, conversation: 1, store: 1, externalHelpers: 1, evidence: 1,
  },
  budgets: {
    toolCallsUsed: 1, maxToolCalls: 1, remainingToolCalls: 1, llmCallsUsed: 1, maxLLMCalls: 1, remainingLLMCalls: 1,
    remainingTimeMs: 1,
  },
  context: { userId: 1, chatId: 1, researchSessionId: 1, researchType: 1 },
  conversation: { id: 1 },
  evidence: { add: 1, list: 1 },
  llm: { complete: 1 },
  run: { id: 1, pipeline: 1, step: 1 },
  sources: { add: 1, list: 1, has: 1 },
  store: { durable: 1, get: 1, set: 1, delete: 1, list: 1 },
  state: {
    query: 1, arguments: 1, iteration: 1, plan: 1, decision: 1, observations: 1, agents: 1, sources: 1, pluginData: 1,
    output: 1,
  },
};

/** The names of an object's members, also of those that its classes define. @type {(object: object) => string[]} */
const names = (object) => {
  const above = Object.getPrototypeOf(object);
  const own = Object.getOwnPropertyNames(object).filter((name) => name !== 'constructor');
  return above === null || above === Object.prototype ? own : [...own, ...names(above)];
};

/** @type {import('hawsepipe-plugin').Execute} */
export const execute = (state, ctx) => {
  /** @type {{ [Name in keyof typeof typed]: object }} */
  const given = { ...ctx, ctx, state, budgets: ctx.budgets, llm: ctx.llm('complex') };
  /** @type {string[]} */
  const differ = [];
  for (const [part, members] of Object.entries(typed)) {
    const object = given[/** @type {keyof typeof typed} */ (part)];
    const found = new Set(names(object));
    const wanted = new Set(Object.keys(members));
    for (const name of [...found, ...wanted]) if (!found.has(name) || !wanted.has(name)) differ.push(`${part}.${name}`);
  }
  return { output: { differ } };
};
