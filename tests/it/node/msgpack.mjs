// As much of MessagePack as the contract needs, and a loop around `answer` that speaks it on standard input and output.
import { writeSync } from 'node:fs';

export function decode(bytes) {
  let at = 0;
  const take = (length) => bytes.subarray(at, (at += length));
  const uint = (length) => Number(BigInt(`0x${take(length).toString('hex')}`));
  const text = (length) => take(length).toString('utf8');
  const list = (length) => Array.from({ length }, value);
  const map = (length) => Object.fromEntries(Array.from({ length }, () => [value(), value()]));
  function value() {
    const first = bytes[at++];
    if (first < 0x80) return first;
    if (first < 0x90) return map(first & 0x0f);
    if (first < 0xa0) return list(first & 0x0f);
    if (first < 0xc0) return text(first & 0x1f);
    if (first >= 0xe0) return first - 0x100;
    switch (first) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xcb: return take(8).readDoubleBE();
      case 0xcc: case 0xcd: case 0xce: case 0xcf: return uint(1 << (first - 0xcc));
      case 0xd9: case 0xda: case 0xdb: return text(uint(1 << (first - 0xd9)));
      case 0xdc: case 0xdd: return list(uint(2 << (first - 0xdc)));
      case 0xde: case 0xdf: return map(uint(2 << (first - 0xde)));
      default: throw new Error(`0x${first.toString(16)} is not of the contract`);
    }
  }
  return value();
}

const sized = (tag, length) => {
  const head = Buffer.alloc(5);
  head[0] = tag;
  head.writeUInt32BE(length, 1);
  return head;
};

export function encode(value) {
  if (value === null) return Buffer.of(0xc0);
  if (typeof value === 'boolean') return Buffer.of(value ? 0xc3 : 0xc2);
  if (typeof value === 'number') {
    const number = Buffer.alloc(9);
    number[0] = 0xcb;
    number.writeDoubleBE(value, 1);
    return number;
  }
  if (typeof value === 'string') return Buffer.concat([sized(0xdb, Buffer.byteLength(value)), Buffer.from(value)]);
  if (Array.isArray(value)) return Buffer.concat([sized(0xdd, value.length), ...value.map(encode)]);
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  return Buffer.concat([sized(0xdf, fields.length), ...fields.flat().map(encode)]);
}

export function send(message) {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(message.length);
  const frame = Buffer.concat([length, message]);
  for (let at = 0; at < frame.length;) at += writeSync(1, frame, at);
}

export async function serve(answer) {
  let held = Buffer.alloc(0);
  for await (const chunk of process.stdin) {
    held = Buffer.concat([held, chunk]);
    while (held.length >= 4 && held.length >= 4 + held.readUInt32BE()) {
      const end = 4 + held.readUInt32BE();
      send(answer(decode(held.subarray(4, end))));
      held = held.subarray(end);
    }
  }
}
