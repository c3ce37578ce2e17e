// What `hawsepipe plugin new` writes beside the code are the types themselves.
export * from '../index.js';
