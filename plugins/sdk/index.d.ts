// What a Hawsepipe plugin gets, what it may ask for, and what it answers. No dependencies: where the program that uses
// these types knows Node's or a browser's globals, `signal` and `fetch` are those; elsewhere the part of them below.

/** Any JSON value. */
export type Json = string | number | boolean | null | Json[] | JsonObject;

/** A JSON object. */
export type JsonObject = { [key: string]: Json };

/** When in a call a plugin runs: before it is sent, or on what came back. */
export type Phase = 'request' | 'response';

/**
 * What every plugin gets: the input of contract 1.0. A `Once` script reads it as one line of JSON, to the end of its
 * standard input; a `Lines` script reads one line, or one MessagePack value, after another; a `Module` gets it as the
 * first argument.
 */
export interface Input<Config = JsonObject> {
  /** `{server}/{tool}`, with the server's own name of the tool. */
  toolName: string;
  /**
   * The content. In the request phase the JSON text of the tool's arguments; in the response phase the text of the
   * result's only block, or the JSON text of the whole result: `metadata.contentType` says which.
   */
  rawContent: string;
  /** A limit above 0 for plugins that cut. */
  maxTokens: number | null;
  /** The rest. */
  metadata: Metadata<Config>;
}

/** The call that a plugin runs in. More may be added: ignore what you do not know. */
export interface Metadata<Config = JsonObject> {
  /** The same for every plugin of one call. */
  requestId: string;
  /** RFC 3339, UTC. */
  timestamp: string;
  /** The upstream server. */
  serverName: string;
  phase: Phase;
  /** What the user asked, where the client says so. */
  userQuery: string | null;
  /** What `rawContent` is. */
  contentType: 'text' | 'json';
  /** The plugin's configuration, with the chain entry's own keys on top; absent where there is none. */
  config?: Config;
  /** `namespace/name`. */
  chain: string;
  /** The method of the request, such as `tools/call`. */
  method: string;
  /** Always 1: chains run once, even if a call is sent again. */
  attempt: number;
}

/**
 * What every plugin answers: the output of contract 1.0. A script prints it as one line of JSON, and nothing else on
 * its standard output; a `Module` returns it.
 */
export type Output = Passed | Refused;

/** The content goes on. */
export interface Passed {
  /** The content that goes on: changed, or `rawContent` itself. */
  text: string;
  /** `false`: the chain's later entries are skipped, Guards excepted. */
  continue: boolean;
  /** For the record and the trace, at most 16 KiB: counts, never content. */
  metadata?: Json;
  error?: null;
}

/** In the request phase the call is denied, and the client sees `text`; in the response phase the plugin failed. */
export interface Refused {
  text: string;
  continue: false;
  /** Why, for the record. */
  error: string;
  metadata?: Json;
}

/** What a `Module` exports: as `default` for both phases, or as `onRequest` and `onResponse`. */
export type Handler<Config = JsonObject> = (
  input: Input<Config>,
  ctx: Context<Config>,
) => Output | PromiseLike<Output>;

/**
 * What a `Module` may export as `onResponseStream`, beside `onResponse`: it gets responses of more than 1 MiB (1,048,576
 * UTF-16 code units) in pieces. The strings that it yields are together the new text. Its return value may have the
 * members of an answer but `text`. The gateway checks and sends the text as a whole.
 */
export type StreamHandler<Config = JsonObject> = (
  chunks: AsyncIterable<string>,
  ctx: Context<Config> & { readonly input: Omit<Input<Config>, 'rawContent'> },
) => AsyncGenerator<string, Partial<Omit<Output, 'text'>> | void>;

/** What a `Module` may export as `warmup`: run once in each new worker, before its first call. */
export type Warmup = (ctx: { log: Log }) => void | PromiseLike<void>;

