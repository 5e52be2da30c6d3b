"use strict";
// The page of ckpt serve: jobs as they are told by the stream of events, and answers of the API.

const $ = (id) => document.getElementById(id);
const el = (tag, props = {}, ...children) => {
  const e = Object.assign(document.createElement(tag), props);
  e.append(...children);
  return e;
};

const jobs = new Map(); // by store/job
const tasks = new Map();
const summaries = {}; // of operations
let session = { right: "read" };

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

// api asks, and throws the detail and the hint of a problem.
async function api(method, path, body, signal) {
  const r = await fetch(path, { method, signal, headers: body ? { "Content-Type": "application/json" } : {}, body: body && JSON.stringify(body) });
  const answer = await r.json();
  if (!r.ok) throw new Error(answer.detail + (answer.hint ? ". " + answer.hint : ""));
  return answer;
}
const pathOf = (store, job) => "/api/stores/" + encodeURIComponent(store) + "/jobs/" + encodeURIComponent(job);

// Jobs.
let due = false;
function draw() { // at most once for each picture, however many events come
  if (due) return;
  due = true;
  requestAnimationFrame(() => { due = false; drawJobs(); drawTasks(); drawFacts(); });
}
const mostRows = 200;
function drawJobs() {
  if ($("view-jobs").hidden) return;
  const filter = $("filter").value.toLowerCase();
  const order = { running: 0, silent: 1, failed: 2, unreadable: 3 };
  const all = [...jobs.values()].filter((c) => !filter || [c.job, c.status.app, c.status.state].join(" ").toLowerCase().includes(filter));
  all.sort((a, b) => (order[a.status.state] ?? 9) - (order[b.status.state] ?? 9) || (b.status.updated || "").localeCompare(a.status.updated || "") || a.job.localeCompare(b.job));
  const running = all.filter((c) => c.status.state === "running").length;
  $("counts").textContent = all.length + (all.length === 1 ? " job, " : " jobs, ") + running + " running";
  const focus = document.activeElement?.dataset?.key;
  const rows = all.slice(0, mostRows).map((c) => {
    const s = c.status, p = s.predicted, link = el("a", { href: "#job/" + encodeURIComponent(c.store) + "/" + encodeURIComponent(c.job) }, c.job);
    link.dataset.key = c.store + "/" + c.job;
    return el("tr", {},
      el("td", { title: c.job }, link),
      el("td", {}, el("span", { className: "state " + s.state }, s.state + (s.unreachable ? ", unreachable" : "") + (s.phase ? ", " + s.phase : ""))),
      el("td", { className: "n" }, s.iterations ? s.iteration + " of " + s.iterations : String(s.iteration)),
      el("td", { className: "n" }, s.elapsed_s ? seconds(s.elapsed_s) : "–"),
      el("td", { className: "n" }, s.left_s !== undefined ? seconds(s.left_s) : "–"),
      el("td", { className: "n" }, String(s.checkpoints)),
      el("td", { className: "n" }, ago(s.latest_created)),
      el("td", { className: "n" }, p && s.latest ? bytes(s.latest_stored_bytes) + " / " + bytes(p.stored_bytes) : "–"));
  });
  $("jobs").tBodies[0].replaceChildren(...rows);
  if (focus) document.querySelector('[data-key="' + CSS.escape(focus) + '"]')?.focus();
  $("more").textContent = all.length > mostRows ? "and " + (all.length - mostRows) + " more: the filter finds them" : all.length ? "" : jobs.size ? "No job fits the filter." : "No jobs yet.";
}

