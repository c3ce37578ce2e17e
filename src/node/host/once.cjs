// Loaded before a Once script. Standard output is a pipe that Node writes without blocking, so what is still queued
// at `process.exit()` would be lost beyond 64 KiB; a blocking pipe keeps it whole. Standard input is not touched:
// merely naming process.stdin would make it non-blocking, and `readFileSync(0)` would then fail.
'use strict';
for (const stream of [process.stdout, process.stderr]) stream._handle?.setBlocking?.(true);
