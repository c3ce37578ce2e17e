test('it counts words', () => {
  const { result, message } = run('--method', 'execute', '--input', '["count_words", {"text": "one two"}]');
  assert.deepEqual(result?.data, { words: 2 }, message);
});
