// Preloaded before a Once or Lines script. Standard output is a pipe, to which Node.js writes without blocking. Output
// that does not fit in the pipe and is still queued at `process.exit()` would be lost. A blocking pipe prevents this.
// Standard input is not touched: merely reading the property process.stdin would make it non-blocking, and
// `readFileSync(0)` would then fail.
'use strict';
for (const stream of [process.stdout, process.stderr]) stream._handle?.setBlocking?.(true);
