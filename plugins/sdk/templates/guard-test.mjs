test('a request without the word passes unchanged', () => {
  const { role, outcome, changed, message } = run('--text', '{"message": "hello"}');
  assert.equal(outcome, 'ran', message);
  assert.equal(changed, false);
  assert.equal(role, 'Guard', 'the role that rejects calls if the plugin cannot run');
});

test('a request with the word is denied, also if JSON hides it', () => {
  for (const text of ['{"message": "It is Confidential."}', '{"a": [{"\\u0063onfidential": 1}]}']) {
    const { outcome, told, message } = run('--text', text);
    assert.equal(outcome, 'denied', message);
    assert.match(told, /^\[BLOCKED\]/);
  }
});
