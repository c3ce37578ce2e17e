// Contract 1.0: what a script reads, and what it prints.
import type { Input, Metadata, Output, Passed, Refused } from 'hawsepipe-plugin';

declare const input: Input;

// What is there is of its type, and nothing else is.
const toolName: string = input.toolName;
const limit: number | null = input.maxTokens;
const query: string | null = input.metadata.userQuery;
const style: unknown = input.metadata.config?.style;
// @ts-expect-error: there may be no limit
const always: number = input.maxTokens;
// @ts-expect-error: no such field
input.content;
// @ts-expect-error: there are two phases
const phase: 'after' = input.metadata.phase;

// The example of the contract is one, with what a gateway adds.
export const example: Input = {
  toolName: 'context7/get-docs',
  rawContent: '...',
  maxTokens: 1200,
  metadata: {
    requestId: 'req-xyz',
    timestamp: '2025-10-10T12:00:00Z',
    method: 'tools/call',
    serverName: 'context7',
    phase: 'response',
    userQuery: null,
    contentType: 'text',
    chain: 'default/answers',
    attempt: 1,
  },
};

// The five answers of the contract.
export const answers: Output[] = [
  { text: 'changed', continue: true, metadata: { tokensUsed: 1200 } },
  { text: input.rawContent, continue: true },
  { text: 'final', continue: false, metadata: { reason: 'content already optimal' } },
  { text: input.rawContent, continue: false, error: 'AI service unavailable' },
  { text: '', continue: true, error: null },
];

// @ts-expect-error: text is needed
export const noText: Output = { continue: true };
// @ts-expect-error: continue is needed
export const noContinue: Output = { text: '' };
// @ts-expect-error: an error ends the chain
export const both: Output = { text: '', continue: true, error: 'failed' };
// @ts-expect-error: an error is text
export const noWord: Output = { text: '', continue: false, error: new Error('failed') };
// @ts-expect-error: metadata is JSON
export const noJson: Output = { text: '', continue: true, metadata: { when: new Date() } };

export function judge(output: Output): Passed | string {
  return output.error == null ? output : output.error;
}

export const made: [string, number | null, string | null, unknown, Refused['continue']] =
  [toolName, limit, query, style, false];
export type Rest = [typeof always, typeof phase, Metadata];
