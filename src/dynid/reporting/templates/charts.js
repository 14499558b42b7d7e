// Charts as SVG: lines, points and bars with axes; zoom by drag or keyboard; charts of one group share their x range.
"use strict";
const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { left: 52, right: 10, top: 8, bottom: 34 };

function make(name, attributes, parent, text) {
  const node = document.createElementNS(SVG, name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.appendChild(node);
  return node;
}

function ticks(low, high, count) {
  const raw = (high - low) / count, power = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 2.5, 5, 10].map((k) => k * power).find((k) => k >= raw);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step);
  return found;
}

function short(value) {
  if (value === 0 || Math.abs(value) < 1e-14) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(1).replace("e+", "e");
  return String(Number(value.toPrecision(4)));
}

function range(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) if (Number.isFinite(value)) { if (value < low) low = value; if (value > high) high = value; }
  return low > high ? [0, 1] : [low, high];
}

class Chart {
  // options: title, note, label (read to those who do not see it), x, y: axis titles, series: [{kind: line|dots|bars, x, y, colour, size,
  // name, opacity, names}], height, band: [low, high], zero: true, group: a Group, names: tick texts of x, log: true for y, ring: {x, y}
  constructor(host, options) {
    this.host = host;
    this.options = options;
    this.id = `chart-${Chart.count++}`;
    this.view = null;
    host.classList.add("chart");
    host.replaceChildren();
    if (options.title) {
      const head = document.createElement("h4");
      head.textContent = options.title + " ";
      if (options.note) head.appendChild(Object.assign(document.createElement("span"), { textContent: options.note }));
      host.appendChild(head);
    }
    this.svg = make("svg", { role: "img", "aria-label": options.label || options.title || "chart" }, host);
    if (options.group) { this.svg.setAttribute("tabindex", "0"); options.group.add(this); this.listen(); }
    new ResizeObserver(() => this.draw()).observe(host);
    this.draw();
  }

  y(value) { return this.options.log ? Math.log10(value) : value; }

  extent() {
    const { series, band, zero, log } = this.options;
    const [left, right] = this.view || this.whole();
    let low = Infinity, high = -Infinity;
    for (const one of series) for (let k = 0; k < one.y.length; k++) {
      if (one.y[k] === null || one.x[k] < left || one.x[k] > right) continue;
      const value = this.y(one.y[k]);
      if (value < low) low = value;
      if (value > high) high = value;
    }
    if (zero) { low = Math.min(low, 0); high = Math.max(high, 0); }
    if (band) { low = Math.min(low, band[0]); high = Math.max(high, band[1]); }
    if (low > high) [low, high] = [0, 1];
    const room = 0.06 * (high - low) || Math.abs(high) * 0.1 || 1;
    const bars = series.some((one) => one.kind === "bars");
    return [bars && low === 0 && !log ? 0 : low - room, bars && high === 0 ? 0 : high + room];
  }

  whole() {
    if (this.options.names) return [-0.6, this.options.names.length - 0.4];
    const [low, high] = range(this.options.series.flatMap((one) => one.kind === "line" ? [one.x[0], one.x[one.x.length - 1]] : range(one.x)));
    const room = this.options.group || this.options.series[0].kind === "bars" ? 0 : 0.04 * (high - low);
    return [low - room, high + room || 1];
  }