// Tasks.
function drawTasks() {
  if ($("view-tasks").hidden) return;
  const rows = [...tasks.values()].reverse().map((t) => {
    const progress = el("td");
    if (t.task_state === "running") progress.append(t.total_bytes ? el("progress", { max: t.total_bytes, value: t.done_bytes, ariaLabel: "Progress of task " + t.task }) : "…");
    const cancel = el("td");
    if (t.task_state === "running") cancel.append(el("button", { onclick: () => api("DELETE", "/api/tasks/" + t.task).catch(say) }, "Cancel task " + t.task));
    const result = t.problem ? t.problem.detail + (t.problem.hint ? ". " + t.problem.hint : "") : summary(t.result);
    return el("tr", {}, el("td", { className: "n" }, t.task), el("td", { className: "wrap" }, summaries[t.operation] || t.operation), el("td", {}, t.job || "–"),
      el("td", {}, el("span", { className: "state " + ({ done: "good", failed: "bad", cancelled: "warn" }[t.task_state] || "running") }, t.task_state)),
      progress, el("td", { className: "wrap" }, result), cancel);
  });
  $("tasks").tBodies[0].replaceChildren(...rows);
}
function summary(r) {
  if (!r) return "";
  if (r.damage) return r.damage.length + " damaged places, " + bytes(r.checked_bytes) + " checked";
  if (r.number) return "checkpoint " + r.number + ", " + bytes(r.stored_bytes);
  if (r.total_change) return bytes(r.total_change.changed_bytes) + " changed";
  return "done";
}

// One job.
let shown = null, life = null;
function showJob(store, job) {
  shown = { store, job };
  $("h-job").textContent = job;
  $("done").textContent = "";
  drawFacts();
  refreshJob();
}
const facts = [
  ["State", (s) => s.state + (s.phase ? ", " + s.phase : "")], ["Application", (s) => s.app + " on " + s.mapping.length + (s.mapping.length === 1 ? " node" : " nodes")],
  ["Iteration", (s) => s.iterations ? s.iteration + " of " + s.iterations : s.iteration], ["Elapsed", (s) => s.elapsed_s && seconds(s.elapsed_s)], ["Left", (s) => s.left_s !== undefined && seconds(s.left_s)],
  ["Newest checkpoint", (s) => s.latest ? s.latest + ", " + ago(s.latest_created) : "none"], ["At risk", (s) => s.at_risk_s && seconds(s.at_risk_s) + " of work"],
  ["Next checkpoint", (s) => s.next_iteration ? "at iteration " + s.next_iteration : s.next_s !== undefined && "in " + seconds(s.next_s)],
  ["Measured", (s) => s.predicted && s.latest && bytes(s.latest_stored_bytes) + ", pause " + seconds(s.latest_pause_s)],
  ["Predicted", (s) => s.predicted && bytes(s.predicted.stored_bytes) + ", " + between(s.predicted.low_bytes, s.predicted.high_bytes, bytes)],
  ["Digest", (s) => s.digest && s.digest.slice(0, 16) + "…"], ["Failure", (s) => s.failure],
];
function drawFacts() {
  if ($("view-job").hidden || !shown) return;
  const c = jobs.get(shown.store + "/" + shown.job);
  if (!c) { $("facts").textContent = "There is no such job."; $("actions").replaceChildren(); return; }
  $("facts").replaceChildren(...facts.map(([name, f]) => [name, f(c.status)]).filter(([, v]) => v).map(([name, v]) => el("div", {}, el("b", {}, name), String(v))));
  const running = c.status.state === "running";
  const list = [["Verify", "verify", {}, true]];
  if (session.right === "change") {
    list.push(["Checkpoint now", "checkpoint", {}, running], ["Stop", "stop", {}, running], ["Restart", "restart", { "auto-restart": true }, !running && c.status.state !== "completed"]);
  }
  const want = JSON.stringify([shown, list.map((a) => [a[0], a[3]])]);
  if ($("actions").dataset.has === want) return; // a button keeps its focus
  $("actions").dataset.has = want;
  $("actions").replaceChildren(...list.map(([name, op, body, can]) => el("button", { disabled: !can, onclick: () => act(name, op, body) }, name)));
}
async function act(name, op, body) {
  try {
    const t = await api("POST", pathOf(shown.store, shown.job) + "/" + op, body);
    $("done").textContent = name + ": task " + t.task + " has begun";
  } catch (e) { $("done").textContent = name + ": " + e.message; }
}
async function refreshJob() {
  if (!shown) return;
  const { store, job } = shown, path = pathOf(store, job);
  try {
    const [list, history] = await Promise.all([api("GET", path + "/checkpoints"), api("GET", path + "/history")]);
    if (!shown || shown.store !== store || shown.job !== job) return;
    $("checkpoints").tBodies[0].replaceChildren(...list.slice(-mostRows).reverse().map((c) => el("tr", {},
      el("td", { className: "n" }, String(c.number)), el("td", { className: "n" }, String(c.iteration)), el("td", {}, c.created ? new Date(c.created).toLocaleString() : "–"),
      el("td", { className: "n" }, bytes(c.stored_bytes)), el("td", { className: "n" }, c.memory ? bytes(Object.values(c.memory).reduce((a, b) => a + b, 0)) : "–"),
      el("td", { className: "n" }, seconds(c.pause_s)), el("td", { className: "n" }, seconds(c.latency_s.total)),
      el("td", {}, (c.storage_levels || []).join(", ") || "stored" + (c.default_origin ? ", a restart continues here" : "")))));
    drawLife(history);
  } catch (e) { $("done").textContent = e.message; }
}
const words = {
  start: (e) => e.from ? "computes from checkpoint " + e.from + " on " + e.mapping.join(",") : "begins on " + (e.mapping || []).join(","),
  checkpoint: (e) => "checkpoint " + e.number + ": " + bytes(e.stored_bytes) + ", pause " + seconds(e.pause_s),
  checkpoint_lost: (e) => "checkpoint " + e.number + " was aborted: " + e.reason,
  failure: (e) => (e.rank >= 0 ? "rank " + e.rank + " " : "") + e.reason,
  restart: (e) => "restart of " + e.ranks + " ranks from " + (e.from ? "checkpoint " + e.from : "the beginning"),
  restarted: (e) => "restarted in " + seconds(e.restart_s), result: (e) => e.outcome, stopping: () => "is stopping",
};
function drawLife(history) {
  const x = [], y = [], marks = [[], [], []];
  let at = 0;
  for (const e of history) {
    if (e.iteration === undefined && e.type !== "result") continue;
    at = e.type === "result" ? (e.outcome === "completed" ? e.iterations : at) : e.iteration;
    x.push(x.length);
    y.push(at);
    marks[0].push(e.type === "checkpoint" ? at : null);
    marks[1].push(e.type === "failure" ? at : null);
    marks[2].push(e.type === "restart" ? at : null);
  }
  $("log").replaceChildren(...history.filter((e) => words[e.type]).slice(-mostRows).reverse().map((e) => el("li", {}, (e.iteration !== undefined ? "iteration " + e.iteration + ": " : "") + words[e.type](e))));
  const box = $("life");
  life?.destroy();
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", "Chart of " + x.length + " events; the list of events below says the same");
  life = chart(box, "event", [
    { label: "iteration", stroke: color("--accent"), width: 2, points: { show: false } },
    { label: "checkpoint", stroke: color("--good"), paths: () => null, points: { show: true, size: 9, fill: color("--good") } },
    { label: "failure", stroke: color("--bad"), paths: () => null, points: { show: true, size: 11, fill: color("--bad") } },
    { label: "restart", stroke: color("--warn"), paths: () => null, points: { show: true, size: 9, fill: color("--warn") } },
  ], [x, y, ...marks]);
}

