// @ts-check
// A step of a pipeline: calls tools that the pipeline includes, and returns the output of the run.

/** @type {import('./hawsepipe-plugin.d.ts').Execute} */
export async function execute({ query }, ctx) {
  const answer = await ctx.callTool('everything__echo', { message: query });
  const texts = answer.content.map((block) => (block.type === 'text' ? block.text : ''));
  return { output: { text: texts.join('\n') } };
}
