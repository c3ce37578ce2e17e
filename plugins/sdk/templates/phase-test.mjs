test('its output has the text of the tool', () => {
  const mock = JSON.stringify({ everything__echo: { content: [{ type: 'text', text: 'hi' }] } });
  const { result, message } = run('--method', 'execute', '--input', '{"arguments": {"prompt": "hi"}}', '--mock', mock);
  assert.deepEqual(result?.output, { text: 'hi' }, message);
});
