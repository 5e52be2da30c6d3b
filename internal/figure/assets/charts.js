"use strict";
// Numbers, charts and tables, on the page of ckpt serve and in reports. uPlot draws; a chart that is
// drawn again keeps its zoom.

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

// drawn draws a picture of ckpt, as --plot FILE.json has it, with its key above and what lies
// under the pointer below.
const units = {
  "s": (v) => (v < 0 ? "-" : "") + seconds(Math.abs(v)), "bytes": bytes, "bytes/s": (v) => bytes(v) + "/s", "log2 bytes": (v) => bytes(Math.pow(2, v)),
  "log10 number": (v) => v <= 0 ? "0" : Math.round(Math.pow(10, v - 1)).toLocaleString("en"),
};
const plain = (v) => Number(v.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 9 });
const paint = (name) => name.startsWith("--") ? color(name) : name;
function drawn(box, c) {
  box.plot?.destroy();
  box.replaceChildren();
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", c.text || c.title + (c.key ? ": " + c.key.map((k) => k.name).filter(Boolean).join("; ") : ""));
  const say = el("p", { className: "note tip", ariaHidden: "true" });
  const nameOf = (axis) => axis.names && ((v) => axis.names.reduce((a, b) => Math.abs(b.at - v) < Math.abs(a.at - v) ? b : a, axis.names[0]).name);
  const show = { x: nameOf(c.x) || units[c.x.unit] || plain, y: nameOf(c.y) || units[c.y.unit] || plain };
  const soft = color("--soft"), line = color("--line"), wide = Math.max(box.clientWidth, 200);
  const axis = (a, k, extra) => ({
    stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line }, font: "12px system-ui, sans-serif", label: a.label, labelFont: "13px system-ui, sans-serif", labelSize: 22, ...extra,
    ...(a.names ? { splits: (u) => a.names.map((n) => n.at).filter((v) => v >= u.scales[k].min && v <= u.scales[k].max), values: (u, list) => list.map((v, i) => k === "x" && i % Math.ceil(list.length * 75 / wide) ? "" : shortened(show[k](v), k === "x" ? 12 : 24)), grid: { show: false } }
      : { values: (u, list) => list.map((v) => v === null ? "" : show[k](v)), ...(a.unit?.startsWith("bytes") ? { incrs: axes.bytes.steps } : {}), ...(a.unit?.startsWith("log") ? { incrs: [1, 2, 4, 8, 16] } : {}) }),
  });
  const shapes = c.parts.map((p) => ({ ...p, paint: paint(p.color), name: c.key?.find((k) => k.color === p.color)?.name || "" }));
  const left = c.y.names ? Math.min(wide / 3, 20 + 6.5 * Math.max(...c.y.names.map((n) => Math.min(n.name.length, 24)))) : 72;
  box.plot = new uPlot({
    title: c.title, width: wide, height: 320, legend: { show: false }, cursor: { drag: { x: true, y: false }, points: { show: false } },
    scales: { x: { time: false, distr: c.x.log ? 3 : 1 }, y: { distr: c.y.log ? 3 : 1, range: () => [c.y.low, c.y.high] } },
    axes: [axis(c.x, "x", {}), axis(c.y, "y", { size: left })],
    series: [{}, { stroke: "transparent", points: { show: false } }],
    hooks: { draw: [(u) => drawShapes(u, shapes)], setCursor: [(u) => { say.textContent = under(u, shapes, show); }] },
  }, [[c.x.low, c.x.high], [c.y.low, c.y.high]], box);
  if (c.key) box.prepend(el("p", { className: "key" }, ...c.key.map((k) => { const dot = el("span", { className: "dot" }); dot.style.background = paint(k.color); return el("span", {}, dot, k.name); })));
  box.append(say);
}
const shortened = (text, most) => text.length > most ? "…" + text.slice(1 - most) : text;