/** What a `Module` gets besides its input. It is of this call alone: after its answer nothing can be asked any more. */
export interface Context<Config = JsonObject> {
  /** The same as `metadata.config`. */
  config: Config | undefined;
  /** Writes to the gateway's log, tagged with the call. So does `console`. */
  log: Log;
  /** Aborted when nobody waits for the answer any more, and shortly before the deadline. */
  readonly signal: Signal;
  /** Tells the client how far the plugin is, where it asked for progress. */
  progress(progress: number, total?: number, message?: string): void;
  /**
   * Calls a tool by the name that the gateway lists it under (`{server}__{tool}`), as the caller of this call, through
   * the chains and limits of every call. Rejects with a `CallToolError` where the call is refused or ends in a JSON-RPC
   * error; a tool's own failure is a result with `isError`.
   */
  callTool(tool: string, args?: JsonObject): Promise<ToolResult>;
  /** `fetch`, ended with the call. Only to what the Plugin lists under `egress`. */
  fetch: Fetch;
}

/** What a plugin of a type other than middleware may export as `createPlugin`, or as `default`, in the place of its functions. */
export type CreatePlugin<Plugin extends Lifecycle, Config = JsonObject> = (given: {
  /** What the object and `plugin.json` say of the plugin, with the defaults. */
  descriptor: Descriptor;
  config?: Config;
  log: Log;
}) => Plugin | PromiseLike<Plugin>;

/** How a plugin describes itself: what `getDescriptor` returns, and a file `plugin.json` has. */
export interface Descriptor {
  /** The name of the Plugin. */
  id?: string;
  type?: string;
  name?: string;
  version?: string;
  /** One to three sentences. */
  description?: string;
  costClass?: 'cheap' | 'moderate' | 'expensive';
  usesLLM?: boolean;
  /** The roles that `ctx.llm` of a plugin of a stage accepts. */
  modelRoles?: string[];
  /** How many models one execution calls at most. */
  maxLLMCalls?: number;
  tags?: string[];
  plannerHints?: PlannerHints;
  provides?: string[];
  /** `chat-turn`, `source-text`. */
  accepts?: string[];
  /** Milliseconds; only from a `plugin.json`. */
  timeoutMs?: number;
}

/** How planners order plugins until there is experience. */
export interface PlannerHints {
  expectedLatencyMs?: number;
  expectedLLMCalls?: number;
  relativeCost?: number;
  supportedActs?: string[];
  topicTags?: string[];
  preferredDepth?: string;
  fallbackRole?: string;
  confidenceWhenMatched?: number;
}

/** The functions of a plugin of type `phase`: a step of a ToolPipeline. */
export interface PhasePlugin<Config = JsonObject> extends Lifecycle<Config> {
  execute: Execute<Config>;
}

/** `execute` of a plugin of type `phase`. What a generator yields is reported to the client as progress. */
export type Execute<Config = JsonObject> = (
  state: PhaseState,
  ctx: PhaseContext<Config>,
) => PhaseResult | void | PromiseLike<PhaseResult | void> | AsyncGenerator<string | { message: string }, PhaseResult | void>;

/** What the steps of a run have found so far. It is frozen, with all that is in it. */
export interface PhaseState {
  /** The argument `prompt`, or all arguments as JSON if there is none. */
  query: string;
  /** The arguments of the call. */
  arguments: JsonObject;
  /** How many agents have run, with this one. */
  iteration: number;
  /** `{}` before a step sets it. */
  plan: Json;
  /** `[]` before a step sets it. */
  observations: Json;
  pluginData: JsonObject;
  decision: Json;
  /** The agents that have run. */
  agents: { [name: string]: { status: 'success' | 'failed'; result: Json; error?: { reason: string; message: string } } };
  sources: Source[];
  output: JsonObject | null;
}

/** What a step returns: any of these members. */
export interface PhaseResult {
  /** The answer of the run. The last one counts. */
  output?: JsonObject;
  /** For conditions, and for other steps. */
  result?: Json;
  /** A JSON merge patch (RFC 7396). */
  state?: { plan?: Json; observations?: Json; pluginData?: JsonObject; decision?: Json };
  decision?: Json;
  sources?: NewSource[];
}

