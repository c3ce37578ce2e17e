// A Transform in TypeScript: cuts long answers after a sentence. A plugin of your own imports the types from the file that
// `hawsepipe plugin types > hawsepipe-plugin.d.ts` writes beside it. Build it with `npx esbuild shorten.mts --format=esm
// --outfile=shorten.mjs` or with `tsc`, and name `shorten.mjs` in the manifest.
import type { Handler } from '../index.d.ts';

interface Config {
  maxCharacters: number;
}

export const onResponse: Handler<Config> = ({ rawContent, metadata }, ctx) => {
  const most = ctx.config?.maxCharacters ?? 2000;
  // JSON that is cut is no JSON.
  if (metadata.contentType === 'json' || rawContent.length <= most) return { text: rawContent, continue: true };
  const end = rawContent.lastIndexOf('. ', most - 1);
  const text = rawContent.slice(0, end < 0 ? most : end + 1);
  ctx.log.debug(`cut ${metadata.serverName} to ${text.length} characters`);
  return { text, continue: true, metadata: { cut: rawContent.length - text.length } };
};
