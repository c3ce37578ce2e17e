// A Guard: denies a call whose arguments have a key in them. The content is JSON, and is searched as it reads.

const KEY = /\b(?:sk-[\w-]{16,}|gh[pousr]_\w{20,}|AKIA[0-9A-Z]{16})\b/;

export function onRequest({ rawContent }) {
  let found = false;
  JSON.parse(rawContent, (name, value) => {
    found ||= KEY.test(name) || (typeof value === 'string' && KEY.test(value));
    return value;
  });
  if (!found) return { text: rawContent, continue: true };
  return { text: '[BLOCKED] A key is not remembered.', continue: false, error: 'the arguments have a key' };
}