  draw() {
    const width = Math.max(this.host.clientWidth, 200), height = this.options.height || 190;
    if (width === this.drawn && !this.dirty) return;
    this.drawn = width;
    this.dirty = false;
    const { svg, options } = this, bottom = options.names ? Math.min(230, 16 + 6 * Math.max(...options.names.map((n) => n.length))) : MARGIN.bottom;
    svg.setAttribute("viewBox", `0 0 ${width} ${height + bottom - MARGIN.bottom}`);
    svg.replaceChildren();
    const inner = [width - MARGIN.left - MARGIN.right, height - MARGIN.top - MARGIN.bottom];
    const [left, right] = this.view || this.whole(), [low, high] = this.extent();
    this.px = (x) => MARGIN.left + ((x - left) / (right - left)) * inner[0];
    this.py = (y) => MARGIN.top + (1 - (y - low) / (high - low)) * inner[1];
    this.toX = (pixel) => left + ((pixel - MARGIN.left) / inner[0]) * (right - left);
    this.axes(left, right, low, high, inner);
    const clip = `${this.id}-clip`;
    make("rect", { x: MARGIN.left, y: MARGIN.top, width: inner[0], height: inner[1] }, make("clipPath", { id: clip }, svg));
    const layer = make("g", { "clip-path": `url(#${clip})` }, svg);
    if (options.band) make("rect", { x: MARGIN.left, width: inner[0], y: this.py(options.band[1]), height: this.py(options.band[0]) - this.py(options.band[1]), fill: "var(--band)" }, layer);
    if (low < 0 && high > 0) make("line", { x1: MARGIN.left, x2: MARGIN.left + inner[0], y1: this.py(0), y2: this.py(0), stroke: "var(--soft)", "stroke-width": 0.7 }, layer);
    const bars = options.series.filter((one) => one.kind === "bars");
    for (const one of options.series) this[one.kind](one, layer, inner[0], bars.indexOf(one), bars.length);
    if (options.ring) make("circle", { cx: this.px(options.ring.x), cy: this.py(this.y(options.ring.y)), r: 8, fill: "none", stroke: "var(--ink)", "stroke-width": 2 }, layer);
    if (options.group) this.cursor = make("g", {}, svg);
  }

  axes(left, right, low, high, inner) {
    const { svg, options } = this, base = MARGIN.top + inner[1];
    const levels = options.log ? logTicks(low, high) : ticks(low, high, Math.max(3, Math.round(inner[1] / 30))).map((v) => [v, short(v)]);
    for (const [value, text] of levels) {
      make("line", { x1: MARGIN.left, x2: MARGIN.left + inner[0], y1: this.py(value), y2: this.py(value), stroke: "var(--grid)" }, svg);
      make("text", { x: MARGIN.left - 6, y: this.py(value) + 3.5, "text-anchor": "end" }, svg, text);
    }
    if (options.names) {
      const every = Math.ceil((options.names.length * 12) / inner[0]);
      options.names.forEach((name, k) => { if (k % every === 0) make("text", { transform: `translate(${this.px(k) + 4},${base + 8}) rotate(-90)`, "text-anchor": "end" }, svg, name); });
    } else {
      for (const value of ticks(left, right, Math.max(2, Math.round(inner[0] / 70)))) {
        make("line", { x1: this.px(value), x2: this.px(value), y1: MARGIN.top, y2: base, stroke: "var(--grid)" }, svg);
        make("text", { x: this.px(value), y: base + 14, "text-anchor": "middle" }, svg, short(value));
      }
      make("text", { x: MARGIN.left + inner[0], y: base + 28, "text-anchor": "end" }, svg, options.x || "");
    }
    make("text", { transform: `translate(11,${MARGIN.top + inner[1] / 2}) rotate(-90)`, "text-anchor": "middle" }, svg, options.y || "");
  }

  line(one, layer, width) {
    const [left, right] = this.view || this.whole(), n = one.x.length;
    let first = 0, last = n - 1;
    while (first < n - 1 && one.x[first + 1] < left) first++;
    while (last > 0 && one.x[last - 1] > right) last--;
    const every = Math.max(1, Math.floor((last - first) / (2 * width)));
    let path = "";
    for (let k = first; k <= last; k += every) path += `${path ? "L" : "M"}${this.px(one.x[k]).toFixed(1)} ${this.py(this.y(one.y[k])).toFixed(1)}`;
    make("path", { d: path, fill: "none", stroke: one.colour, "stroke-width": one.size || 1.4, "stroke-linejoin": "round", opacity: one.opacity || 1 }, layer);
  }

  dots(one, layer) {
    const size = one.size || 1.6;
    if (one.names) {
      for (let k = 0; k < one.x.length; k++) if (one.y[k] !== null) make("title", {}, make("circle", { cx: this.px(one.x[k]).toFixed(1), cy: this.py(this.y(one.y[k])).toFixed(1), r: size, fill: one.colour, opacity: one.opacity || 0.75 }, layer), one.names[k]);
      return;
    }
    let path = "";
    for (let k = 0; k < one.x.length; k++) path += `M${this.px(one.x[k]).toFixed(1)} ${this.py(this.y(one.y[k])).toFixed(1)}h0`;
    make("path", { d: path, stroke: one.colour, "stroke-width": 2 * size, "stroke-linecap": "round", opacity: one.opacity || 0.35, fill: "none" }, layer);
  }

