// What the states of the last half minute say: rates, taken over a second each from counters that run from the start.

/** Seconds that the charts show. */
export const WINDOW_S = 30;
/** Over which a rate is taken. */
const RATE_MS = 1000;
/** Below which there is no telling. */
const LEAST_MS = 900;

export class History {
  /** Oldest first: `{ at, cut, admitted, offered, level, members, datagrams }`, where lists are by node. */
  points = [];
  /** The last state, as it came. */
  last = null;
  #states = [];

  /** Returns whether the state is news: after the link was lost some come again. */
  push(state) {
    if (this.last && state.at_ms <= this.last.at_ms) return false;
    const before = this.#before(state.at_ms - RATE_MS);
    this.#states.push(state);
    this.last = state;
    if (before && state.at_ms - before.at_ms >= LEAST_MS) this.points.push(point(before, state));
    const oldest = state.at_ms - (WINDOW_S + 2) * 1000;
    while (this.points.length && this.points[0].at < oldest) this.points.shift();
    while (this.#states.length && this.#states[0].at_ms < oldest) this.#states.shift();
    return true;
  }

  /** The last point; undefined as long as there is none. */
  get now() {
    return this.points.at(-1);
  }

  /** Nodes in the order in which they are stacked: those of a side together. */
  get order() {
    const nodes = this.last.nodes.map((node, index) => ({ index, side: node.side }));
    return nodes.sort((a, b) => a.side.localeCompare(b.side) || a.index - b.index).map(({ index }) => index);
  }

  clear() {
    this.points = [];
    this.#states = [];
    this.last = null;
  }

  /** The last state up to `at`, else the first one. */
  #before(at) {
    const states = this.#states;
    let index = states.length - 1;
    while (index > 0 && states[index].at_ms > at) index -= 1;
    return states[index];
  }
}

function point(before, state) {
  const seconds = (state.at_ms - before.at_ms) / 1000;
  const rate = (now, then) => (now - (then ?? 0)) / seconds;
  const rates = (field) => state.nodes.map((node, index) => rate(node[field], before.nodes[index]?.[field]));
  const datagram = (field) => rate(state.datagrams[field], before.datagrams[field]);
  return {
    at: state.at_ms,
    cut: state.cut,
    sides: state.nodes.map((node) => node.side),
    admitted: rates('admitted'),
    offered: rates('offered'),
    level: state.nodes.map((node) => node.level),
    members: state.nodes.map((node) => (node.up ? node.members.length : null)),
    datagrams: { delivered: datagram('delivered'), missing: datagram('lost') + datagram('cut') },
  };
}

export const total = (list) => list.reduce((sum, value) => sum + value, 0);
