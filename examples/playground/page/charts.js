// The charts. Each is drawn anew from the points of a history, as of an instant.

import { FONT } from '/frame.js';
import { total } from '/history.js';

/** What each node admits, stacked, with the quota as the line that the sum should not cross. The scale is in quotas. */
export function drawAdmitted(frame) {
  const { ctx, points, palette, last, box } = frame;
  const quota = last.rate;
  const sums = points.map((point) => total(point.admitted));
  frame.scale(Math.max(quota * 1.55, Math.max(...sums) * 1.08), { left: 64, head: 44 });

  const step = Math.max(1, niceTick(frame.top / quota / 6));
  for (let times = Math.max(2, step); times * quota <= frame.top; times += step) frame.grid(times * quota, `${times} ×`);
  frame.grid(0, '0');

  let lower = points.map(() => 0);
  let seam = null;
  const order = frame.view.history.order;
  frame.inside(() => {
    order.forEach((node, place) => {
      const upper = points.map((point, index) => lower[index] + (point.admitted[node] ?? 0));
      frame.area(lower, upper);
      ctx.globalAlpha = frame.alpha(node);
      ctx.fillStyle = palette.nodes[node % palette.nodes.length];
      ctx.fill();
      ctx.globalAlpha = 1;
      if (place > 0) {
        ctx.beginPath();
        frame.path(lower);
        ctx.strokeStyle = palette.surface;
        ctx.lineWidth = 1;
        ctx.stroke();
      }
      lower = upper;
      const next = order[place + 1];
      if (next !== undefined && last.nodes[node].side !== last.nodes[next].side) seam = upper;
    });

    // What is beyond the quota.
    const flat = points.map(() => quota);
    frame.area(flat, sums.map((sum) => Math.max(sum, quota)));
    frame.fillHatched();
    ctx.beginPath();
    frame.path(sums);
    ctx.strokeStyle = palette.ink;
    ctx.lineWidth = 1.5;
    ctx.stroke();
    if (seam) drawSeam(frame, seam);
  });
  frame.happened(2);
  if (last.cut && seam) nameHalves(frame, seam.at(-1), sums.at(-1));

  halo(frame, quota);
  frame.grid(quota, `${quota}/s`, { color: palette.ink, ink: palette.ink, width: 2 });
  frame.text('quota', box.left - 8, frame.y(quota) - 15, { align: 'right', color: palette.ink, weight: '600' });
  frame.times();
}

/** Where one half of a cut network ends in the stack. */
function drawSeam(frame, seam) {
  const { ctx, palette, points } = frame;
  const values = seam.map((value, index) => (points[index].cut ? value : null));
  for (const [color, width, dash] of [[palette.surface, 4, []], [palette.ink, 1.5, [5, 4]]]) {
    ctx.beginPath();
    frame.path(values);
    ctx.strokeStyle = color;
    ctx.lineWidth = width;
    ctx.setLineDash(dash);
    ctx.stroke();
  }
  ctx.setLineDash([]);
}

/** Sets the line of the quota off from what it crosses. */
function halo({ ctx, box, palette, y }, quota) {
  ctx.fillStyle = palette.surface;
  ctx.fillRect(box.left, Math.round(y(quota)) - 3, box.right - box.left, 6);
}

/** Says which half is which, where there is room. */
function nameHalves(frame, seam, sum) {
  const { ctx, box, palette } = frame;
  for (const [name, from, to] of [['half A', 0, seam], ['half B', seam, sum]]) {
    const [bottom, top] = [frame.y(from), frame.y(to)];
    if (bottom - top < 34) continue;
    const y = (bottom + top) / 2;
    ctx.font = `600 ${FONT}`;
    const width = ctx.measureText(name).width + 14;
    ctx.fillStyle = palette.surface;
    ctx.beginPath();
    ctx.roundRect(box.right - width - 8, y - 11, width, 22, 6);
    ctx.fill();
    frame.text(name, box.right - 8 - width / 2, y, { align: 'center', color: palette.ink, weight: '600' });
  }
}

function drawLines(frame, field, options) {
  const { ctx, points, palette, last } = frame;
  frame.inside(() => {
    last.nodes.forEach((_, node) => {
      ctx.beginPath();
      frame.path(points.map((point) => point[field][node]), options);
      ctx.globalAlpha = frame.alpha(node);
      ctx.strokeStyle = palette.nodes[node % palette.nodes.length];
      ctx.lineWidth = frame.view.chosen === node ? 3 : 2;
      ctx.stroke();
    });
    ctx.globalAlpha = 1;
  });
}

export function drawLevels(frame) {
  const { burst } = frame.last;
  frame.scale(burst * 1.06);
  frame.grid(0, '0');
  frame.grid(burst / 2, `${Math.round(burst / 2)}`);
  frame.grid(burst, `${burst}`);
  drawLines(frame, 'level');
  frame.times();
}

export function drawMembers(frame) {
  const most = frame.last.nodes.length;
  frame.scale(most * 1.12);
  frame.grid(0, '0');
  for (const value of new Set([Math.ceil(most / 2), most])) frame.grid(value, `${value}`);
  drawLines(frame, 'members', { step: true });
  frame.times();
}

export function drawDatagrams(frame) {
  const { ctx, points, palette } = frame;
  const delivered = points.map(({ datagrams }) => datagrams.delivered);
  const all = points.map(({ datagrams }) => datagrams.delivered + datagrams.missing);
  const most = Math.max(50, ...all);
  frame.scale(most * 1.1, { left: 40 });
  const tick = niceTick(frame.top / 2.5);
  for (let value = 0; value <= frame.top; value += tick) frame.grid(value, compact(value));
  frame.inside(() => {
    frame.area(points.map(() => 0), delivered);
    ctx.fillStyle = palette.nodes[3];
    ctx.fill();
    frame.area(delivered, all);
    frame.fillHatched();
  });
  frame.times();
}

/** 1, 2 or 5 times a power of ten, at least `value`. */
function niceTick(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((tick) => tick >= value);
}

const compact = (value) => (value >= 1000 ? `${Math.round(value / 100) / 10}k` : `${value}`);
