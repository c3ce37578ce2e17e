// @ts-check
// Observe: one line of log for each call it sees. Content goes to the log only where the configuration says so, and then
// at most `maxContent` characters of it, control characters escaped.

/** @type {import('hawsepipe-plugin').Handler<{ content?: boolean, maxContent?: number }>} */
export default async function log({ toolName, rawContent, metadata }, ctx) {
  const config = ctx.config ?? {};
  const line = {
    requestId: metadata.requestId,
    tool: toolName,
    phase: metadata.phase,
    contentType: metadata.contentType ?? null,
    bytes: Buffer.byteLength(rawContent),
  };
  if (config.content === true) line.content = rawContent.slice(0, Math.min(config.maxContent ?? 200, 2000));
  ctx.log(JSON.stringify(line));
  return { text: rawContent, continue: true };
}
