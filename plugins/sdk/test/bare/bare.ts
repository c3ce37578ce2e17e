// The types where a program knows neither Node's globals nor a browser's.
import type { Context, Handler } from 'hawsepipe-plugin';

declare const ctx: Context;

const aborted: boolean = ctx.signal.aborted;
const status: Promise<number> = ctx.fetch('https://example.com', { signal: ctx.signal }).then((answer) => answer.status);

export const handler: Handler = async ({ rawContent }, { fetch }) => {
  const answer = await fetch('https://example.com', { method: 'POST', body: rawContent });
  return { text: await answer.text(), continue: !aborted && (await status) === 200 };
};