/** What a step gets besides the state. It is frozen too. Requests that the gateway refuses reject with a `CallbackError`. */
export interface PhaseContext<Config = JsonObject> extends Readonly<Context<Config>> {
  readonly requestId: string;
  readonly run: { readonly id: string; readonly pipeline: string; readonly step: string };
  /** ResearchContext of document 002. */
  readonly context: ResearchContext;
  /** The limits of the run, as they are now. */
  readonly budgets: Budgets;
  /** The language model of a role in `spec.models`. A step can have 4 requests in flight. */
  llm(role: string): Model;
  /**
   * Asks the user of the client (MCP: elicitation). Rejects with the reason `CannotAsk` if the client takes no questions, and
   * `InvalidAnswer` if the answer does not fit the schema.
   */
  ask(question: Question): Promise<QuestionAnswer>;
  /** The sources of the run. */
  readonly sources: {
    /** Adds a source, and returns its id. A URL that is there already keeps its id. */
    add(source: NewSource): Promise<{ id: string }>;
    list(): Promise<Source[]>;
    has(url: string): Promise<boolean>;
  };
  /** The conversation that the run belongs to. */
  readonly conversation: { readonly id: string };
  /** Values that last longer than the run, of this plugin. The pipeline's `store` and the caller decide whose they are. */
  readonly store: Store;
  /** Wrappers of the types of stages that the pipeline can use: programs of any language. */
  readonly externalHelpers: {
    list(): Promise<{ id: string; type: string; description: string | null }[]>;
    /** Runs one, and returns the result of its type. If it fails, the status is `error`. */
    invoke(id: string, input: { prompt: string; context?: Json[] }): Promise<any>;
  };
  /** Any JSON that the steps of a run share, at most 1000 pieces of 16 KiB. */
  readonly evidence: {
    add(evidence: Json): Promise<{ id: string }>;
    list(): Promise<Json[]>;
  };
}

/**
 * Values of a plugin, by keys of at most 512 bytes. A value is JSON or a Uint8Array, of at most 1 MiB. Requests reject with the
 * reasons StoreConflict, StoreFull, StoreReadOnly and StoreUnavailable.
 */
export interface Store {
  /** Whether values survive the gateway: it has a `history.store`. */
  readonly durable: boolean;
  /** The run's own value, else the one that all callers read, else null. */
  get(key: string): Promise<{ value: any; version: number } | null>;
  /** Returns the new version. With `ifVersion`, the stored value must have that version; 0 if there must be none. */
  set(key: string, value: Json | Uint8Array, options?: { ttlSeconds?: number; ifVersion?: number }): Promise<number>;
  /** Returns whether there was a value. */
  delete(key: string): Promise<boolean>;
  /** Lists keys in the order of their bytes, at most 1000. */
  list(prefix?: string, options?: { limit?: number; after?: string }): Promise<{ key: string; version: number; size: number }[]>;
}

/** Who calls, and in which run (document 002). */
export interface ResearchContext {
  /** The caller. */
  readonly userId: string;
  /** The conversation: the id of `ctx.conversation`. */
  readonly chatId: string;
  /** The id of the run. */
  readonly researchSessionId: string;
  /** The argument `depth`, or else medium. */
  readonly researchType: 'light' | 'medium' | 'extended';
}

/** What a run may still use. */
export interface Budgets {
  readonly toolCallsUsed: number;
  readonly maxToolCalls: number;
  readonly remainingToolCalls: number;
  readonly llmCallsUsed: number;
  readonly maxLLMCalls: number;
  readonly remainingLLMCalls: number;
  readonly remainingTimeMs: number;
}

/** A language model. */
export interface Model {
  complete(request: ModelRequest): Promise<ModelAnswer>;
}

/** A request to a model, in the words of chat completions. */
export interface ModelRequest {
  messages: ModelMessage[];
  /** Tools that the model can ask for. The plugin calls them, if it wants to. */
  tools?: { name: string; description?: string; parameters?: JsonObject }[];
  toolChoice?: Json;
  /** A JSON Schema of the answer. An answer that does not fit is asked for once more. */
  schema?: JsonObject;
  maxTokens?: number;
  temperature?: number;
  stop?: string | string[];
}

/** A message; other members go to the endpoint as they are. */
export interface ModelMessage {
  role: string;
  content: Json;
  [member: string]: Json;
}

/** What a model answered. */
export interface ModelAnswer {
  /** Empty if the model only asks for tools. */
  text: string;
  /** The text as JSON; null without a `schema`, or if the model asks for tools. */
  json: any;
  toolCalls: { id: string; name: string; arguments: JsonObject }[];
  /** In the endpoint's words, such as stop, length or tool_calls. */
  finishReason: string;
  usage: { promptTokens: number; completionTokens: number };
  /** The model, as its endpoint names it. */
  model: string;
}