// drawShapes draws what a picture has, in its order.
function drawShapes(u, shapes) {
  const { ctx, bbox } = u, ratio = devicePixelRatio || 1, x = (v) => u.valToPos(v, "x", true), y = (v) => u.valToPos(v, "y", true);
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const s of shapes) {
    ctx.globalAlpha = s.alpha ?? 1;
    ctx.fillStyle = ctx.strokeStyle = s.paint;
    ctx.lineWidth = Math.max(1, (s.kind === "points" ? 1.5 : s.size || 1.5)) * ratio;
    ctx.setLineDash(s.dash ? [6 * ratio, 4 * ratio] : []);
    ctx.beginPath();
    if (s.kind === "line" || s.kind === "area") {
      s.at.forEach(([a, b], i) => i ? ctx.lineTo(x(a), y(b)) : ctx.moveTo(x(a), y(b)));
      s.kind === "line" ? ctx.stroke() : ctx.fill();
    } else if (s.kind === "reach") {
      for (const [a, low, high] of s.at) { ctx.moveTo(x(a), y(low)); ctx.lineTo(x(a), y(high)); }
      ctx.stroke();
    } else if (s.kind === "boxes") {
      for (const [a, b, c, d] of s.at) ctx.rect(x(a), y(d), Math.max(ratio, x(c) - x(a)), Math.max(ratio, y(b) - y(d)));
      ctx.fill();
    } else if (s.kind === "strokes") {
      for (const [a, b, c, d] of s.at) {
        const dot = Math.hypot(x(c) - x(a), y(d) - y(b)) < s.size * ratio ? s.size * ratio / 2 : 0;
        ctx.moveTo(x(a) - dot, y(b));
        ctx.lineTo(dot ? x(a) + dot : x(c), dot ? y(b) : y(d));
      }
      ctx.lineWidth = s.size * ratio;
      ctx.stroke();
    } else for (const [a, b] of s.at) drawPoint(ctx, s.shape, x(a), y(b), (s.size || 3) * ratio);
  }
  ctx.restore();
}
function drawPoint(ctx, shape, x, y, r) {
  ctx.beginPath();
  if (shape === "cross") { ctx.moveTo(x - r, y - r); ctx.lineTo(x + r, y + r); ctx.moveTo(x - r, y + r); ctx.lineTo(x + r, y - r); }
  else if (shape === "square") ctx.rect(x - r, y - r, 2 * r, 2 * r);
  else if (shape === "triangle") { ctx.moveTo(x, y - r); ctx.lineTo(x + r, y + r); ctx.lineTo(x - r, y + r); ctx.closePath(); }
  else ctx.arc(x, y, r, 0, 7);
  shape ? ctx.stroke() : ctx.fill();
}

// under says what lies under the pointer, or nearest to it.
function under(u, shapes, show) {
  const { left, top } = u.cursor, x = (v) => u.valToPos(v, "x"), y = (v) => u.valToPos(v, "y");
  if (left === undefined || left < 0) return "";
  let best = null, least = 24;
  for (const s of shapes) for (const p of s.at) {
    let away;
    if (s.kind === "boxes") away = left >= x(p[0]) - 1 && left <= x(p[2]) + 1 && top >= y(p[3]) - 1 && top <= y(p[1]) + 1 ? 0 : Infinity;
    else if (s.kind === "area") continue;
    else away = Math.hypot(x(p[0]) - left, (s.kind === "reach" ? Math.max(0, Math.max(y(p[2]) - top, top - y(p[1]))) : y(p[1]) - top));
    if (away <= least) { least = away; best = [s, p]; }
  }
  if (!best) return show.x(u.posToVal(left, "x")) + ", " + show.y(u.posToVal(top, "y"));
  const [s, p] = best, at = s.kind === "reach" ? show.y(p[1]) + " to " + show.y(p[2]) : s.kind === "boxes" ? "" : show.y(p[1]);
  const where = s.kind === "boxes" ? show.x(p[0]) + (show.x(p[2]) === show.x(p[0]) ? "" : " to " + show.x(p[2])) + ", " + show.y(p[1]) + (show.y(p[3]) === show.y(p[1]) ? "" : " to " + show.y(p[3])) : show.x(p[0]) + ", " + at;
  return (s.name ? s.name + ": " : "") + where;
}

// sortable has the heads of a table sort it, numbers by what their units say.
const scales = { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, PiB: 2 ** 50, bytes: 1, "µs": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400 };
function worth(text) {
  const m = /^[×+]?\s*([−-]?[0-9][0-9,]*\.?[0-9]*(?:e[+-]?[0-9]+)?)\s*([A-Za-zµ]*)/.exec(text.trim());
  return m ? Number(m[1].replaceAll(",", "").replace("−", "-")) * (scales[m[2]] || 1) : NaN;
}
function sortable(table) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells], first = [...body.rows];
  if (first.length < 2) return;
  heads.forEach((th, k) => {
    if (!th.textContent) return;
    const button = el("button", { type: "button", className: "sort" }, ...th.childNodes);
    th.append(button);
    button.addEventListener("click", () => {
      const was = th.getAttribute("aria-sort"), now = was === "ascending" ? "descending" : was === "descending" ? null : "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      if (now) th.setAttribute("aria-sort", now);
      const of = (r) => r.cells[k].textContent, way = now === "descending" ? -1 : 1;
      body.append(...(!now ? first : [...first].sort((a, b) => {
        const x = worth(of(a)), y = worth(of(b));
        return way * (Number.isNaN(x) || Number.isNaN(y) ? Number.isNaN(x) - Number.isNaN(y) || of(a).localeCompare(of(b)) : x - y);
      })));
    });
  });
}
