// Preloaded before a plugin that lists no `egress`. A worker has no network: the system refuses each connection with a
// bare EPERM, or cannot resolve the name (EAI_AGAIN). This file adds advice to the error, and also logs the advice,
// once for each host and port and for at most 32 of them.
'use strict';
const net = require('node:net');

const MAX_TOLD = 32;
const told = new Set();

function explain(error, to) {
  const why = `the plugin lists no egress: add "${to}" to spec.egress if it may reach that`;
  if (told.size < MAX_TOLD && !told.has(to)) {
    told.add(to);
    console.warn(`may not connect to ${to}: ${why}`);
  }
  error.message = `${error.message || `connect ${error.code}`}: ${why}`;
}

const { connect } = net.Socket.prototype;
net.Socket.prototype.connect = function (...args) {
  const [options] = Array.isArray(args[0]) ? args[0] : net._normalizeArgs(args);
  if (options.path) return connect.apply(this, args);
  const { destroy } = this;
  this.destroy = (error, ...rest) => {
    this.destroy = destroy;
    if (error?.code === 'EPERM' || error?.code === 'EAI_AGAIN') explain(error, `${options.host || 'localhost'}:${options.port}`);
    return destroy.call(this, error, ...rest);
  };
  return connect.apply(this, args);
};
