"use strict";
// Numbers and charts. uPlot draws; a chart that is drawn again keeps its zoom.

// $ and el find and make elements.
const $ = (id) => document.getElementById(id);
const el = (tag, props = {}, ...children) => {
  const e = Object.assign(document.createElement(tag), props);
  e.append(...children);
  return e;
};

// Numbers, as ckpt writes them.
const bytes = (n) => {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return (i === 0 ? n : n.toPrecision(n >= 1000 ? 4 : 3)) + " " + units[i];
};
const seconds = (s) => {
  if (s < 1) return (s * 1000).toPrecision(3) + " ms";
  if (s < 120) return s.toPrecision(3) + " s";
  if (s < 7200) return (s / 60).toPrecision(3) + " min";
  return s < 172800 ? (s / 3600).toPrecision(3) + " h" : (s / 86400).toPrecision(3) + " d";
};
const ago = (t) => t ? seconds(Math.max(0, (Date.now() - Date.parse(t)) / 1000)) + " ago" : "–";
const between = (low, high, f) => low === undefined || high === undefined ? "no interval" : "95 % " + f(low) + " to " + f(high);

const percent = (v) => (100 * v).toPrecision(3) + " %";
const clock = (t) => new Date(t * 1000).toLocaleString();

// color is a colour of the style, as a canvas takes it: light-dark() is for styles.
const color = (name) => {
  const probe = el("span");
  probe.style.color = "var(" + name + ")";
  document.body.append(probe);
  const c = getComputedStyle(probe).color;
  probe.remove();
  return c;
};

// An axis of a chart says how it writes its values.
const axes = {
  time: { time: true, show: clock }, count: { show: String }, seconds: { show: seconds }, bytes: { show: bytes, steps: Array.from({ length: 60 }, (_, i) => 2 ** i) }, percent: { show: percent },
  interval: { log: true, show: seconds },
};

// chart draws data into a box, with a text for those who do not see it. Of the axes the first is
// x, the next is y at the left and the third, if there is one, at the right.
function chart(box, text, [x, y, right], series, data, more = {}) {
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", text);
  const key = JSON.stringify([x.label, y.label, series.map((s) => s.label), color("--page")]);
  if (box.plot && box.dataset.has === key) {
    const zoomed = box.plot.zoomed;
    box.plot.setData(data, !zoomed);
    if (zoomed) box.plot.redraw();
    return box.plot;
  }
  box.plot?.destroy();
  box.dataset.has = key;
  const soft = color("--soft"), line = color("--line");
  const axis = (a, extra) => ({
    stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line }, font: "12px system-ui, sans-serif",
    ...(a.time ? {} : { values: (u, list) => list.map((v) => v === null ? "" : a.show(v)) }), ...(a.steps ? { incrs: a.steps } : {}), ...extra,
  });
  const grown = (u, low, high) => [0, high > 0 ? high * 1.05 : 1];
  const plot = new uPlot({
    width: box.clientWidth, height: 300, legend: { show: !more.bare }, cursor: { drag: { x: true, y: false } },
    scales: { x: { time: !!x.time, distr: x.log ? 3 : 1 }, y: { range: more.range || grown }, right: { range: grown } },
    axes: [axis(x, {}), axis(y, { size: 70 }), ...(right ? [axis(right, { scale: "right", side: 1, size: 70, grid: { show: false } })] : [])],
    series: [{ label: x.label, value: (u, v) => v === null ? "–" : x.show(v) },
      ...series.map((s) => ({ width: 2, value: (u, v) => v === null || v === undefined ? "–" : (s.scale === "right" ? right : y).show(v), ...s }))],
    hooks: { draw: more.draw ? [more.draw] : [], setScale: [(u, k) => { if (k === "x") u.zoomed = u.scales.x.min > u.data[0][0] || u.scales.x.max < u.data[0][u.data[0].length - 1]; }] },
    ...(more.bands ? { bands: more.bands } : {}),
  }, data, box);
  box.plot = plot;
  return plot;
}

// noChart says why there is none.
function noChart(box, why) {
  box.plot?.destroy();
  box.plot = null;
  box.removeAttribute("role");
  box.removeAttribute("aria-label");
  box.replaceChildren(el("p", { className: "note" }, why));
}

// A series of marks without a line.
const marks = (label, name, size, more) => ({ label, stroke: color(name), paths: () => null, points: { show: true, size, fill: color(name) }, ...more });

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { // a canvas keeps its colours
  if (shown) refreshJob();
  if (!$("view-what-if").hidden) turned();
  if (!$("view-trace").hidden) drawTiles();
});
let resized;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(() => { if (!$("view-trace").hidden) drawTiles(); for (const box of document.querySelectorAll(".chart")) if (box.plot && box.clientWidth) box.plot.setSize({ width: box.clientWidth, height: 300 }); }, 100);
});