/** A question for the user. */
export interface Question {
  message: string;
  /** A JSON Schema of an object whose properties are texts, numbers, booleans and choices, as MCP restricts it. */
  schema: JsonObject;
  /** After this time, the answer is `cancel`. Default: the time that is left for the run. */
  timeoutMs?: number;
}

/** What the user answered. */
export interface QuestionAnswer {
  action: 'accept' | 'decline' | 'cancel';
  /** The values; only with `accept`. */
  content?: JsonObject;
}

/** What a plugin of a type other than middleware can have besides. */
export interface Lifecycle<Config = JsonObject> {
  /** Runs in each worker before the plugin is loaded; if it throws, the plugin is not loaded. `config` is the Plugin's. */
  initialize?(given: { name: string; version?: string; config?: Config; log: Log }): void | PromiseLike<void>;
  /** Runs before a worker ends, also at the end of the gateway. It has a second. */
  shutdown?(): void | PromiseLike<void>;
  /** Called once in each worker. What it says counts where neither the object nor `plugin.json` says anything. */
  getDescriptor?(): Descriptor | PromiseLike<Descriptor>;
}

/** The input of each function of a stage of a planned pipeline. */
export interface StageInput {
  prompt: string;
  context: StageContext[];
}

/** A piece of context. */
export interface StageContext {
  title?: string;
  sourceLink?: string;
  text: string;
  [member: string]: any;
}

/** An error that a plugin of a stage reports. */
export interface StageError {
  code: string;
  message: string;
}

/** A task in a request. */
export interface Seed {
  id?: string;
  act: string;
  intent: string;
  output?: string;
}

/** The functions of a plugin of type `sd-plugin`, which finds tasks and facts in a request. */
export interface SeedDetector<Config = JsonObject> extends Lifecycle<Config> {
  detectSeeds(input: StageInput & { history: { role: string; content: string }[] }, ctx: PhaseContext<Config>): Stage<
    { status: 'success'; seeds: Seed[]; units?: StageContext[]; metadata?: JsonObject } | Failed<'unsupported'>
  >;
  normalizePersistentContext?(
    input: { text: string; name: string; sourceId: string; chunkId: string; chunkIndex: number },
    ctx: PhaseContext<Config>,
  ): Stage<{ status: 'success'; units: StageContext[] } | Failed<never>>;
}

/** The functions of a plugin of type `kb-plugin`, which finds context. */
export interface Retriever<Config = JsonObject> extends Lifecycle<Config> {
  retrieve(input: StageInput & { seeds: Seed[]; units: StageContext[] }, ctx: PhaseContext<Config>): Stage<
    | { status: 'success'; sufficient?: boolean; evidence: (StageContext & { id?: string; score?: number })[] }
    | Failed<'insufficient' | 'no-context' | 'unsupported'>
  >;
}

/** The functions of a plugin of type `gs-plugin`, which answers. `[n]` in the answer cites the n-th entry of the context. */
export interface GoalSolver<Config = JsonObject> extends Lifecycle<Config> {
  solve(input: StageInput & { seeds: Seed[] }, ctx: PhaseContext<Config>): Stage<
    | { status: 'success'; responseMarkdown: string; responseDocument?: JsonObject; metadata?: JsonObject }
    | Failed<'insufficient' | 'no-context' | 'unsupported' | 'needs-decomposition'>
  >;
}

/** The functions of a plugin of type `val-plugin`, which judges answers. */
export interface Validator<Config = JsonObject> extends Lifecycle<Config> {
  validate(
    input: StageInput & { responseMarkdown: string; responseDocument?: JsonObject },
    ctx: PhaseContext<Config>,
  ): Stage<{ status: 'accepted' | 'rejected'; reason?: string } | Failed<'unsupported'>>;
}