// Charts.
const color = (name) => { // light-dark() is for styles; a canvas needs its result
  const probe = el("span");
  probe.style.color = "var(" + name + ")";
  document.body.append(probe);
  const c = getComputedStyle(probe).color;
  probe.remove();
  return c;
};
function chart(box, xLabel, series, data, log) {
  const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
  return new uPlot({
    width: box.clientWidth, height: 280, legend: { live: true }, cursor: { drag: { x: true, y: false } },
    scales: { x: { time: false, distr: log ? 3 : 1 }, y: { range: (u, low, high) => [0, high ? high * 1.05 : 1] } },
    axes: [{ ...axis, ...(log ? { values: (u, list) => list.map((v) => v === null ? "" : seconds(v)) } : {}) }, { ...axis, size: 60, ...(log ? { values: (u, list) => list.map((v) => (100 * v).toPrecision(2) + " %") } : {}) }],
    series: [{ label: xLabel, value: (u, v) => v === null ? "–" : log ? seconds(v) : String(v) }, ...series],
  }, data, box);
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { // a canvas keeps its colours
  if (shown) refreshJob();
  if (!$("view-what-if").hidden) turned();
});
let resized;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(() => { for (const [c, box] of [[life, $("life")], [wasteChart, $("waste")]]) if (c && box.clientWidth) c.setSize({ width: box.clientWidth, height: 280 }); }, 100);
});

