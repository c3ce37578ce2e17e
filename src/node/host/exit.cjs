// Preloaded before a Once script. An answer only counts together with the exit code that follows it, but the system
// takes four times as long to remove a process as the script takes to answer. So this file announces the exit code on
// standard output as soon as the script can no longer change it: a zero byte, which JSON never contains, the code, and
// a newline. A process that ends in another way announces nothing, and the gateway waits for its exit status.
'use strict';
const { writeSync } = require('node:fs');
const { isMainThread } = require('node:worker_threads');

const { emit } = process;
// Worker threads load this file too, but the exit of a thread is not the exit of the script.
if (isMainThread) Object.defineProperty(process, 'emit', {
  configurable: true,
  enumerable: false,
  writable: true,
  // The code is not in a listener, because listeners of the script would run after it, and could still print and set
  // the exit code.
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
