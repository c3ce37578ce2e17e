// The part of the worker's side that serves plugins of a type other than middleware: how their functions are found, and
// what their `ctx` has besides. docs/pipelines.md describes both for authors.

const HINT = ' (a default export that is a function is called as one: export functions of the plugin by name)';

async function make(factory, given) {
  try {
    return await factory(given);
  } catch (error) {
    throw new TypeError(`its factory failed: ${error?.message ?? error}${HINT}`, { cause: error });
  }
}

// Finds the plugin's functions: what `createPlugin` or a default function gives, a default object, or the exports. Of each
// list in `required`, such as `getTools,execute`, it must have one: lists are separated by commas, names by `|`. `given` is what
// a factory gets.
export async function loadTyped(exported, required, given) {
  const factory = [exported.createPlugin, exported.default].find((value) => typeof value === 'function');
  const made = factory === undefined ? exported.default ?? exported : await make(factory, given);
  if (made === null || typeof made !== 'object') {
    throw new TypeError(`its factory gave ${made === null ? 'null' : 'no object'}${HINT}`);
  }
  for (const names of required.split(',')) {
    if (names.split('|').every((name) => typeof made[name] !== 'function')) {
      throw new TypeError(`it has no function ${names.replaceAll('|', ' or ')}${factory === undefined ? '' : HINT}`);
    }
  }
  return made;
}

// What functions give that a plugin need not have.
const ABSENT = {
  validateArguments: [], getPipelineConfig: null, getPipelineCustomizations: null, getPhases: null,
  getSynthesizerConfig: null, getSynthesizerPrompt: null,
};

// Freezes a value and all that is in it, which has no cycle.
function freeze(value) {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return;
  Object.values(value).forEach(freeze);
  Object.freeze(value);
}

// Runs a function of the plugin. The state of a run, which only a phase gets, is frozen. What a generator yields is reported as progress; what it returns is the result.
export async function callTyped(plugin, method, args, ctx) {
  const run = plugin[method];
  if (run === undefined && method in ABSENT) return ABSENT[method];
  if (typeof run !== 'function') throw new TypeError(`exports no function ${method}`);
  freeze(args[0]);
  const result = await run.call(plugin, ...args, ctx);
  if (typeof result?.next !== 'function' || typeof result[Symbol.asyncIterator] !== 'function') return result;
  for (let count = 1; ; count += 1) {
    const { done, value } = await result.next();
    if (done) return value;
    ctx.progress(count, undefined, typeof value === 'string' ? value : value?.message);
  }
}

// The error that requests of `ctx` other than `callTool` reject with. It holds the JSON-RPC error.
class CallbackError extends Error {
  constructor({ message, code, data }) {
    super(message);
    Object.assign(this, { name: 'CallbackError', code, data, reason: data?.reason });
  }
}

const ask = (call, op, args) => call.request({ op }, args, CallbackError);

// The values that the plugin stores. The gateway decides whose they are.
function storeOf(call, durable) {
  const request = (op, args) => ask(call, 'store', { op, ...args });
  return {
    durable,
    async get(key) {
      const { found } = await request('get', { key });
      if (found === null) return null;
      const { bytes, ...value } = found;
      return bytes === undefined ? value : { ...value, value: new Uint8Array(Buffer.from(bytes, 'base64')) };
    },
    async set(key, value, { ttlSeconds, ifVersion } = {}) {
      const isBytes = value instanceof Uint8Array;
      const given = isBytes ? { bytes: Buffer.from(value).toString('base64') } : { value: value === undefined ? null : value };
      return (await request('set', { key, ...given, ttlSeconds, ifVersion })).version;
    },
    delete: async (key) => (await request('delete', { key })).deleted,
    list: async (prefix = '', { limit, after } = {}) => (await request('list', { prefix, limit, after })).keys,
  };
}

// Makes the class of `ctx` from that of middleware.
export function typedContext(Context) {
  return class TypedContext extends Context {
    constructor(call, config, { budgets, ...given }) {
      super(call, config);
      Object.assign(this, given);
      const until = Date.now() + budgets.remainingTimeMs;
      let used = budgets.toolCallsUsed;
      const { callTool } = this;
      const calling = (tool, args) => {
        used += 1;
        const answered = callTool(tool, args);
        // Calls that the gateway does not admit are not counted.
        answered.catch((error) => {
          if (['ToolNotAllowed', 'BudgetExhausted'].includes(error?.data?.reason)) used -= 1;
        });
        return answered;
      };
      Object.defineProperty(this, 'callTool', { value: Object.freeze(calling) });
      let llmUsed = budgets.llmCallsUsed;
      const complete = async (role, request) => {
        llmUsed += 1;
        const { llmCallsUsed, ...answer } = await ask(call, 'llm', { ...request, role });
        llmUsed = Math.max(llmUsed, llmCallsUsed);
        return answer;
      };
      this.llm = (role) => Object.freeze({ complete: (request) => complete(role, request) });
      this.budgets = {
        maxLLMCalls: budgets.maxLLMCalls,
        get llmCallsUsed() { return llmUsed; },
        get remainingLLMCalls() { return Math.max(0, budgets.maxLLMCalls - llmUsed); },
        maxToolCalls: budgets.maxToolCalls,
        get toolCallsUsed() { return used; },
        get remainingToolCalls() { return Math.max(0, budgets.maxToolCalls - used); },
        get remainingTimeMs() { return Math.max(0, until - Date.now()); },
      };
      const list = async () => (await ask(call, 'sources', {})).sources;
      this.sources = {
        add: (source) => ask(call, 'sources', { add: source }),
        list,
        has: async (url) => (await list()).some((source) => source.url === url),
      };
      this.ask = (question) => ask(call, 'ask', question);
      if (given.store !== undefined) this.store = storeOf(call, given.store.durable);
      this.externalHelpers = {
        list: async () => (await ask(call, 'helper', {})).helpers,
        invoke: (id, input) => ask(call, 'helper', { id, input }),
      };
      this.evidence = {
        add: (evidence) => ask(call, 'evidence', { add: evidence }),
        list: async () => (await ask(call, 'evidence', {})).evidence,
      };
      freeze(this);
    }
  };
}
