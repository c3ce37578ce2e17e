// What names of JSON members say. They are compared without what nobody sees in them, without case and separators.

import { plain } from './fold.mjs';

const SECRET_NAMES = new Set('authorization proxyauthorization cookie setcookie'.split(' '));
const SECRET_ENDINGS =
  /(?:password|passwd|passphrase|passcode|clientsecret|apikey|secretkey|privatekey|accesskey|connectionstring)s?$/;
const SECRET_WORDS = /(?:(?:^|_)(?:pwd|secrets?|credentials?)|token|[a-z0-9]_pass)$/;
const NO_SECRET_WORDS = /page|continuation|cursor|sync|progress|max_/; // next_page_token, progressToken

const NAME_WORDS = new Set(
  'name key id field header label variable property parameter parametername parameterkey attribute k'.split(' '),
);
const VALUE_WORDS = new Set(
  'value values val v stringvalue parametervalue default plain plaintext raw data content text current'.split(' '),
);

/** Whether a JSON member of this name holds a secret: `password`, `db_password`, `apiKey`, `GITHUB_TOKEN`. */
export function isSecretName(name) {
  const words = plain(name)
    .replace(/(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/g, '_')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '_');
  const letters = words.replaceAll('_', '');
  if (SECRET_NAMES.has(letters) || SECRET_ENDINGS.test(letters)) return true;
  return SECRET_WORDS.test(words) && !NO_SECRET_WORDS.test(words);
}

/** Whether a member of this name says what the one beside it is: the `name` of {name, value}. */
export function isNameWord(name) {
  return NAME_WORDS.has(letters(name));
}

/** Whether a member of this name is what the one beside it, or the object's own name, speaks of. */
export function isValueWord(name) {
  return VALUE_WORDS.has(letters(name));
}

function letters(name) {
  return plain(name)
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '');
}
