// The page: takes states as they come, shows them, and sends what is asked for.

import { drawAdmitted, drawDatagrams, drawLevels, drawMembers } from '/charts.js';
import { Chart, readPalette } from '/frame.js';
import { History, total } from '/history.js';
import { Slider } from '/slider.js';

/** Where a slider of load may stand, in requests per second. */
const LOADS = [0, 5, 10, 20, 30, 40, 50, 60, 80, 100, 150, 200, 300, 500, 750, 1000, 1500, 2000];
/** Above this many quotas the page says that it is too much. Below is what a second's chance makes of the quota. */
const OVER = 1.15;
/** Time between two changes of figures, which nobody could read ten times a second. */
const FIGURES_MS = 250;
/** How far behind charts are, so that the newest state is there when its time comes. */
const BEHIND_MS = 200;
const NEWS_MS = 6000;
/** When what came of something is told, after it happened: a cut shows in a second, a member is missed after some more. */
const OUTCOME_MS = 4000;
/** Time between two pictures for those who want no motion. */
const STILL_MS = 1000;
/** States that are older than the last one by more are of another playground at the same port. */
const STARTED_ANEW_MS = 60_000;

const byId = (id) => document.getElementById(id);
const history = new History();
const charts = [
  new Chart(byId('admitted'), drawAdmitted),
  new Chart(byId('levels'), drawLevels),
  new Chart(byId('members'), drawMembers),
  new Chart(byId('datagrams'), drawDatagrams),
];
const still = matchMedia('(prefers-reduced-motion: reduce)');
const dark = matchMedia('(prefers-color-scheme: dark)');
let palette = readPalette();
dark.addEventListener('change', () => { palette = readPalette(); });

// What is asked for.

let newsTimer;
function tell(text) {
  const news = byId('news');
  news.textContent = text;
  news.dataset.shown = 'true';
  clearTimeout(newsTimer);
  newsTimer = setTimeout(() => { news.dataset.shown = 'false'; }, NEWS_MS);
}

async function ask(command) {
  try {
    const answer = await fetch('/command', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(command),
    });
    if (!answer.ok) tell(`Not done: ${(await answer.json()).error}.`);
    return answer.ok;
  } catch {
    tell('Not done: the playground does not answer.');
    return false;
  }
}

const perSecond = { short: '/s', long: 'requests per second' };
const loss = new Slider(byId('loss'), byId('loss-value'), {
  stops: Array.from({ length: 21 }, (_, index) => index * 5),
  unit: { short: ' %', long: 'percent' },
  send: (percent) => ask({ do: 'loss', percent }),
});
byId('loss').step = 1;
const loadAll = new Slider(byId('load-all'), byId('load-all-value'), {
  stops: LOADS,
  unit: perSecond,
  send: (rate) => ask({ do: 'load', node: null, rate }),
});

byId('cut').addEventListener('click', () => ask({ do: 'cut', on: !history.last?.cut }));
byId('add').addEventListener('click', () => ask({ do: 'add' }));
const rules = [...document.querySelectorAll('input[name="rule"]')];
rules.forEach((rule) => rule.addEventListener('change', () => ask({ do: 'alone', on: rule.value === 'alone' })));

// Rows of nodes.

/** The node that the pointer or the keyboard is at, from 0. */
let chosen = null;

class Row {
  constructor(index) {
    const row = byId('row').content.cloneNode(true).querySelector('tr');
    const find = (selector) => row.querySelector(selector);
    Object.assign(this, {
      index, row, side: find('.side'), admits: find('.admits b'), bar: find('.bar'), level: find('.level span'),
      dots: find('.dots'), count: find('.count'), button: find('button'), up: true,
    });
    row.style.setProperty('--own', `var(--node-${(index % 12) + 1})`);
    this.name = `node-${index + 1}`;
    find('.name').textContent = this.name;
    const input = find('input');
    input.id = `load-${index + 1}`;
    find('label').htmlFor = input.id;
    find('label').textContent = `Load of ${this.name}`;
    this.slider = new Slider(input, find('.load .value'), {
      stops: LOADS,
      unit: perSecond,
      send: (rate) => ask({ do: 'load', node: index + 1, rate }),
    });
    this.button.addEventListener('click', () => ask({ do: this.up ? 'kill' : 'restart', node: index + 1 }));
    const choose = (on) => () => { if (on || chosen === index) chosen = on ? index : null; };
    for (const [event, on] of [['pointerenter', true], ['pointerleave', false], ['focusin', true], ['focusout', false]]) {
      row.addEventListener(event, choose(on));
    }
    byId('rows').append(row);
  }

