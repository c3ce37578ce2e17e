test('it notes the size of an answer, and changes nothing', () => {
  const { role, outcome, text, metadata, log, message } = run('--text', 'hello', '--tool', 'files/read_file');
  assert.equal(outcome, 'ran', message);
  assert.deepEqual([text, metadata, log[0].text], ['hello', { characters: 5 }, 'files/read_file: 5 characters']);
  assert.equal(role, 'Observe', 'the role that runs beside calls');
});
