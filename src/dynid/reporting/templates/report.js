// Reads the embedded data and draws the charts of the report.
"use strict";
(() => {
  const faults = [];
  window.addEventListener("error", (event) => { faults.push(event.message); document.documentElement.dataset.faults = faults.join(" | "); });
  const data = JSON.parse(document.getElementById("data").textContent);
  const COLOURS = ["var(--c3)", "var(--c2)", "var(--c4)", "var(--c5)", "var(--c6)", "var(--c1)"];
  const place = (id) => document.getElementById(id);
  const per = (value) => `${Number((100 * value).toPrecision(3))} %`;

  function unpack(packed) {
    const text = atob(packed.data), numbers = new Float64Array(text.length / 2);
    for (let k = 0; k < numbers.length; k++) numbers[k] = packed.low + packed.step * (text.charCodeAt(2 * k) + 256 * text.charCodeAt(2 * k + 1));
    return numbers;
  }

  function into(id, charts) {
    const host = place(id);
    if (!host) return;
    host.replaceChildren();
    for (const options of charts) new Chart(host.appendChild(document.createElement("div")), options);
  }

  let group = new Group();
  function showMotion(index) {
    const motion = data.motions[index], time = unpack(motion.time);
    const measured = motion.measured.map(unpack), predicted = motion.predicted.map(unpack), dq = motion.dq.map(unpack);
    const others = (data.comparison ? data.comparison.curves : []).map((row, k) => row[index] && { name: data.comparison.titles[k + 1], curves: row[index].map(unpack), colour: COLOURS[k === 0 ? 0 : k + 1] }).filter(Boolean);
    const beside = place("legend-others");
    if (beside) beside.replaceChildren(...others.flatMap((one) => {
      const key = Object.assign(document.createElement("span"), { className: "key" });
      key.style.borderColor = one.colour;
      return [key, `predicted by ${one.name}`];
    }));
    group = new Group();
    into("charts-torque", data.joints.map((joint, j) => ({
      title: joint, note: motion.relative[j] === null ? "" : `error in motion ${per(motion.relative[j])}`, group, x: "time [s]", y: `torque [${data.torque_units[j]}]`,
      label: `Joint ${joint}, ${motion.name}: measured and predicted torque over time; relative error in motion ${motion.relative[j] === null ? "not defined" : per(motion.relative[j])}`,
      series: [{ kind: "line", name: "measured", x: time, y: measured[j], colour: "var(--c1)", size: 2.6, opacity: 0.75 }, { kind: "line", name: "predicted", x: time, y: predicted[j], colour: "var(--c2)", size: 1.3 },
        ...(motion.band ? motion.band[j].map((bound, k) => ({ kind: "line", name: k ? "90 % above" : "90 % below", x: time, y: unpack(bound), colour: "var(--c2)", size: 0.6, opacity: 0.5 })) : []),
        ...others.map((one) => ({ kind: "line", name: one.name, x: time, y: one.curves[j], colour: one.colour, size: 1.1 }))],
    })));
    into("charts-histogram", data.joints.map((joint, j) => {
      const one = motion.residuals[j], x = one.density.map((_, k) => (one.edges[k] + one.edges[k + 1]) / 2);
      const sd = one.sd || Number.MIN_VALUE, bell = x.map((v) => Math.exp(-0.5 * ((v - one.mean) / sd) ** 2) / (sd * Math.sqrt(2 * Math.PI)));
      return { title: joint, note: `sd ${short(Number(one.sd.toPrecision(2)))} ${data.torque_units[j]}`, height: 150, x: `residual [${data.torque_units[j]}]`, zero: true,
        label: `Joint ${joint}: distribution of the residual, standard deviation ${one.sd.toPrecision(2)} ${data.torque_units[j]}, with a normal distribution`,
        series: [{ kind: "bars", x, y: one.density, colour: "var(--c3)", opacity: 0.6, fill: 1 }, { kind: "line", x, y: bell, colour: "var(--ink)", size: 1 }] };
    }));
    into("charts-autocorrelation", data.joints.map((joint, j) => {
      const one = motion.residuals[j], y = one.acf.slice(1), x = y.map((_, k) => (k + 1) * one.lag);
      return { title: joint, height: 150, x: "lag [s]", band: [-one.band, one.band], zero: true, label: `Joint ${joint}: autocorrelation of the residual; the band holds 95 % of white noise`,
        series: [{ kind: "bars", x, y, colour: "var(--c3)", fill: 0.6 }] };
    }));
    into("charts-velocity", data.joints.map((joint, j) => {
      const one = motion.residuals[j], left = measured[j].map((v, k) => v - predicted[j][k]);
      const note = one.friction === null ? "hardly moves" : `step ${short(Number(one.friction.toPrecision(2)))} ${data.torque_units[j]}`;
      return { title: joint, note, height: 150, x: `velocity [${data.speed_units[j]}]`, y: `residual [${data.torque_units[j]}]`, zero: true, label: `Joint ${joint}: residual against velocity; ${note} at zero velocity`,
        series: [{ kind: "dots", x: dq[j], y: left, colour: "var(--c3)", size: 1.1 }] };
    }));
    for (const select of document.querySelectorAll("[data-motion]")) select.value = String(index);
  }

  function showCloud() {
    const stages = Object.entries(data.cloud.stages), xs = stages.flatMap(([, one]) => range(one.x)), ys = stages.flatMap(([, one]) => range(one.y));
    const corners = { kind: "dots", x: range(xs), y: range(ys), colour: "transparent" };  // one scale for all three
    into("charts-cloud", stages.map(([stage, one], k) => {
      const at = one.labels.indexOf(data.cloud.chosen);
      return { title: stage, note: `${one.x.length} runs`, height: 260, x: "first component", y: "second component", ring: at < 0 ? null : { x: one.x[at], y: one.y[at] },
        label: `${stage}: ${one.x.length} parameter sets in the first two principal components`,
        series: [corners, { kind: "dots", x: one.x, y: one.y, names: one.labels, colour: COLOURS[k], size: 3, opacity: 0.6 }] };
    }));
  }

  function showConditioning() {
    const { bags, intervals, kappa } = data.conditioning;
    new Chart(place("chart-conditioning"), { height: 260, names: bags, y: "condition number", log: true, label: "Condition number of the regressor per trajectory, one mark per sampling interval; the table below has the figures",
      series: intervals.map((interval, i) => ({ kind: "dots", size: 3.2, colour: COLOURS[i % COLOURS.length], x: bags.map((_, k) => k + (i - (intervals.length - 1) / 2) * 0.12), y: kappa.map((row) => row[i]), names: bags.map((bag, k) => `${bag} at ${interval} ms: ${short(kappa[k][i] || 0)}`) })) });
    legend(place("chart-conditioning"), intervals.map((interval) => `${interval} ms`));
  }

  function legend(host, names) {
    const line = Object.assign(document.createElement("p"), { className: "legend" });
    names.forEach((name, k) => {
      const key = Object.assign(document.createElement("span"), { className: "key" });
      key.style.borderColor = COLOURS[k % COLOURS.length];
      line.append(key, name);
    });
    host.before(line);
  }

  function showStages() {
    const { names, stages } = data.path, titles = Object.keys(stages);
    new Chart(place("chart-stages"), { height: 230, names, zero: true, band: [-1, 1], y: "standard deviations", label: "Difference of each stage's parameters from the result in standard deviations; the table above has the figures",
      series: titles.map((title, i) => ({ kind: "dots", size: 3, colour: COLOURS[i], x: names.map((_, k) => k + (i - (titles.length - 1) / 2) * 0.15), y: stages[title], names: names.map((name, k) => `${name}, ${title}: ${stages[title][k] === null ? "none" : stages[title][k].toFixed(2)}`) })) });
    legend(place("chart-stages"), titles);
  }

  function showComparison() {
    const { titles, joints, errors, names, differences } = data.comparison;
    const known = titles.map((_, k) => k).filter((k) => errors[k].length);
    new Chart(place("chart-compare-joints"), { height: 230, names: joints, zero: true, y: "error [%]", label: "Relative torque error per joint and result",
      series: known.map((k) => ({ kind: "bars", colour: COLOURS[k], x: joints.map((_, j) => j), y: errors[k].map((v) => 100 * v), names: joints.map((joint, j) => `${titles[k]}, ${joint}: ${per(errors[k][j])}`) })) });
    legend(place("chart-compare-joints"), titles);
    new Chart(place("chart-compare-parameters"), { height: 230, names, zero: true, band: [-3, 3], y: "standard deviations", label: "Differences of all parameters in standard deviations; the table below has the figures",
      series: differences.map((row, i) => ({ kind: "bars", colour: COLOURS[i + 1], x: names.map((_, k) => k), y: row, names: names.map((name, k) => `${name}, ${titles[i + 1]}: ${row[k] === null ? "unknown" : row[k].toFixed(1)}`) })) });
  }

  function showPose(turn) {
    const host = place("chart-pose"), { points, centres, masses, gravity } = data.pose, a = (turn * Math.PI) / 180, e = 0.35;
    const flat = ([x, y, z]) => [x * Math.cos(a) + y * Math.sin(a), z * Math.cos(e) + (x * Math.sin(a) - y * Math.cos(a)) * Math.sin(e)];
    const all = [...points, ...centres], middle = [0, 1, 2].map((i) => { const [low, high] = range(all.map((p) => p[i])); return (low + high) / 2; });
    const reach = 1.25 * Math.max(0.05, ...all.map((p) => Math.hypot(...p.map((v, i) => v - middle[i]))));
    const [mx, my] = flat(middle), size = 360, at = (p) => { const [x, y] = flat(p); return [size / 2 + ((x - mx) / reach) * size / 2, size / 2 - ((y - my) / reach) * size / 2]; };
    host.replaceChildren();
    const svg = make("svg", { viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": "The arm as a chain of links at its worst pose; the table next to it lists the joint positions" }, host);
    const floor = (p) => [middle[0] + (p[0] * reach) / 4, middle[1] + (p[1] * reach) / 4, 0];
    for (let k = -4; k <= 4; k++) for (const [p, q] of [[[k, -4, 0], [k, 4, 0]], [[-4, k, 0], [4, k, 0]]]) {
      const [x1, y1] = at(floor(p)), [x2, y2] = at(floor(q));
      make("line", { x1, y1, x2, y2, stroke: "var(--grid)" }, svg);
    }
    const path = points.map((p, k) => `${k ? "L" : "M"}${at(p).map((v) => v.toFixed(1)).join(" ")}`).join("");
    make("path", { d: path, fill: "none", stroke: "var(--soft)", "stroke-width": 9, "stroke-linecap": "round", "stroke-linejoin": "round", opacity: 0.45 }, svg);
    points.slice(1, data.joint_count + 1).forEach((p, k) => {
      const [cx, cy] = at(p);
      make("title", {}, make("circle", { cx, cy, r: 5, fill: "var(--card)", stroke: "var(--ink)", "stroke-width": 2 }, svg), `joint ${data.joints[k]}`);
    });
    const heaviest = Math.max(...masses);
    centres.forEach((p, k) => {
      const [cx, cy] = at(p);
      make("title", {}, make("circle", { cx, cy, r: (2 + 7 * Math.sqrt(masses[k] / heaviest)).toFixed(1), fill: "var(--c2)", opacity: 0.75 }, svg), `centre of mass of link ${k + 1}: ${masses[k]} kg`);
    });
    if (Math.hypot(...gravity)) {
      const [dx, dy] = flat(gravity), x = size - 36, y = 40;
      make("path", { d: `M${x - 16 * dx} ${y + 16 * dy}L${x + 16 * dx} ${y - 16 * dy}`, stroke: "var(--c3)", "stroke-width": 2.5 }, svg);
      make("circle", { cx: x + 16 * dx, cy: y - 16 * dy, r: 4, fill: "var(--c3)" }, svg);
      make("text", { x: x + 10, y: y + 34, "text-anchor": "end" }, svg, "gravity");
    }
    make("text", { x: 8, y: size - 8 }, svg, "○ joints   ● centres of mass, larger where heavier");
  }

  if (data.motions.length) showMotion(0);
  for (const select of document.querySelectorAll("[data-motion]")) select.addEventListener("change", () => showMotion(Number(select.value)));
  for (const button of document.querySelectorAll("[data-reset]")) button.addEventListener("click", () => group.zoom(null));
  if (data.cloud) showCloud();
  if (data.conditioning) showConditioning();
  if (place("chart-stages")) showStages();
  if (data.comparison) showComparison();
  const turn = document.querySelector("[data-turn]");
  turn.addEventListener("input", () => showPose(Number(turn.value)));
  showPose(Number(turn.value));

  const links = [...document.querySelectorAll("nav a")];
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) for (const link of links) link.toggleAttribute("aria-current", link.hash === `#${entry.target.id}`);
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const section of document.querySelectorAll("section")) seen.observe(section);
  const hint = new ResizeObserver((entries) => { for (const { target } of entries) target.classList.toggle("sideways", target.scrollWidth > target.clientWidth + 1); });
  for (const table of document.querySelectorAll(".scroll")) hint.observe(table);
  let opened = [];
  window.addEventListener("beforeprint", () => { opened = [...document.querySelectorAll("details:not([open])")]; for (const one of opened) one.open = true; });
  window.addEventListener("afterprint", () => { for (const one of opened) one.open = false; });
  document.documentElement.dataset.charts = String(document.querySelectorAll("svg[role=img]").length);
})();