  show(state, node, admitted) {
    this.up = node.up;
    this.row.dataset.up = node.up;
    set(this.side, state.cut ? `half ${node.side}` : node.up && !node.ready ? 'joins' : '');
    this.slider.show(node.load);
    set(this.admits, node.up ? `${Math.round(admitted)}/s` : '–');
    set(this.level, node.up ? `${node.level} of ${state.burst}` : 'down');
    this.bar.style.setProperty('--level', node.up ? node.level / state.burst : 0);
    this.#showMembers(state.nodes, node);
    set(this.button, node.up ? 'Kill' : 'Restart');
    const name = `${node.up ? 'Kill' : 'Restart'} ${this.name}`;
    if (this.button.getAttribute('aria-label') !== name) this.button.setAttribute('aria-label', name);
  }

  #showMembers(nodes, node) {
    while (this.dots.children.length < nodes.length) {
      const dot = document.createElement('i');
      dot.style.setProperty('--own', `var(--node-${(this.dots.children.length % 12) + 1})`);
      this.dots.append(dot);
    }
    const seen = new Map(node.members.map((member) => [member.node, member.suspect ? 'suspect' : 'yes']));
    nodes.forEach((other, index) => { this.dots.children[index].dataset.seen = seen.get(other.node) ?? 'no'; });
    set(this.count, node.up ? `${node.members.length}` : '–');
  }
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const rows = [];

function showRows(state, now) {
  while (rows.length > state.nodes.length) rows.pop().row.remove();
  while (rows.length < state.nodes.length) rows.push(new Row(rows.length));
  const order = history.order;
  let before = null;
  order.forEach((index, place) => {
    const { row } = rows[index];
    // Those of a half stand together. Moved only if need be: whoever is in a row keeps the focus.
    if (byId('rows').children[place] !== row) byId('rows').insertBefore(row, byId('rows').children[place]);
    const { side } = state.nodes[index];
    row.classList.toggle('first-of-b', state.cut && before === 'A' && side === 'B');
    before = side;
    rows[index].show(state, state.nodes[index], now?.admitted[index] ?? 0);
  });
}

// Figures.

function story(state, ratio, asked) {
  const up = state.nodes.filter((node) => node.up).length;
  const nodes = up === 1 ? 'One node' : `${up} nodes`;
  if (up === 0) return 'All nodes are down. Restart one.';
  if (state.alone) return `${nodes}, each for itself: up to ${up} × the quota gets through.`;
  if (state.cut) return 'The halves cannot hear each other, so each keeps the whole quota: up to 2 × in all.';
  if (asked < state.rate * 0.97) return 'Less is asked for than the quota allows: nobody is refused.';
  if (ratio > OVER) return 'The nodes are still telling each other what they admitted.';
  if (state.loss >= 50) return `${state.loss} % of all datagrams are lost. What arrives makes up for it as far as it can.`;
  return up === 1 ? 'One node holds the whole quota.' : `${nodes} admit together what one bucket would. No server was asked.`;
}

