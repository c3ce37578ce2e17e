// Writes the Grafana dashboards beside this file: `node generate.mjs`. With `--check` it writes nothing, and fails if a
// file is not what it would write.
//
// Each dashboard asks for a data source, namespaces and gateways. A gateway is known by the name of its pods, which
// begins with `NAME-gateway-`. With "All", series that have neither label count too, such as those of `hawsepipe run`.

import { readFileSync, readdirSync, writeFileSync } from 'node:fs';

const SOURCE = { type: 'prometheus', uid: '${datasource}' };
/** Selects the pods of the chosen gateways. */
const PODS = 'namespace=~"$namespace", pod=~"($gateway).*"';
/** The pods of the operator: every pod that says whether it leads. */
const OPERATOR = 'namespace=~"$namespace"';
const WIDTH = 24;

/** One query and the name of its lines. */
const q = (expr, legend = '') => ({ expr: expr.replaceAll('PODS', PODS).replaceAll('OPERATOR', OPERATOR), legend });

const rate = (metric, labels = '') => `rate(${metric}{PODS${labels}}[$__rate_interval])`;
const quantile = (q, metric, by = '', labels = '') =>
  `histogram_quantile(${q}, sum by (le${by && `, ${by}`}) (${rate(`${metric}_bucket`, labels)}))`;
const quantiles = (metric, labels = '') =>
  [0.5, 0.95, 0.99].map((at) => q(quantile(at, metric, '', labels), `p${at * 100}`));

function panel(type, title, description, queries, { unit = 'short', width = 8, height = 8, options, custom, thresholds }) {
  return {
    type,
    title,
    description,
    datasource: SOURCE,
    gridPos: { w: width, h: height },
    targets: queries.map(({ expr, legend }, index) => ({
      refId: String.fromCharCode(65 + index),
      datasource: SOURCE,
      expr,
      legendFormat: legend || '__auto',
      ...(type === 'timeseries' ? { range: true } : { instant: true }),
      ...(type === 'table' ? { format: 'table' } : {}),
    })),
    fieldConfig: {
      defaults: {
        unit,
        ...(custom ? { custom } : {}),
        ...(thresholds ? { thresholds: { mode: 'absolute', steps: thresholds }, color: { mode: 'thresholds' } } : {}),
      },
      overrides: [],
    },
    ...(options ? { options } : {}),
  };
}

