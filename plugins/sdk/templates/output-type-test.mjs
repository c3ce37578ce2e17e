test('the schema of the output has sources', () => {
  const { result, message } = run('--method', 'getOutputSchema');
  assert.equal(result?.properties.sources.type, 'array', message);
});