function showFigures(state, now) {
  showRows(state, now);
  loss.show(state.loss);
  const loads = new Set(state.nodes.map((node) => node.load));
  loadAll.show(loads.size === 1 ? state.nodes[0].load : null);
  set(byId('cut'), state.cut ? 'Heal the network' : 'Cut the network in two');
  byId('cut').dataset.on = state.cut;
  byId('add').setAttribute('aria-disabled', state.nodes.length >= state.most_nodes);
  rules.forEach((rule) => { rule.checked = (rule.value === 'alone') === state.alone; });
  set(byId('times'), `${state.nodes.filter((node) => node.up).length}`);
  if (!now) return;

  const [sum, asked] = [total(now.admitted), total(now.offered)];
  const ratio = sum / state.rate;
  set(byId('sum'), `${Math.round(sum)}`);
  set(byId('ratio'), ratio.toFixed(1));
  set(byId('ratio-unit'), ` × the quota of ${state.rate} per second`);
  set(byId('asked'), `${Math.round(asked)}`);
  byId('verdict').dataset.over = ratio > OVER;
  set(byId('story'), story(state, ratio, asked));

  const levels = now.level.filter((level) => level !== null);
  const members = now.members.filter((count) => count !== null);
  const span = (values) => (values.length === 0 ? '–' : [...new Set([Math.min(...values), Math.max(...values)])].join(' to '));
  set(byId('levels-now'), `Now ${span(levels)} of ${state.burst}.`);
  set(byId('members-now'), `Now ${span(members)}.`);
  const { delivered, missing } = now.datagrams;
  set(byId('datagrams-now'), `Now ${Math.round(delivered)} arrive, ${Math.round(missing)} do not.`);
  label('admitted', `Admitted per second, by node: ${Math.round(sum)} in all, quota ${state.rate}`);
  label('levels', `Permits each node believes left: ${span(levels)} of ${state.burst}`);
  label('members', `Members each node sees: ${span(members)}`);
  label('datagrams', `Datagrams per second: ${Math.round(delivered)} arrive, ${Math.round(missing)} do not`);
}

function label(id, text) {
  if (byId(id).getAttribute('aria-label') !== text) byId(id).setAttribute('aria-label', text);
}

let told = null;
let outcomeAt = Infinity;
/** Says what has happened since the last time. What was before the page was opened is no news. */
function showHappened(state) {
  const latest = state.happened.at(-1)?.at_ms ?? 0;
  if (told === null || latest < told) told = latest;
  const news = state.happened.filter(({ at_ms: at }) => at > told).map(({ text }) => text);
  told = latest;
  if (news.length > 0) {
    tell(`${news.join(', ')}.`.replace(/^./, (first) => first.toUpperCase()));
    outcomeAt = performance.now() + OUTCOME_MS;
  } else if (performance.now() >= outcomeAt) {
    outcomeAt = Infinity;
    tell(`Now ${byId('sum').textContent} per second, ${byId('ratio').textContent} × the quota.`);
  }
}

// States.

/** By how much this page's clock is ahead of the playground's, at the least delay that was seen. */
let ahead = Infinity;
let figuresAt = -Infinity;
let drawnAt = -Infinity;

/** Returns whether the state is news. */
function take(state) {
  if (history.last && state.at_ms < history.last.at_ms - STARTED_ANEW_MS) {
    history.clear();
    [ahead, told] = [Infinity, null];
  }
  ahead = Math.min(ahead, performance.now() - state.at_ms);
  return history.push(state);
}

const source = new EventSource('/states');
source.addEventListener('past', ({ data }) => take(JSON.parse(data)));
source.addEventListener('message', ({ data }) => {
  const state = JSON.parse(data);
  if (!take(state)) return;
  const now = performance.now();
  link('live', 'live');
  if (now - figuresAt >= FIGURES_MS) {
    figuresAt = now;
    showHappened(state);
    showFigures(state, history.now);
  }
  if (still.matches && now - drawnAt >= STILL_MS) {
    drawnAt = now;
    draw(state.at_ms);
  }
});
source.addEventListener('error', () => link('lost', 'the playground has gone; waiting for it'));

function link(state, text) {
  byId('link').dataset.state = state;
  set(byId('link'), text);
}

function draw(at) {
  const view = { history, at, palette, chosen, calm: still.matches };
  charts.forEach((chart) => chart.draw(view));
}

/** Charts glide with the screen; for those who want no motion they are drawn once a second instead. */
function glide() {
  if (history.now && !still.matches) draw(Math.min(performance.now() - ahead - BEHIND_MS, history.last.at_ms));
  requestAnimationFrame(glide);
}
requestAnimationFrame(glide);