const lines = (title, description, queries, more = {}) =>
  panel('timeseries', title, description, queries, {
    custom: { fillOpacity: more.stacked ? 20 : 0, stacking: { mode: more.stacked ? 'normal' : 'none' }, showPoints: 'never' },
    options: { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi', sort: 'desc' } },
    ...more,
  });
const stat = (title, description, query, more = {}) =>
  panel('stat', title, description, [query], {
    width: 4,
    height: 4,
    options: { reduceOptions: { calcs: ['lastNotNull'] }, colorMode: more.thresholds ? 'background' : 'value' },
    ...more,
  });
const table = (title, description, query, more = {}) =>
  panel('table', title, description, [query], { width: 12, options: { showHeader: true }, ...more });

const RED_ABOVE_0 = [{ color: 'green', value: null }, { color: 'red', value: 1 }];
const RED_BELOW_1 = [{ color: 'red', value: null }, { color: 'green', value: 1 }];

const variable = (name, label, metric, value, more = {}) => ({
  type: 'query',
  name,
  label,
  datasource: SOURCE,
  query: { refId: name, query: `label_values(${metric}, ${value})` },
  refresh: 2,
  sort: 1,
  multi: true,
  includeAll: true,
  allValue: '.*',
  current: { selected: true, text: ['All'], value: ['$__all'] },
  ...more,
});
const DATASOURCE = { type: 'datasource', name: 'datasource', label: 'Data source', query: 'prometheus' };
const NAMESPACE = variable('namespace', 'Namespace', 'hawsepipe_plan_info', 'namespace');
const GATEWAY = variable('gateway', 'Gateway', 'hawsepipe_plan_info{namespace=~"$namespace"}', 'pod', {
  regex: '/(?<value>(?<text>.+)-gateway-)[a-z0-9]+-[a-z0-9]+$/',
});
const OPERATORS = variable('namespace', 'Namespace', 'hawsepipe_leader', 'namespace');
const PLUGIN = variable('plugin', 'Plugin', 'hawsepipe_plugin_executions_total{namespace=~"$namespace"}', 'plugin', {
  multi: false,
  includeAll: false,
  allValue: undefined,
  current: {},
});

/** Puts panels into rows from left to right. */
function placed(panels) {
  let [x, y, height] = [0, 0, 0];
  return panels.map((panel, index) => {
    const { w, h } = panel.gridPos;
    if (x + w > WIDTH) [x, y, height] = [0, y + height, 0];
    const at = { ...panel, id: index + 1, gridPos: { x, y, w, h } };
    [x, height] = [x + w, Math.max(height, h)];
    return at;
  });
}

const dashboard = (name, title, description, variables, panels) => ({
  uid: `hawsepipe-${name}`,
  title: `Hawsepipe / ${title}`,
  description,
  tags: ['hawsepipe'],
  schemaVersion: 39,
  editable: true,
  graphTooltip: 1,
  refresh: '30s',
  time: { from: 'now-1h', to: 'now' },
  timezone: 'browser',
  links: [{ type: 'dashboards', title: 'Hawsepipe', tags: ['hawsepipe'], asDropdown: true, keepTime: true, includeVars: true }],
  templating: { list: [DATASOURCE, ...variables] },
  annotations: { list: [] },
  panels: placed(panels),
});

const RUN = 'hawsepipe_pipeline_run_duration_seconds';
const STEP = 'hawsepipe_pipeline_step_duration_seconds';
const MODEL = 'gen_ai_client_operation_duration_seconds';
const BAD = 'outcome=~"failed|refused|rpc_error|timeout"';

const DASHBOARDS = {
  overview: dashboard('overview', 'Overview', 'Calls through gateways, and what gateways hold.', [NAMESPACE, GATEWAY], [
    stat('Calls', 'Calls that ended, each second.', q(`sum(${rate('hawsepipe_calls_total')})`), { unit: 'reqps' }),
    stat('Not served', 'Share of calls that failed, were refused, timed out or ended with a JSON-RPC error.',
      q(`sum(${rate('hawsepipe_calls_total', `, ${BAD}`)}) / sum(${rate('hawsepipe_calls_total')})`), { unit: 'percentunit' }),
    stat('Denied', 'Calls that a plugin denied, each second.',
      q(`sum(${rate('hawsepipe_calls_total', ', outcome="denied"')})`), { unit: 'reqps' }),
    stat('p99', 'From the arrival of a call to its answer.', q(quantile(0.99, 'hawsepipe_call_duration_seconds')), { unit: 's' }),
    stat('In flight', 'Calls that are not answered yet.', q('sum(hawsepipe_calls_in_flight{PODS})')),
    stat('Pods', 'Gateways that report metrics.', q('count(hawsepipe_plan_info{PODS})')),
    lines('Calls by outcome', 'How calls ended.',
      [q(`sum by (outcome) (${rate('hawsepipe_calls_total')})`, '{{outcome}}')], { unit: 'reqps', stacked: true }),
    lines('Call duration', 'From the arrival of a call to its answer.', quantiles('hawsepipe_call_duration_seconds'), { unit: 's' }),
    lines('The gateway itself', 'What the gateway took of a call, without upstreams and plugins.',
      quantiles('hawsepipe_call_gateway_duration_seconds'), { unit: 's' }),
    lines('Busiest tools', 'The ten tools that are called most.',
      [q(`topk(10, sum by (upstream, tool) (${rate('hawsepipe_calls_total')}))`, '{{upstream}}/{{tool}}')], { unit: 'reqps' }),
    lines('Refused at admission', 'Calls that were not let in, and what else there was no place for, by reason.',
      [q(`sum by (reason) (${rate('hawsepipe_calls_refused_total')})`, '{{reason}}')], { unit: 'reqps' }),
    lines('Refused credentials', 'Requests without credentials, or whose credentials were not accepted, by reason.',
      [q(`sum by (listener, reason) (${rate('hawsepipe_authentications_total', ', outcome="refused"')})`, '{{listener}} {{reason}}')], { unit: 'reqps' }),
    lines('Denied by rules', 'Calls that the rules of gateways do not allow, by rule.',
      [q(`sum by (rule, effect) (${rate('hawsepipe_authorizations_total', ', effect!="Allow"')})`, '{{rule}} {{effect}}')], { unit: 'reqps' }),
    lines('Sessions and streams', 'Sessions of the legacy era, and event streams that are open.', [
      q('sum(hawsepipe_sessions{PODS})', 'sessions'),
      q('sum by (era) (hawsepipe_streams{PODS})', 'streams {{era}}'),
    ]),
    lines('Held for clients and upstreams', 'Bytes of the shared budget that are in use.',
      [q('sum by (what) (hawsepipe_held_bytes{PODS})', '{{what}}')], { unit: 'bytes', stacked: true }),
    lines('No room', 'Messages, answers and lists that there was no room for.',
      [q(`sum by (what) (${rate('hawsepipe_held_refused_total')})`, '{{what}}')], { unit: 'ops' }),
    lines('Spans of traces dropped', 'Spans that were not sent, by reason.',
      [q(`sum by (reason) (${rate('hawsepipe_trace_spans_dropped_total')})`, '{{reason}}')], { unit: 'ops' }),
    lines('Memory', 'Resident memory of the gateway process, without plugin workers.',
      [q('process_resident_memory_bytes{PODS} and on (namespace, pod, instance) hawsepipe_plan_info', '{{pod}} {{instance}}')],
      { unit: 'bytes', width: 12 }),
    lines('CPU', 'Cores that the gateway process uses, without plugin workers.',
      [q(`${rate('process_cpu_seconds_total')} and on (namespace, pod, instance) hawsepipe_plan_info`, '{{pod}} {{instance}}')],
      { width: 12 }),
    lines('History written', 'Rows that were written to the database of the history, and to the audit trail.', [
      q(`sum(${rate('hawsepipe_history_rows_total')})`, 'calls and executions'),
      q(`sum(${rate('hawsepipe_audit_rows_total')})`, 'audit'),
    ], { unit: 'ops', width: 6 }),
    lines('History waiting', 'Rows that wait to be written to the database.',
      [q('sum by (pod) (hawsepipe_history_queue_length{PODS})', '{{pod}}')], { width: 6 }),
    lines('History lost', 'Rows that were dropped before the database, and rows of the audit trail that were not stored.',
      [q(`sum by (store) (${rate('hawsepipe_history_dropped_total', ', store=~"database|audit"')})`, '{{store}}')], { unit: 'ops', width: 6 }),
    lines('Audit heads', 'The number of the last row of each chain of the audit trail. It falls when a process starts anew.',
      [q('max by (pod) (hawsepipe_audit_head_sequence{PODS})', '{{pod}}')], { width: 6 }),
  ]),
  chains: dashboard('chains', 'Chains and guards', 'What chains did to calls, and which of them refuse or fail open.', [NAMESPACE, GATEWAY], [
    stat('Refusing', 'Chains that refuse all calls that they select.',
      q('count(max by (chain) (hawsepipe_chain_refusing{PODS}) == 1) or vector(0)'), { thresholds: RED_ABOVE_0, width: 6 }),
    stat('Failing open', 'Chains with a Guard that is weakened.',
      q('count(max by (chain) (hawsepipe_chain_fails_open{PODS}) == 1) or vector(0)'), { thresholds: RED_ABOVE_0, width: 6 }),
    stat('Denied', 'Executions that denied a call, each second.',
      q(`sum(${rate('hawsepipe_plugin_executions_total', ', status="denied"')})`), { unit: 'ops', width: 6 }),
    stat('Failed', 'Executions that failed, each second.',
      q(`sum(${rate('hawsepipe_plugin_executions_total', ', status=~"failed|timeout|pool_exhausted"')})`), { unit: 'ops', width: 6 }),
    table('Chains that refuse', 'With the reason; every call that they select is refused.',
      q('max by (namespace, chain, reason) (hawsepipe_chain_refusing{PODS}) == 1')),
    table('Chains that fail open', 'With the reason; a Guard of theirs does not hold calls back.',
      q('max by (namespace, chain, reason) (hawsepipe_chain_fails_open{PODS}) == 1')),
    lines('Entries by status', 'What became of entries of chains on calls.',
      [q(`sum by (status) (${rate('hawsepipe_plugin_executions_total', ', mode="enforce"')})`, '{{status}}')], { unit: 'ops', stacked: true }),
    lines('Denials', 'By chain and plugin.',
      [q(`sum by (chain, plugin) (${rate('hawsepipe_plugin_executions_total', ', mode="enforce", status="denied"')})`, '{{chain}}: {{plugin}}')], { unit: 'ops' }),
    lines('Failures', 'By chain, plugin and reason.',
      [q(`sum by (chain, plugin, reason) (${rate('hawsepipe_plugin_executions_total', ', mode="enforce", status=~"failed|timeout|pool_exhausted"')})`, '{{chain}}: {{plugin}} {{reason}}')], { unit: 'ops' }),
    lines('Skipped', 'Entries that did not run, by reason.',
      [q(`sum by (chain, reason) (${rate('hawsepipe_plugin_executions_total', ', status="skipped"')})`, '{{chain}} {{reason}}')], { unit: 'ops' }),
    lines('Shadows', 'Entries that run without effect, by what they would have done.',
      [q(`sum by (chain, plugin, status) (${rate('hawsepipe_plugin_executions_total', ', mode="shadow"')})`, '{{chain}}: {{plugin}} {{status}}')], { unit: 'ops' }),
    lines('Execution p99', 'In a worker, by chain.',
      [q(quantile(0.99, 'hawsepipe_plugin_execution_duration_seconds', 'chain'), '{{chain}}')], { unit: 's' }),
  ]),
  plugin: dashboard('plugin', 'One plugin', 'Executions and workers of one plugin.', [NAMESPACE, GATEWAY, PLUGIN], [
    lines('Executions by status', 'What became of its entries on calls.',
      [q(`sum by (status) (${rate('hawsepipe_plugin_executions_total', ', plugin="$plugin"')})`, '{{status}}')], { unit: 'ops', stacked: true }),
    lines('In a worker', 'From getting a worker to its answer.', quantiles('hawsepipe_plugin_execution_duration_seconds', ', plugin="$plugin"'), { unit: 's' }),
    lines('In the queue', 'Until a worker was free.', quantiles('hawsepipe_plugin_queue_duration_seconds', ', plugin="$plugin"'), { unit: 's' }),
    lines('Workers', 'Processes by state.', [q('sum by (state) (hawsepipe_workers{PODS, plugin="$plugin"})', '{{state}}')], { stacked: true }),
    lines('Started and ended', 'Workers that were started, recycled and killed, by cause.', [
      q(`sum by (cause) (${rate('hawsepipe_worker_spawns_total', ', plugin="$plugin"')})`, 'started: {{cause}}'),
      q(`sum by (cause) (${rate('hawsepipe_worker_recycles_total', ', plugin="$plugin"')})`, 'recycled: {{cause}}'),
      q(`sum by (cause) (${rate('hawsepipe_worker_kills_total', ', plugin="$plugin"')})`, 'killed: {{cause}}'),
      q(`sum by (cause) (${rate('hawsepipe_worker_start_failures_total', ', plugin="$plugin"')})`, 'not started: {{cause}}'),
    ], { unit: 'ops' }),
    lines('Start', 'From the start of a worker to its readiness.', quantiles('hawsepipe_worker_start_duration_seconds', ', plugin="$plugin"'), { unit: 's' }),
    lines('Memory', 'Of its workers, without what they share.', [q('sum by (pod) (hawsepipe_worker_memory_bytes{PODS, plugin="$plugin"})', '{{pod}}')], { unit: 'bytes' }),
    lines('Content', 'Bytes into and out of the plugin.', [
      q(`sum by (phase) (${rate('hawsepipe_plugin_input_bytes_total', ', plugin="$plugin"')})`, 'in, {{phase}}'),
      q(`sum by (phase) (${rate('hawsepipe_plugin_output_bytes_total', ', plugin="$plugin"')})`, 'out, {{phase}}'),
    ], { unit: 'Bps' }),
    lines('Asked of the gateway', 'Tool calls, progress and connections of the plugin, by outcome.', [
      q(`sum by (callback, outcome) (${rate('hawsepipe_plugin_callbacks_total', ', plugin="$plugin"')})`, '{{callback}}: {{outcome}}'),
      q(`sum by (outcome) (${rate('hawsepipe_plugin_connections_total', ', plugin="$plugin"')})`, 'connection: {{outcome}}'),
    ], { unit: 'ops' }),
    lines('Connections', 'Bytes of its connections.',
      [q(`sum by (direction) (${rate('hawsepipe_plugin_connection_bytes_total', ', plugin="$plugin"')})`, '{{direction}}')], { unit: 'Bps', width: 12 }),
    lines('Executions of all plugins', 'How many run, may run and wait, in all pods together.', [
      q('sum(hawsepipe_plugin_permits_in_use{PODS})', 'run'),
      q('sum(hawsepipe_plugin_permits{PODS})', 'may run'),
      q('sum(hawsepipe_plugin_queue_length{PODS})', 'wait'),
    ], { width: 12 }),
  ]),
  upstreams: dashboard('upstreams', 'Upstreams', 'The MCP servers behind gateways.', [NAMESPACE, GATEWAY], [
    stat('Connected', 'Upstreams, counted in each pod.', q('sum(hawsepipe_upstream_state{PODS, state="Connected"})'), { height: 8 }),
    stat('In error', 'Upstreams, counted in each pod.', q('sum(hawsepipe_upstream_state{PODS, state="Error"})'), { thresholds: RED_ABOVE_0, height: 8 }),
    stat('Out of routing', 'Upstreams that pods took out of routing, counted in each pod.',
      q('sum(hawsepipe_upstream_auto_disabled{PODS})'), { thresholds: RED_ABOVE_0, height: 8 }),
    table('Not connected', 'State of each upstream that is not connected, by pod.',
      q('hawsepipe_upstream_state{PODS, state!="Connected"} == 1'), { height: 8 }),
    lines('Calls', 'By upstream.', [q(`sum by (upstream) (${rate('hawsepipe_calls_total', ', upstream!=""')})`, '{{upstream}}')], { unit: 'reqps' }),
    lines('Not served', 'Calls that failed, were refused, timed out or ended with a JSON-RPC error.',
      [q(`sum by (upstream, outcome) (${rate('hawsepipe_calls_total', `, upstream!="", ${BAD}`)})`, '{{upstream}} {{outcome}}')], { unit: 'reqps' }),
    lines('Call p99', 'From the arrival of a call to its answer.',
      [q(quantile(0.99, 'hawsepipe_call_duration_seconds', 'upstream', ', upstream!=""'), '{{upstream}}')], { unit: 's' }),
    lines('Failures', 'Probes and calls that failed.',
      [q(`sum by (upstream) (${rate('hawsepipe_upstream_failures_total')})`, '{{upstream}}')], { unit: 'ops' }),
    lines('Probe p99', 'Probes that succeeded.',
      [q(quantile(0.99, 'hawsepipe_upstream_ping_duration_seconds', 'upstream'), '{{upstream}}')], { unit: 's' }),
    lines('Dropped', 'Lines of server processes that were dropped, and messages that were not sent.', [
      q(`sum by (upstream, kind) (${rate('hawsepipe_upstream_lines_dropped_total')})`, '{{upstream}}: {{kind}}'),
      q(`sum by (upstream) (${rate('hawsepipe_upstream_messages_unsent_total')})`, '{{upstream}}: unsent'),
    ], { unit: 'ops' }),
  ]),
  pipelines: dashboard('pipelines', 'Pipelines', 'Runs of pipelines, their steps, and the models that they call.', [NAMESPACE, GATEWAY], [
    stat('Runs', 'Runs that ended, each second.', q(`sum(${rate(`${RUN}_count`)})`), { unit: 'ops' }),
    stat('Failed', 'Share of runs that failed.',
      q(`sum(${rate(`${RUN}_count`, ', outcome="failed"')}) / sum(${rate(`${RUN}_count`)})`), { unit: 'percentunit' }),
    stat('Run p95', 'From the arrival of a call to the output.', q(quantile(0.95, RUN)), { unit: 's' }),
    stat('Tool calls', 'Calls of tools by steps, each second.', q(`sum(${rate('hawsepipe_pipeline_tool_calls_total')})`), { unit: 'ops' }),
    stat('Calls of models', 'With their repetitions, each second.', q(`sum(${rate(`${MODEL}_count`)})`), { unit: 'ops' }),
    stat('Model p95', 'From the first request to the answer.', q(quantile(0.95, MODEL)), { unit: 's' }),
    lines('Runs by outcome', 'How runs ended.',
      [q(`sum by (outcome) (${rate(`${RUN}_count`)})`, '{{outcome}}')], { unit: 'ops', stacked: true }),
    lines('Run duration', 'From the arrival of a call to the output.', quantiles(RUN), { unit: 's' }),
    lines('Failed runs', 'By pipeline and reason.',
      [q(`sum by (pipeline, reason) (${rate(`${RUN}_count`, ', outcome="failed"')})`, '{{pipeline}} {{reason}}')], { unit: 'ops' }),
    lines('Step p95', 'With the calls that the step waited for.',
      [q(quantile(0.95, STEP, 'pipeline, step'), '{{pipeline}}/{{step}}')], { unit: 's' }),
    lines('Failed steps', 'By pipeline and step.',
      [q(`sum by (pipeline, step) (${rate(`${STEP}_count`, ', status="failed"')})`, '{{pipeline}}/{{step}}')], { unit: 'ops' }),
    lines('Tool calls of steps', 'By pipeline; each is a call of the upstream of the tool too.',
      [q(`sum by (pipeline) (${rate('hawsepipe_pipeline_tool_calls_total')})`, '{{pipeline}}')], { unit: 'ops' }),
    lines('Calls of models', 'By model, and by the reason if they failed.',
      [q(`sum by (gen_ai_request_model, error_type) (${rate(`${MODEL}_count`)})`, '{{gen_ai_request_model}} {{error_type}}')], { unit: 'ops' }),
    lines('Model duration p95', 'From the first request to the answer, by model.',
      [q(quantile(0.95, MODEL, 'gen_ai_request_model'), '{{gen_ai_request_model}}')], { unit: 's' }),
    lines('Tokens', 'By model, each second.',
      [q(`sum by (gen_ai_request_model, gen_ai_token_type) (${rate('gen_ai_client_token_usage_sum')})`, '{{gen_ai_request_model}} {{gen_ai_token_type}}')]),
  ]),
  'control-plane': dashboard('control-plane', 'Control plane', 'The operator, and what pods run of what it planned.', [OPERATORS], [
    stat('Leaders', 'Operators that lead; there should be one.', q('sum(hawsepipe_leader{OPERATOR})'), { thresholds: RED_BELOW_1, width: 6 }),
    stat('Operators', 'Operators that report metrics.', q('count(hawsepipe_leader{OPERATOR})'), { width: 6 }),
    stat('Problems', 'Errors in the plans that run, the most of any pod.', q('max(hawsepipe_plan_problems{level="error"})'), { thresholds: RED_ABOVE_0, width: 6 }),
    stat('Reconcile p99', 'From a change to written snapshots.',
      q('histogram_quantile(0.99, sum by (le) (rate(hawsepipe_reconcile_duration_seconds_bucket{OPERATOR}[$__rate_interval])))'), { unit: 's', width: 6 }),
    lines('Plans and statuses', 'Plans that were compiled and statuses that were written, by kind.',
      [q('sum by (kind, result) (rate(hawsepipe_reconciles_total{OPERATOR}[$__rate_interval]))', '{{kind}} {{result}}')], { unit: 'ops' }),
    lines('Errors', 'What could not be read or written, by kind.',
      [q('sum by (kind, result) (rate(hawsepipe_reconcile_errors_total{OPERATOR}[$__rate_interval]))', '{{kind}} {{result}}')], { unit: 'ops' }),
    lines('Reconcile duration', 'From a change to written snapshots.', [0.5, 0.95, 0.99].map((at) =>
      q(`histogram_quantile(${at}, sum by (le) (rate(hawsepipe_reconcile_duration_seconds_bucket{OPERATOR}[$__rate_interval])))`, `p${at * 100}`)), { unit: 's' }),
    table('Revisions that run', 'How many pods of each namespace run each revision of a plan.',
      q('count by (namespace, revision) (hawsepipe_plan_info)')),
    lines('Problems of plans', 'Of the plans that run, by level; the most of any pod.',
      [q('max by (namespace, level) (hawsepipe_plan_problems)', '{{namespace}} {{level}}')], { width: 12 }),
    lines('Putting a plan in force', 'In gateways, from its arrival.', [0.5, 0.99].map((at) =>
      q(`histogram_quantile(${at}, sum by (le) (rate(hawsepipe_plan_apply_duration_seconds_bucket[$__rate_interval])))`, `p${at * 100}`)), { unit: 's' }),
    lines('Memory', 'Resident memory of operators.',
      [q('process_resident_memory_bytes{OPERATOR} and on (namespace, pod, instance) hawsepipe_leader', '{{pod}} {{instance}}')], { unit: 'bytes' }),
    lines('CPU', 'Cores that operators use.',
      [q('rate(process_cpu_seconds_total{OPERATOR}[$__rate_interval]) and on (namespace, pod, instance) hawsepipe_leader', '{{pod}} {{instance}}')]),
  ]),
};

const folder = new URL('.', import.meta.url);
const files = Object.entries(DASHBOARDS).map(([name, made]) => [`${name}.json`, `${JSON.stringify(made, null, 2)}\n`]);
if (process.argv[2] === '--check') {
  const stale = files.filter(([name, text]) => {
    try {
      return readFileSync(new URL(name, folder), 'utf8') !== text;
    } catch {
      return true;
    }
  });
  const wanted = new Set(files.map(([name]) => name));
  const foreign = readdirSync(folder).filter((name) => name.endsWith('.json') && !wanted.has(name));
  const names = [...stale.map(([name]) => name), ...foreign];
  if (names.length > 0) {
    console.error(`stale: ${names.join(', ')}; run \`make dashboards\``);
    process.exit(1);
  }
} else {
  for (const [name, text] of files) writeFileSync(new URL(name, folder), text);
}
