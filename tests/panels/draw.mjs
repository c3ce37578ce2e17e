// Draws what Prometheus answered to the queries of the dashboards: `node draw.mjs MEASURED PICTURES`.
//
// MEASURED has a file for each dashboard, as the tests write it: the answers to the queries of each panel, in the order
// of the panels, and for a panel without data why. PICTURES gets an SVG file for each of them.

import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { optimize } from 'svgo';
import { chart } from './chart.mjs';
import { scaled } from './units.mjs';

/** The width of a column and the height of a row of Grafana's grid, in pixels. */
const [COLUMN, ROW] = [40, 26];
const GAP = 8;
const HEAD = 26;

const STYLE = `
text { font-family: system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #1f2328; }
.panel { fill: #ffffff; stroke: #d0d7de; }
.title { font-size: 13px; font-weight: 600; }
.unit, .none, .cell { font-size: 12px; }
.unit, .none, .role-axis-label text { fill: #59636e; }
.number { font-size: 30px; font-weight: 600; text-anchor: middle; }
.head { font-size: 12px; font-weight: 600; }
.end { text-anchor: end; }
.none { text-anchor: middle; }
.good .panel { fill: #1a7f37; }
.bad .panel { fill: #cf222e; }
.good text, .bad text { fill: #ffffff; }
.role-axis-grid *, .role-axis-domain { stroke: #d0d7de; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .panel { fill: #161b22; stroke: #3d444d; }
  .unit, .none, .role-axis-label text { fill: #9198a1; }
  .good .panel { fill: #1f6f33; }
  .bad .panel { fill: #b62324; }
  .role-axis-grid *, .role-axis-domain { stroke: #3d444d; }
}`;

/** What Vega writes for screen readers and for clicks, on each mark; panels have a title and a description. */
const UNUSED = '(aria-.*|pointer-events|font-family)';

const escaped = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const text = (x, y, kind, words) => `<text x="${x}" y="${y}" class="${kind}">${escaped(words)}</text>`;

/** The name of a line, as Grafana makes it. */
function named(metric, legend) {
  return legend.replace(/{{(\w+)}}/g, (_, label) => metric[label] ?? '').trim() || 'Value';
}

/** The lines of all queries of a panel: their names and points, in seconds since `start`; a point may have no value. */
function lines(panel, results, start) {
  return results.flatMap((series, query) => series.map(({ metric, values }) => {
    const points = values.map(([at, value]) => [at - start, Number.isFinite(Number(value)) ? Number(value) : null]);
    return { name: named(metric, panel.targets[query].legendFormat), points };
  })).filter(({ points }) => points.some(([, value]) => value !== null));
}

/** Text in lines of at most so many characters. */
function wrapped(words, most) {
  const rows = [''];
  for (const word of words.split(' ')) {
    if (rows.at(-1).length + word.length >= most) rows.push('');
    rows.push(`${rows.pop()} ${word}`.trim());
  }
  return rows;
}

/** What is drawn where a panel has no data. */
function empty({ width, height }, why) {
  const rows = wrapped(`No data: ${why}`, Math.floor(width / 7));
  const top = (HEAD + height - rows.length * 16) / 2 + 12;
  return { body: rows.map((row, index) => text(width / 2, top + index * 16, 'none', row)).join('') };
}

function number({ width, height }, panel, series) {
  const value = Number(series[0].value[1]);
  const { label, unit } = scaled(panel.fieldConfig.defaults.unit, value);
  const steps = panel.fieldConfig.defaults.thresholds?.steps;
  const color = steps?.findLast(({ value: from }) => from === null || value >= from).color;
  const kind = { red: 'bad', green: 'good' }[color];
  return { kind, unit, body: text(width / 2, HEAD + (height - HEAD) / 2 + 10, 'number', label(value)) };
}

/** The labels that say nothing of the gateway. */
const OF_SCRAPE = new Set(['__name__', 'job', 'instance']);
/** The width of a character of a cell, and between two columns. */
const [LETTER, SPACE] = [7.2, 16];

