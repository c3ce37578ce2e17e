export const word = 'code';
