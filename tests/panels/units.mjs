// Grafana's units, as far as the dashboards use them.

const TIMES = [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs']];
const BYTES = [[2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB'], [1, 'B']];
const UNITS = {
  short: [[1, '']],
  ops: [[1, '/s']],
  reqps: [[1, 'calls/s']],
  percentunit: [[0.01, '%']],
  s: TIMES,
  bytes: BYTES,
  Bps: BYTES.map(([divisor, unit]) => [divisor, `${unit}/s`]),
};

/** The unit in which a value of this size is shown, and how. */
export function scaled(unit, value) {
  const steps = UNITS[unit];
  if (!steps) throw new Error(`units.mjs does not know the unit ${unit}`);
  const basic = steps.find(([least]) => least === 1) ?? steps[0];
  const [divisor, shown] = value > 0 ? (steps.find(([least]) => value >= least) ?? steps.at(-1)) : basic;
  const label = (value) => String(Number((value / divisor).toPrecision(3)));
  return { divisor, unit: shown, label };
}