/** The columns of a table, each with its head and its cells. */
function columns(series) {
  const labels = new Set(series.flatMap(({ metric }) => Object.keys(metric)));
  const of = (label) => [label, ...series.map(({ metric }) => metric[label] ?? '')];
  const values = ['Value', ...series.map(({ value }) => scaled('short', 1).label(Number(value[1])))];
  return [...[...labels].filter((label) => !OF_SCRAPE.has(label)).map(of), values];
}

function table(series) {
  let x = 12;
  const drawn = columns(series).map((cells) => {
    const at = x;
    x += Math.max(...cells.map((cell) => cell.length)) * LETTER + SPACE;
    return cells.map((cell, row) => text(Math.round(at), HEAD + 18 + row * 18, row ? 'cell' : 'head', cell)).join('');
  });
  return { body: drawn.join('') };
}

async function graph({ width, height }, panel, all, seconds) {
  const most = Math.max(...all.flatMap(({ points }) => points.map(([, value]) => value)));
  const { divisor, unit } = scaled(panel.fieldConfig.defaults.unit, most);
  const stacked = panel.fieldConfig.defaults.custom.stacking.mode === 'normal';
  const drawn = await chart({ width: width - 2 * GAP, height: height - HEAD - GAP, lines: all, divisor, stacked, seconds });
  return { unit, body: `<g transform="translate(${GAP},${HEAD})">${drawn}</g>` };
}

async function inside(size, panel, { results, why }, start, seconds) {
  if (panel.type === 'timeseries') {
    const all = lines(panel, results, start);
    return all.length > 0 ? graph(size, panel, all, seconds) : empty(size, why);
  }
  const series = results.flat();
  if (series.length === 0) return empty(size, why);
  return panel.type === 'stat' ? number(size, panel, series) : table(series);
}

async function drawn(panel, answers, start, seconds) {
  const { x, y, w, h } = panel.gridPos;
  const size = { width: w * COLUMN - GAP, height: h * ROW - GAP };
  const { body, unit = '', kind = 'plain' } = await inside(size, panel, answers, start, seconds);
  const queries = panel.targets.map(({ expr }) => expr).join('\n');
  return `<g class="${kind}" transform="translate(${x * COLUMN + GAP / 2},${y * ROW + GAP / 2})">
    <title>${escaped(panel.title)}</title><desc>${escaped(`${panel.description}\n${queries}`)}</desc>
    <rect width="${size.width}" height="${size.height}" rx="4" class="panel"/>
    ${text(10, 18, 'title', panel.title)}${text(size.width - 10, 18, 'unit end', unit)}${body}</g>`;
}

async function picture(dashboard, { start, seconds, panels }) {
  const parts = [];
  for (const [index, panel] of dashboard.panels.entries()) parts.push(await drawn(panel, panels[index], start, seconds));
  const height = Math.max(...dashboard.panels.map(({ gridPos: { y, h } }) => y + h)) * ROW;
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${24 * COLUMN} ${height}" role="img">
    <title>${escaped(dashboard.title)}</title><style>${STYLE}</style>${parts.join('')}</svg>`;
  const overrides = { removeDesc: false, inlineStyles: false };
  const plugins = [{ name: 'removeAttrs', params: { attrs: UNUSED } }, { name: 'preset-default', params: { overrides } }];
  return optimize(svg, { multipass: true, floatPrecision: 1, plugins }).data;
}

const [measured, pictures] = process.argv.slice(2);
const dashboards = new URL('../../charts/hawsepipe/dashboards/', import.meta.url);
for (const file of readdirSync(measured).filter((name) => name.endsWith('.json'))) {
  const dashboard = JSON.parse(readFileSync(new URL(file, dashboards), 'utf8'));
  const svg = await picture(dashboard, JSON.parse(readFileSync(join(measured, file), 'utf8')));
  writeFileSync(join(pictures, file.replace('.json', '.svg')), `${svg}\n`);
}