  bars(one, layer, width, index, count) {
    const step = one.x.length > 1 ? Math.abs(this.px(one.x[1]) - this.px(one.x[0])) : width / 3;
    const each = (step * (one.fill || 0.8)) / count;
    for (let k = 0; k < one.x.length; k++) {
      if (one.y[k] === null) continue;
      const x = this.px(one.x[k]) - (each * count) / 2 + index * each, top = this.py(Math.max(one.y[k], 0)), base = this.py(Math.min(one.y[k], 0));
      const bar = make("rect", { x: x.toFixed(1), width: Math.max(each, 0.5).toFixed(2), y: top.toFixed(1), height: Math.max(base - top, 0).toFixed(1), fill: one.colour, opacity: one.opacity || 0.9 }, layer);
      if (one.names) make("title", {}, bar, one.names[k]);
    }
  }

  pointer(event) {
    const box = this.svg.getBoundingClientRect();
    return this.toX(((event.clientX - box.left) / box.width) * this.drawn);
  }

  listen() {
    const { svg, options } = this, group = options.group;
    let from = null;
    svg.addEventListener("pointerdown", (event) => { if (event.button === 0) { from = this.pointer(event); svg.setPointerCapture(event.pointerId); } });
    svg.addEventListener("pointermove", (event) => { if (from === null) group.point(this.pointer(event)); else this.select(from, this.pointer(event)); });
    svg.addEventListener("pointerup", (event) => {
      const to = this.pointer(event), [left, right] = this.view || this.whole();
      if (from !== null && Math.abs(to - from) > 0.01 * (right - left)) group.zoom([Math.min(from, to), Math.max(from, to)]);
      else if (from !== null) this.cursor.replaceChildren();
      from = null;
    });
    svg.addEventListener("pointerleave", () => group.point(null));
    svg.addEventListener("dblclick", () => group.zoom(null));
    svg.addEventListener("keydown", (event) => {
      const [left, right] = this.view || this.whole(), span = right - left, middle = (left + right) / 2;
      const to = { "+": [middle - span / 4, middle + span / 4], "=": [middle - span / 4, middle + span / 4], "-": [middle - span, middle + span],
        ArrowLeft: [left - span / 4, right - span / 4], ArrowRight: [left + span / 4, right + span / 4], Escape: null, Home: null }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      group.zoom(to);
    });
  }

  select(from, to) {
    this.cursor.replaceChildren();
    const x = Math.min(this.px(from), this.px(to));
    make("rect", { x, y: MARGIN.top, width: Math.abs(this.px(to) - this.px(from)), height: (this.options.height || 190) - MARGIN.top - MARGIN.bottom, fill: "var(--link)", opacity: 0.15 }, this.cursor);
  }

  point(x) {
    this.cursor.replaceChildren();
    const [left, right] = this.view || this.whole();
    if (x === null || x < left || x > right) return;
    make("line", { x1: this.px(x), x2: this.px(x), y1: MARGIN.top, y2: (this.options.height || 190) - MARGIN.bottom, stroke: "var(--soft)", "stroke-dasharray": "3 3" }, this.cursor);
    const parts = this.options.series.map((one) => {
      let low = 0, high = one.x.length - 1;
      while (high - low > 1) { const middle = (low + high) >> 1; if (one.x[middle] > x) high = middle; else low = middle; }
      return `${one.name} ${short(Number(one.y[low].toPrecision(3)))}`;
    });
    make("text", { x: MARGIN.left + 4, y: MARGIN.top + 11, class: "readout" }, this.cursor, `${short(Number(x.toPrecision(4)))} s: ${parts.join(", ")}`);
  }
}
Chart.count = 0;

function logTicks(low, high) {
  const found = [];
  for (let power = Math.floor(low); power <= high; power++) for (const k of high - low < 1.2 ? [1, 2, 3, 5] : [1]) {
    const value = Math.log10(k) + power;
    if (value >= low && value <= high) found.push([value, short(k * Math.pow(10, power))]);
  }
  return found;
}

class Group {
  constructor() { this.charts = []; }
  add(chart) { this.charts.push(chart); }
  zoom(view) {
    for (const chart of this.charts) {
      const [low, high] = chart.whole();
      const span = view && Math.min(view[1] - view[0], high - low);
      const left = view && Math.min(Math.max(view[0], low), high - span);
      chart.view = view && span < high - low ? [left, left + span] : null;
      chart.dirty = true;
      chart.draw();
    }
  }
  point(x) { for (const chart of this.charts) chart.point(x); }
}
