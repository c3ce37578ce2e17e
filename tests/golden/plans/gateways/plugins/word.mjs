export const word = 'plugins';
