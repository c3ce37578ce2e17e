// Loaded before a Once script. An answer counts together with the exit that follows it, and the system takes four times
// as long to clear away a process as the script takes to answer. So the code is said on standard output when the script
// can no longer change it: a zero byte, which no JSON has, the code, a newline. Whatever ends otherwise says nothing, and
// its status is waited for.
'use strict';
const { writeSync } = require('node:fs');
const { isMainThread } = require('node:worker_threads');

const { emit } = process;
// Threads load this too, and their end is not the script's.
if (isMainThread) Object.defineProperty(process, 'emit', {
  configurable: true,
  enumerable: false,
  writable: true,
  // Not a listener: those of the script come after it, and may print, and set the code.
  value: function (event, ...rest) {
    const heard = emit.call(this, event, ...rest);
    if (event === 'exit') {
      try {
        writeSync(1, `\0${Number(process.exitCode ?? rest[0] ?? 0) & 0xff}\n`);
      } catch {
        // The script has closed its standard output.
      }
    }
    return heard;
  },
});
