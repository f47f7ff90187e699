// The charts, on canvases. Each is drawn anew from the points of a history, as of an instant.

import { WINDOW_S, total } from '/history.js';

const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
const DIM = 0.25;

/** Colours of the style sheet, as they are in the present scheme. */
export function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    ink: color('ink'), muted: color('muted'), line: color('line'), surface: color('surface'), over: color('over'), overInk: color('over-ink'),
    nodes: Array.from({ length: 12 }, (_, index) => color(`node-${index + 1}`)),
  };
}

/** A canvas that is as sharp as the screen. `draw` gets the context and a frame. */
export class Chart {
  #canvas;
  #ctx;
  #draw;
  /** The upper end of the scale, which moves without jumps. */
  #top = 0;

  constructor(canvas, draw) {
    this.#canvas = canvas;
    this.#ctx = canvas.getContext('2d');
    this.#draw = draw;
  }

  /** `view`: history, at, palette, chosen (a node or null), calm (whether nothing may glide). */
  draw(view) {
    const { width, height } = this.#canvas.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    const [columns, rows] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (columns === 0 || rows === 0) return;
    if (this.#canvas.width !== columns || this.#canvas.height !== rows) {
      [this.#canvas.width, this.#canvas.height] = [columns, rows];
    }
    const ctx = this.#ctx;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, width, height);
    ctx.font = FONT;
    ctx.lineJoin = 'round';
    const points = visible(view.history.points, view.at);
    if (points.length > 1) this.#draw(new Frame(ctx, width, height, ratio, points, view, (top) => this.#glide(top, view.calm)));
  }

  #glide(top, calm) {
    const far = this.#top === 0 || calm || Math.abs(top - this.#top) < top * 0.002;
    this.#top = far ? top : this.#top + (top - this.#top) * 0.12;
    return this.#top;
  }
}

/** Those in the window, and one before it, so that lines begin at the edge. */
function visible(points, at) {
  const first = points.findIndex((point) => point.at >= at - WINDOW_S * 1000);
  return first < 0 ? [] : points.slice(Math.max(0, first - 1));
}

/** The last stripes: they are the same from frame to frame. */
let stripes = { color: '', ratio: 0, pattern: null };

/** Stripes in the colour of what is too much, as sharp as the screen. */
function hatch(color, ratio) {
  if (stripes.color === color && stripes.ratio === ratio) return stripes.pattern;
  const size = 7;
  const edge = Math.round(size * ratio);
  const tile = new OffscreenCanvas(edge, edge);
  const ctx = tile.getContext('2d');
  ctx.scale(edge / size, edge / size);
  ctx.strokeStyle = color;
  ctx.lineWidth = 1.6;
  for (const shift of [-size, 0, size]) {
    ctx.beginPath();
    ctx.moveTo(shift - 1, size + 1);
    ctx.lineTo(shift + size + 1, -1);
    ctx.stroke();
  }
  const pattern = ctx.createPattern(tile, 'repeat');
  pattern.setTransform(new DOMMatrix().scale(size / edge));
  stripes = { color, ratio, pattern };
  return pattern;
}

class Frame {
  constructor(ctx, width, height, ratio, points, view, glide) {
    Object.assign(this, { ctx, ratio, points, view, glide, palette: view.palette, last: view.history.last });
    this.box = { left: 0, right: width, top: 4, bottom: height - 20 };
  }

  /** Sets the margins and the scale. */
  scale(top, { left = 28, head = 4 } = {}) {
    this.box.left = left;
    this.box.top = head;
    this.top = this.glide(top);
  }

  x = (at) => this.box.right - ((this.view.at - at) / (WINDOW_S * 1000)) * (this.box.right - this.box.left);

  y = (value) => this.box.bottom - (value / this.top) * (this.box.bottom - this.box.top);

  alpha(node) {
    return this.view.chosen === null || this.view.chosen === node ? 1 : DIM;
  }

  /** Draws within the plot only. */
  inside(draw) {
    const { ctx, box } = this;
    ctx.save();
    ctx.beginPath();
    ctx.rect(box.left, 0, box.right - box.left, box.bottom + 1);
    ctx.clip();
    draw();
    ctx.restore();
  }

  text(text, x, y, { align = 'left', color = this.palette.muted, weight = '' } = {}) {
    const { ctx } = this;
    ctx.font = `${weight} ${FONT}`.trim();
    ctx.textAlign = align;
    ctx.textBaseline = 'middle';
    ctx.fillStyle = color;
    ctx.fillText(text, x, y);
  }

  grid(value, label, { color = this.palette.line, ink = this.palette.muted, width = 1 } = {}) {
    const { ctx, box } = this;
    const y = Math.round(this.y(value)) + (width % 2 ? 0.5 : 0);
    if (y < box.top - 1) return;
    ctx.strokeStyle = color;
    ctx.lineWidth = width;
    ctx.beginPath();
    ctx.moveTo(box.left, y);
    ctx.lineTo(box.right, y);
    ctx.stroke();
    this.text(label, box.left - 8, y, { align: 'right', color: ink, weight: width > 1 ? '600' : '' });
  }

  times() {
    const { box } = this;
    const y = box.bottom + 12;
    this.text('now', box.right, y, { align: 'right' });
    for (const seconds of [10, 20]) {
      this.text(`${seconds} s ago`, this.x(this.view.at - seconds * 1000), y, { align: 'center' });
    }
  }

  path(values, { step = false } = {}) {
    const { ctx } = this;
    let pen = false;
    let before;
    values.forEach((value, index) => {
      if (value === null || value === undefined) {
        pen = false;
        return;
      }
      const [x, y] = [this.x(this.points[index].at), this.y(value)];
      if (pen && step) ctx.lineTo(x, before);
      if (pen) ctx.lineTo(x, y);
      else ctx.moveTo(x, y);
      [pen, before] = [true, y];
    });
  }

  area(lower, upper) {
    const { ctx, points } = this;
    ctx.beginPath();
    upper.forEach((value, index) => ctx.lineTo(this.x(points[index].at), this.y(value)));
    for (let index = lower.length - 1; index >= 0; index -= 1) ctx.lineTo(this.x(points[index].at), this.y(lower[index]));
    ctx.closePath();
  }

  fillHatched() {
    const { ctx } = this;
    ctx.globalAlpha = 0.78;
    ctx.fillStyle = this.palette.surface;
    ctx.fill();
    ctx.globalAlpha = 1;
    ctx.fillStyle = hatch(this.palette.over, this.ratio);
    ctx.fill();
  }

  /** What somebody did, as marks on the time axis. Labels that would meet go to a second or third row. */
  happened(rows) {
    const { ctx, box, palette } = this;
    const ends = Array(rows).fill(-Infinity);
    for (const { at_ms: at, text } of this.last.happened) {
      const x = Math.round(this.x(at)) + 0.5;
      if (x < box.left || x > box.right) continue;
      ctx.font = FONT;
      const width = ctx.measureText(text).width;
      const start = Math.min(x + 4, box.right - width);
      const row = ends.findIndex((end) => end < start);
      const y = 8 + Math.max(row, 0) * 15;
      ctx.strokeStyle = palette.muted;
      ctx.lineWidth = 1;
      ctx.setLineDash([2, 3]);
      ctx.beginPath();
      ctx.moveTo(x, y + 7);
      ctx.lineTo(x, box.bottom);
      ctx.stroke();
      ctx.setLineDash([]);
      if (row < 0) continue;
      ends[row] = start + width + 10;
      this.text(text, start, y);
    }
  }
}

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
