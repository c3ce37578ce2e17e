test('of several blank lines, one is left', () => {
  const { outcome, text, message } = run('--text', 'a\n\n \n\nb');
  assert.equal(outcome, 'ran', message);
  assert.equal(text, 'a\n\nb');
});

test('a result of several blocks stays valid JSON', () => {
  const texts = (one) => JSON.stringify([{ type: 'text', text: one }, { type: 'text', text: 'c' }]);
  const { outcome, text, message } = run('--content-type', 'json', '--text', `{"content":${texts('a\n\n\nb')}}`);
  assert.equal(outcome, 'ran', message);
  assert.equal(text, `{"content":${texts('a\n\nb')}}`);
});
