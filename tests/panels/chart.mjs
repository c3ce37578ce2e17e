// One panel of lines, by Vega-Lite.

import { View, parse } from 'vega';
import { compile } from 'vega-lite';

/** Colors that are told apart on a light and on a dark ground. */
const COLORS = ['#2f81f7', '#e8590c', '#2da44e', '#a371f7', '#e5484d', '#0c9db0', '#bf8700', '#8b949e', '#d6409f', '#7a6ff0'];
/** Vega has no fonts here and takes each character for this share of the size: labels never overlap. */
const WIDE = 0.8;
const FONT = 11;

/** The columns of the legend in which its longest name fits. */
function columns(names, width) {
  const longest = Math.max(...names.map((name) => name.length));
  return Math.max(1, Math.min(4, Math.floor(width / (longest * FONT * WIDE + 26))));
}

/** The least top of the scale: a flat line of zeros is at its bottom. */
const top = (values) => (values.some(({ value }) => value > 0) ? {} : { domain: [0, 1] });

function spec({ width, height, lines, divisor, stacked, seconds }) {
  const names = lines.map(({ name }) => name);
  const values = lines.flatMap(({ name, points }) =>
    points.map(([at, value]) => ({ name, at: Math.round(at), value: value === null ? null : Number((value / divisor).toPrecision(4)) })));
  const axis = { title: null, ticks: false, labelFontSize: FONT, labelPadding: 4 };
  return {
    $schema: 'https://vega.github.io/schema/vega-lite/v6.json',
    width,
    height,
    autosize: { type: 'fit', contains: 'padding' },
    padding: 0,
    background: null,
    config: { view: { stroke: null } },
    data: { values },
    mark: stacked ? { type: 'area', line: { strokeWidth: 1.5 }, fillOpacity: 0.2 } : { type: 'line', strokeWidth: 1.5 },
    encoding: {
      x: {
        field: 'at',
        type: 'quantitative',
        scale: { domain: [0, seconds], nice: false },
        axis: { ...axis, grid: false, labelExpr: "datum.value + ' s'", labelFlush: true, values: [0, 1, 2, 3].map((n) => (n * seconds) / 3) },
      },
      y: {
        field: 'value',
        type: 'quantitative',
        stack: stacked ? 'zero' : null,
        scale: { zero: true, nice: 3, ...top(values) },
        axis: { ...axis, tickCount: 3, domain: false, format: ',.3~f' },
      },
      color: {
        field: 'name',
        type: 'nominal',
        scale: { domain: names, range: COLORS },
        legend: {
          title: null,
          orient: 'bottom',
          direction: 'horizontal',
          columns: columns(names, width),
          labelLimit: 1.3 * width,
          labelFontSize: FONT,
          symbolType: 'stroke',
          symbolStrokeWidth: 3,
          rowPadding: 1,
          offset: 6,
          padding: 0,
        },
      },
    },
  };
}

/** The SVG of a chart, without the element around it. */
export async function chart(panel) {
  const view = new View(parse(compile(spec(panel)).spec), { renderer: 'none' });
  const svg = await view.toSVG();
  return svg.replace(/^<svg[^>]*>/, '').replace(/<\/svg>$/, '');
}
