/** How long a slider stays where it was put, whatever older states say. */
const HELD_MS = 1200;

/** A slider of `stops` that sends where it stands: one command at a time, the last one last. */
export class Slider {
  #input;
  #value;
  #stops;
  #unit;
  #send;
  #busy = false;
  #wanted = null;
  #heldUntil = 0;

  constructor(input, value, { stops, unit, send }) {
    [this.#input, this.#value, this.#stops, this.#unit, this.#send] = [input, value, stops, unit, send];
    input.max = stops.length - 1;
    input.addEventListener('input', () => {
      this.#heldUntil = performance.now() + HELD_MS;
      const chosen = stops[input.valueAsNumber];
      this.#label(chosen);
      this.#wanted = chosen;
      this.#flush();
    });
  }

  /** Shows what is, unless somebody is just moving it. `null` says that there is no one value. */
  show(value) {
    if (performance.now() < this.#heldUntil || this.#busy) return;
    if (value !== null) {
      const distance = (stop) => Math.abs(stop - value);
      const nearest = this.#stops.reduce((best, stop, index) => (distance(stop) < distance(this.#stops[best]) ? index : best), 0);
      this.#input.value = nearest;
    }
    this.#label(value);
  }

  #label(value) {
    const text = value === null ? 'mixed' : `${value}${this.#unit.short}`;
    if (this.#value.textContent === text) return;
    this.#value.textContent = text;
    this.#input.setAttribute('aria-valuetext', value === null ? text : `${value} ${this.#unit.long}`);
    this.#input.style.setProperty('--at', `${(this.#input.valueAsNumber / (this.#stops.length - 1)) * 100}%`);
  }

  async #flush() {
    if (this.#busy) return;
    this.#busy = true;
    while (this.#wanted !== null) {
      const value = this.#wanted;
      this.#wanted = null;
      await this.#send(value);
    }
    this.#busy = false;
  }
}
