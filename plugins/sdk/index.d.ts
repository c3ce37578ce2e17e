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

/**
 * What a plugin of type `phase` exports as `execute`: a step of a ToolPipeline. What a generator yields is reported to the
 * client as progress.
 */
export type Execute<Config = JsonObject> = (
  state: PhaseState,
  ctx: PhaseContext<Config>,
) => PhaseResult | void | PromiseLike<PhaseResult | void> | AsyncGenerator<string | { message: string }, PhaseResult | void>;

/** What the steps of a run have found so far. */
export interface PhaseState {
  /** The argument `prompt`, or all arguments as JSON if there is none. */
  query: string;
  /** The arguments of the call. */
  arguments: JsonObject;
  /** How many agents have run, with this one. */
  iteration: number;
  plan: Json;
  observations: Json;
  pluginData: JsonObject;
  decision?: Json;
  /** The agents that have run. */
  agents: { [name: string]: { status: 'success' | 'failed'; result?: Json } };
  sources: Source[];
  output?: JsonObject;
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

/** What a step gets besides the state. It is frozen. */
export interface PhaseContext<Config = JsonObject> extends Context<Config> {
  readonly sources: {
    /** Adds a source, and returns its id. A URL that is there already keeps its id. */
    add(source: NewSource): Promise<{ id: string }>;
    list(): Promise<Source[]>;
    has(url: string): Promise<boolean>;
  };
  readonly budgets: {
    readonly toolCallsUsed: number;
    readonly maxToolCalls: number;
    readonly remainingToolCalls: number;
    readonly remainingTimeMs: number;
  };
  /** ResearchContext of document 002. */
  readonly context: {
    readonly userId: string;
    readonly chatId: string | null;
    readonly researchSessionId: string;
    readonly researchType: 'light' | 'medium' | 'extended';
  };
  readonly run: { readonly id: string; readonly pipeline: string; readonly step: string };
}

/** The functions of a plugin of type `tool-provider`, which makes the tools of an MCPUpstream. */
export interface ToolProvider<Config = JsonObject> {
  getTools(ctx: ProviderContext<Config>): ProvidedTool[] | PromiseLike<ProvidedTool[]>;
  execute(name: string, args: JsonObject, ctx: ProviderContext<Config>): ProvidedResult | PromiseLike<ProvidedResult>;
  /** Returns what is wrong with the arguments. If anything is, `execute` is not called. */
  validateArguments?(name: string, args: JsonObject, ctx: ProviderContext<Config>): string[] | PromiseLike<string[]>;
  /** Runs once in each worker, before the first of the others. */
  initialize?(given: { config: Config | undefined; log: Log }): void | PromiseLike<void>;
  /** Runs before a worker ends whose plugin was replaced, changed or idle. It has a second. */
  shutdown?(): void | PromiseLike<void>;
}

/** What a tool provider gets besides its arguments. `context` is null during `getTools`. */
export interface ProviderContext<Config = JsonObject> extends Context<Config> {
  readonly requestId: string;
  readonly context: Pick<PhaseContext['context'], 'userId' | 'chatId' | 'researchSessionId'> | null;
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

/** Where a source was found. */
export type SourceType = 'web' | 'vector_search' | 'knowledge_assistant' | 'custom';

/** A source to add: with a URL, a title or both. */
export interface NewSource {
  url?: string;
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
  code: number;
  data?: Json;
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
