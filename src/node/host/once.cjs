// Preloaded before a Once or Lines script. Standard output is a pipe, to which Node.js writes without blocking. Output
// that does not fit in the pipe and is still queued at `process.exit()` would be lost. A blocking pipe prevents this.
// Standard input is not touched: merely reading the property process.stdin would make it non-blocking, and
// `readFileSync(0)` would then fail.
'use strict';
const { isMainThread } = require('node:worker_threads');

for (const stream of [process.stdout, process.stderr]) stream._handle?.setBlocking?.(true);
// An error that nothing catches is described for the gateway before Node.js prints it, unless the script handles such errors
// itself. One that ends a thread reaches the main thread.
const folder = process.cwd();
if (isMainThread) process.on('uncaughtExceptionMonitor', (error) => {
  if (process.listenerCount('uncaughtException') === 0) require('./errors.cjs').report(error, true, folder);
});
