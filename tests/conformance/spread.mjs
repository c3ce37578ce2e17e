// A load balancer without affinity: each request goes to the next of the servers, whichever client or session it is of.
//
//   node spread.mjs ORIGIN...   listens on a port of its own of localhost, and prints its URL as `{"url": ...}`
import http from 'node:http';

const servers = process.argv.slice(2).map((origin) => new URL(origin));
const agent = new http.Agent({ keepAlive: true });
let next = 0;

const spread = http.createServer((request, response) => {
  const server = servers[next++ % servers.length];
  const { method, headers, url: path } = request;
  const onward = http.request({ agent, host: server.hostname, port: server.port, method, path, headers });
  onward.on('response', (answer) => {
    response.writeHead(answer.statusCode, answer.rawHeaders);
    // Not only with the first bytes of the body, which a stream of events may have much later.
    response.flushHeaders();
    answer.pipe(response);
    answer.on('close', () => answer.complete || response.destroy());
  });
  onward.on('error', (error) => {
    if (response.headersSent) response.destroy();
    else response.writeHead(502).end(String(error));
  });
  response.on('close', () => onward.destroy());
  request.pipe(onward);
});
// The suite has streams on which nothing comes for a while, and a connection that is idle.
spread.requestTimeout = 0;
spread.listen(0, 'localhost', () => console.log(JSON.stringify({ url: `http://localhost:${spread.address().port}` })));