// What if.
const span = (v) => Math.pow(10, 3 + v / 100 * 4.5); // 1000 s to a year
const sliders = {
  ranks: (v, form) => ["bt", "sp"].includes(form.app.value) ? v * v : 2 ** Math.round(v / 3.2), // the codes run on squares, or powers of two
  nodes: (v) => Number(v), mtbf: span, time: span, overhead: (v) => v / 100,
};
const told = { ranks: String, nodes: String, mtbf: seconds, time: seconds, overhead: (v) => (100 * v).toFixed(0) + " %" };
let wasteChart = null, asking = null, wait = null;
function knobs() {
  const form = $("what"), k = { app: form.app.value, class: form.class.value, on: form.on.value };
  for (const name in sliders) {
    k[name] = sliders[name](form[name].value, form);
    const text = told[name](k[name]);
    form[name].previousElementSibling.textContent = text;
    form[name].setAttribute("aria-valuetext", text);
  }
  return k;
}
function turned() {
  knobs();
  clearTimeout(wait);
  wait = setTimeout(answerWhatIf, 60);
}
async function answerWhatIf() {
  asking?.abort();
  asking = new AbortController();
  const signal = asking.signal, k = knobs(), began = performance.now();
  const of = k.app + "." + k.class + "." + k.ranks, nodes = "nodes=" + Math.min(k.nodes, k.ranks), on = k.on ? "&on=" + k.on : "";
  const ask = async (id, path, show) => {
    try {
      const a = await api("GET", path, null, signal), [big, small] = show(a);
      $(id).replaceChildren(el("span", { className: "big" }, big), small);
      return a;
    } catch (e) {
      if (e.name !== "AbortError") $(id).replaceChildren(el("span", { className: "warn" }, e.message));
      return null;
    }
  };
  const [, time] = await Promise.all([
    ask("w-size", "/api/predict/size/" + of + "?" + nodes, (a) => [bytes(a.total_bytes), between(a.low_bytes, a.high_bytes, bytes)]),
    ask("w-time", "/api/predict/time/" + of + "?" + nodes + on, timeText),
    ask("w-count", "/api/predict/count/" + of + "?" + nodes + on + "&overhead=" + k.overhead + "&app-time=" + k.time, countText),
  ]);
  if (signal.aborted) return;
  const cost = time && costOf(time);
  if (cost) {
    const best = await ask("w-interval", "/api/interval?cost=" + cost + "&mtbf=" + k.mtbf + "&restart=" + cost, intervalText);
    if (signal.aborted) return;
    drawWaste(cost, k.mtbf, best);
  } else $("w-interval").textContent = "needs the time of a checkpoint";
  $("took").textContent = "answered in " + Math.round(performance.now() - began) + " ms";
}
const costOf = (a) => a.latency_s ? a.latency_s.total : undefined;
const timeText = (a) => [seconds(costOf(a)), between(a.low_s, a.high_s, seconds) + (a.valid ? "; valid for " + a.valid : "")];
const countText = (a) => [String(a.count), between(a.least_count, a.most_count, String) + "; one each " + seconds(a.interval_s) + ", limited by " + a.limited_by];
const intervalText = (a) => [seconds(a.interval_s), "waste " + (100 * a.waste).toPrecision(3) + " % of the time; no interval: the failure rate is given"];

// drawWaste asks for the waste at intervals around the best one, once the sliders rest.
let rest = null;
function drawWaste(cost, mtbf, best) {
  clearTimeout(rest);
  if (!best) return;
  rest = setTimeout(async () => {
    const x = [], signal = asking.signal;
    for (let i = -8; i <= 8; i++) x.push(best.interval_s * Math.pow(2, i / 2));
    try {
      const y = await Promise.all(x.map(async (v) => (await api("GET", "/api/interval?cost=" + cost + "&mtbf=" + mtbf + "&restart=" + cost + "&interval=" + v, null, signal)).waste));
      if (signal.aborted) return;
      wasteChart?.destroy();
      $("waste").setAttribute("role", "img");
      $("waste").setAttribute("aria-label", "Chart of the waste from an interval of " + seconds(x[0]) + " to " + seconds(x[16]) + "; least at " + seconds(best.interval_s));
      wasteChart = chart($("waste"), "interval", [{ label: "waste", stroke: color("--accent"), width: 2, value: (u, v) => v === null ? "–" : (100 * v).toPrecision(3) + " %" }], [x, y], true);
    } catch (e) { if (e.name !== "AbortError") $("took").textContent = e.message; }
  }, 250);
}

