import { word } from './word.mjs';

export default () => ({ text: word, continue: true });