/** The functions of a plugin of type `mrp-plan-plugin`, which orders the plugins of the stages. */
export interface Planner<Config = JsonObject> extends Lifecycle<Config> {
  buildPlan(input: StageInput & { phase: 'post-seed' | 'post-kb'; [member: string]: any }, ctx: PhaseContext<Config>): Stage<
    { kbPluginOrder?: string[]; goalSolverOrder?: string[]; decompose?: boolean; notes?: string[] }
  >;
  recordOutcome?(outcome: JsonObject, ctx: PhaseContext<Config>): void | PromiseLike<void>;
}

type Stage<T> = T | PromiseLike<T>;
type Failed<Status> = { status: Status | 'error'; error?: StageError | null; [member: string]: any };

/** The functions of a plugin of type `tool-provider`, which makes the tools of an MCPUpstream. */
export interface ToolProvider<Config = JsonObject> extends Lifecycle<Config> {
  getTools(ctx: ProviderContext<Config>): ProvidedTool[] | PromiseLike<ProvidedTool[]>;
  execute(name: string, args: JsonObject, ctx: ProviderContext<Config>): ProvidedResult | PromiseLike<ProvidedResult>;
  /** Returns what is wrong with the arguments. If anything is, `execute` is not called. */
  validateArguments?(name: string, args: JsonObject, ctx: ProviderContext<Config>): string[] | PromiseLike<string[]>;
}

/** What a tool provider gets besides its arguments. It is frozen. `context` is null during `getTools`. */
export interface ProviderContext<Config = JsonObject> extends Readonly<Context<Config>> {
  readonly requestId: string;
  readonly context: Omit<ResearchContext, 'researchType'> | null;
  readonly budgets: Budgets;
}

/** A tool; `parameters` is the JSON Schema of its arguments. */
export interface ProvidedTool {
  name: string;
  description?: string;
  parameters?: JsonObject;
  title?: string;
  annotations?: JsonObject;
  outputSchema?: JsonObject;
}

/** The result of a tool. */
export interface ProvidedResult {
  content?: string;
  /** Default: true. */
  success?: boolean;
  /** The text of the result, if `content` is empty. */
  error?: string | null;
  sources?: NewSource[];
  /** The structured content. */
  data?: JsonObject;
}

/** The types of agents that need a language model and no plugin. */
export type AgentType = 'coordinator' | 'background' | 'planner' | 'researcher' | 'reflector' | 'synthesizer';

/** The functions of a plugin of type `prompt-provider`, which changes the system prompts of agents. */
export interface PromptProvider<Config = JsonObject> extends Lifecycle<Config> {
  getPromptOverrides(ctx: PhaseContext<Config>): Given<PromptOverrides>;
}

/** By type of agent: a text to append to the system prompt, or one that takes its place. */
export type PromptOverrides = { [Type in AgentType]?: string | { replace: string } };

/** The functions of a plugin of type `pipeline-customizer`, which changes a ToolPipeline for one run. One of them is enough. */
export interface PipelineCustomizer<Config = JsonObject> extends Lifecycle<Config> {
  getPipelineConfig?(ctx: PhaseContext<Config>): Given<CustomConfig>;
  /** Called only if there is no config. */
  getPipelineCustomizations?(ctx: PhaseContext<Config>): Given<CustomChanges>;
  getPhases?(ctx: PhaseContext<Config>): Given<CustomPhase[]>;
}

type Given<T> = T | null | PromiseLike<T | null>;

/** A pipeline in the place of the declared one. The limits can only be lower. */
export interface CustomConfig {
  /** Default: coordinator. */
  startAgent?: string;
  maxIterations?: number;
  timeoutSeconds?: number;
  agents: CustomAgent[];
}

/** An agent, with the fields of a manifest. */
export interface CustomAgent {
  /** Default: the type. */
  name?: string;
  type: AgentType | 'custom';
  enabled?: boolean;
  modelTier?: string;
  /** A plugin of type `phase` that the manifest names; for type `custom`. */
  plugin?: string;
  config?: JsonObject;
  nextOnSuccess?: string;
  nextOnFailure?: string;
  loopCondition?: string;
  loopBackTo?: string;
}

/** Changes of agents, by name, and more phases. */
export interface CustomChanges {
  disabledAgents?: string[];
  agentOverrides?: Record<string, { modelTier?: string; enabled?: boolean; config?: JsonObject }>;
  insertPhases?: CustomPhase[];
}

