// A phase of a pipeline: reads a file with one tool, and gives its open tasks to another.

/** The text of a tool's result; throws if the tool failed. */
function textOf(result) {
  const text = result.content.map((block) => block.text ?? '').join('\n');
  if (result.isError) throw new Error(text);
  return text;
}

export async function execute({ arguments: { path } }, ctx) {
  const text = textOf(await ctx.callTool('files__read_text_file', { path }));
  const tasks = [...text.matchAll(/^- \[ \] (.+)$/gm)].map(([, task]) => task);
  if (tasks.length === 0) return { output: { noted: [] } };
  // A Guard answers in the place of the server, with `isError`, if it denies the call.
  const answer = await ctx.callTool('memory__create_entities', {
    entities: [{ name: path, entityType: 'tasks', observations: tasks }],
  });
  return { output: answer.isError ? { noted: [], denied: answer.content[0].text } : { noted: tasks } };
}