// The stream of events.
let source = null, fresh = null;
function listen() {
  source = new EventSource("/api/events");
  let first = true;
  source.onopen = () => { jobs.clear(); tasks.clear(); first = true; $("link").textContent = "live"; };
  source.onerror = () => { $("link").textContent = "no connection: the page tries again"; };
  source.onmessage = (m) => {
    const c = JSON.parse(m.data), key = c.store + "/" + c.job;
    if (c.task_now) tasks.set(c.task_now.task, c.task_now);
    else if (c.status) jobs.set(key, c);
    else jobs.delete(key);
    if (c.task_now && shown && c.task_now.job === shown.job && c.task_now.task_state !== "running") $("done").textContent = "task " + c.task_now.task + ": " + c.task_now.task_state + ". " + (c.task_now.problem ? c.task_now.problem.detail : summary(c.task_now.result));
    if (shown && key === shown.store + "/" + shown.job) { // the tables follow, at most once a second
      fresh ??= setTimeout(() => { fresh = null; refreshJob(); }, 1000);
    }
    draw();
  };
}
const say = (e) => { $("link").textContent = e.message; };

// Views.
const views = { jobs: drawJobs, "what-if": turned, tasks: drawTasks, job: null };
function go() {
  const [name, ...rest] = location.hash.slice(1).split("/").map(decodeURIComponent);
  const view = name in views ? name : "jobs";
  for (const v in views) $("view-" + v).hidden = v !== view;
  for (const a of document.querySelectorAll("nav a")) a.toggleAttribute("aria-current", a.hash === "#" + view || view === "job" && a.hash === "#jobs");
  for (const a of document.querySelectorAll("nav a[aria-current]")) a.setAttribute("aria-current", "page");
  document.title = (view === "job" ? rest[1] : $("view-" + view).querySelector("h2").textContent) + " – ckpt";
  if (view === "job") showJob(rest[0], rest[1]);
  else { shown = null; views[view](); }
}
addEventListener("hashchange", () => { go(); $("main").focus(); });
$("filter").addEventListener("input", draw);
$("what").addEventListener("input", turned);
$("launch").addEventListener("submit", async (e) => {
  e.preventDefault();
  const form = e.target, body = {}, answer = form.querySelector(".answer");
  for (const field of form.elements) {
    if (!field.name || field.name === "store" || field.type !== "checkbox" && !field.value) continue;
    body[field.name] = field.type === "checkbox" ? field.checked : field.type === "number" ? Number(field.value) : field.value;
  }
  try {
    const t = await api("POST", "/api/stores/" + encodeURIComponent(form.store.value) + "/jobs", body);
    answer.textContent = "task " + t.task + " runs " + t.job;
  } catch (x) { answer.textContent = x.message; }
});
async function begin() {
  try {
    const [who, stores, doc] = await Promise.all([api("GET", "/api/session"), api("GET", "/api/stores"), api("GET", "/api/openapi.json")]);
    session = who;
    $("about").textContent = "ckpt " + who.version + " on " + who.host + ". " + stores.map((s) => s.directory + (s.reason ? ": " + s.reason : ", " + bytes(s.free_bytes) + " free")).join("; ");
    $("launch").store.replaceChildren(...stores.map((s) => el("option", {}, s.store)));
    $("launch").hidden = who.right !== "change";
    for (const path of Object.values(doc.paths)) for (const o of Object.values(path)) summaries[o.operationId] = o.summary;
    const on = doc.paths["/api/predict/time/{app}"].get.parameters.find((p) => p.name === "on").schema.enum;
    $("what").on.append(...on.map((name) => el("option", { value: name }, name)));
  } catch (e) { say(e); }
  listen();
  go();
}
begin();