/** A plugin of type `phase` that the manifest names, before or after an agent. */
export interface CustomPhase {
  name: string;
  plugin: string;
  before?: string;
  after?: string;
  config?: JsonObject;
}

/** The functions of a plugin of type `output-type`, which defines the form of the output of a ToolPipeline. */
export interface OutputTypeProvider<Config = JsonObject> extends Lifecycle<Config> {
  /** Returns a JSON Schema of an object with a property `sources`. No client has called, so `context` is null. */
  getOutputSchema(ctx: ProviderContext<Config>): JsonObject | PromiseLike<JsonObject>;
  getSynthesizerConfig?(ctx: PhaseContext<Config>): Given<SynthesizerConfig>;
  /** Returns a system prompt. `{query}`, `{findings}`, `{sources}` and `{schema}` in it are replaced. */
  getSynthesizerPrompt?(ctx: PhaseContext<Config>): Given<string>;
}

/** How the output is written. What the manifest says takes precedence. */
export interface SynthesizerConfig {
  modelTier?: string;
  maxTokens?: number;
  temperature?: number;
  systemPromptAddition?: string;
  outputFormat?: 'json' | 'markdown';
  validationStrict?: boolean;
}

/** Where a source was found. */
export type SourceType = 'web' | 'vector_search' | 'knowledge_assistant' | 'custom';

/** A source to add: with a URL, a title or both. */
export interface NewSource {
  /** Absolute, of scheme http, https or file, and without credentials. */
  url?: string;
  /** Default: the URL. */
  title?: string;
  sourceType?: SourceType;
  sourceMetadata?: JsonObject;
}

/** A source of a run. */
export interface Source {
  id: string;
  url?: string;
  title: string;
  domain?: string;
  /** When the run found it, in RFC 3339. */
  fetchedAt?: string;
  sourceType: SourceType;
  sourceMetadata?: JsonObject;
}

/** `ctx.log(...)` is `ctx.log.info(...)`. Arguments are formatted as `console.log` does. */
export interface Log {
  (...words: unknown[]): void;
  debug(...words: unknown[]): void;
  info(...words: unknown[]): void;
  warn(...words: unknown[]): void;
  error(...words: unknown[]): void;
}

/** What a tool answered (MCP, CallToolResult). */
export interface ToolResult {
  content: ContentBlock[];
  structuredContent?: JsonObject;
  isError?: boolean;
  _meta?: JsonObject;
}

/** A block of a tool's result. */
export type ContentBlock =
  | { type: 'text'; text: string; _meta?: JsonObject }
  | { type: 'image' | 'audio'; data: string; mimeType: string; _meta?: JsonObject }
  | { type: 'resource'; resource: { uri: string; mimeType?: string; text?: string; blob?: string }; _meta?: JsonObject }
  | { type: 'resource_link'; uri: string; name: string; mimeType?: string; description?: string; _meta?: JsonObject };

/** What `callTool` rejects with: a JSON-RPC error. */
export interface CallToolError extends Error {
  name: 'CallToolError';
  /** Why the gateway refused the call; absent for an error of the server. */
  reason?: string;
  code: number;
  data?: Json;
}

/** What other requests of a step reject with, such as those of `llm` and `ask`. */
export interface CallbackError extends Error {
  name: 'CallbackError';
  code: number;
  data?: Json;
  /** The reason, such as ModelUnavailable or CannotAsk; undefined if the request itself is not valid. */
  reason: string | undefined;
}

/** `AbortSignal`, where the program knows it. */
export type Signal = typeof globalThis extends { AbortSignal: { prototype: infer Known } }
  ? Known
  : {
      readonly aborted: boolean;
      readonly reason: unknown;
      throwIfAborted(): void;
      addEventListener(type: 'abort', listener: () => void): void;
      removeEventListener(type: 'abort', listener: () => void): void;
    };

/** `fetch`, where the program knows it. */
export type Fetch = typeof globalThis extends { fetch: infer Known }
  ? Known
  : (
      url: string,
      init?: { method?: string; headers?: Record<string, string>; body?: string; signal?: Signal },
    ) => Promise<{
      readonly ok: boolean;
      readonly status: number;
      readonly headers: { get(name: string): string | null };
      json(): Promise<any>;
      text(): Promise<string>;
    }>;
