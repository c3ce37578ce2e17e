test('the synthesizer of a light run is told to be short', () => {
  const { result, message } = run('--method', 'getPromptOverrides', '--input', '{"arguments": {"depth": "light"}}');
  assert.equal(result?.synthesizer, 'Write at most 200 words.', message);
});
