// What all charts have in common: a canvas, a scale, axes, lines and stripes.

import { WINDOW_S } from '/history.js';

export const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
const DIM = 0.25;

/** Colours of the style sheet, as they are in the present scheme. */
export function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    ink: color('ink'), muted: color('muted'), line: color('line'), surface: color('surface'), over: color('over'),
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
