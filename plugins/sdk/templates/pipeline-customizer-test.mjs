test('a light run has no reflector', () => {
  const method = ['--method', 'getPipelineCustomizations'];
  const { result, message } = run(...method, '--input', '{"arguments": {"depth": "light"}}');
  assert.deepEqual(result?.disabledAgents, ['reflector'], message);
  const { outcome, result: other } = run(...method);
  assert.deepEqual([outcome, other], ['ran', undefined]);
});
