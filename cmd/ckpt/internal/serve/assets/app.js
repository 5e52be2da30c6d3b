"use strict";
// The page of ckpt serve: jobs as they are told by the stream of events, and answers of the API.

const jobs = new Map(); // by store/job
const tasks = new Map();
const summaries = {}; // of operations
let session = { right: "read" };

// api asks, and throws the detail and the hint of a problem. Warnings go to warn.
async function api(method, path, body, signal, warn) {
  const r = await fetch(path, { method, signal, headers: body ? { "Content-Type": "application/json" } : {}, body: body && JSON.stringify(body) });
  const answer = await r.json();
  if (!r.ok) throw Object.assign(new Error(answer.detail + (answer.hint ? ". " + answer.hint : "")), { status: r.status });
  const told = r.headers.get("Ckpt-Warning");
  if (told && warn) warn(told);
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
    const result = outcome(t);
    return el("tr", {}, el("td", { className: "n" }, t.task), el("td", { className: "wrap" }, summaries[t.operation] || t.operation), el("td", {}, t.job || "–"),
      el("td", {}, el("span", { className: "state " + ({ done: "good", failed: "bad", cancelled: "warn" }[t.task_state] || "running") }, t.task_state)),
      progress, el("td", { className: "wrap" }, result), cancel);
  });
  $("tasks").tBodies[0].replaceChildren(...rows);
}
const outcome = (t) => (t.problem ? [t.problem.detail, t.problem.hint] : [summary(t.result), ...(t.warnings || [])]).filter(Boolean).join(". ");
function summary(r) {
  if (!r) return "";
  if (r.damage) return r.damage.length + " damaged places, " + bytes(r.checked_bytes) + " checked";
  if (r.number) return "checkpoint " + r.number + ", " + bytes(r.stored_bytes);
  if (r.total_change) return bytes(r.total_change.changed_bytes) + " changed";
  return "done";
}

// The stream of events.
let source = null, fresh = null;
function listen() {
  source = new EventSource("/api/events");
  let first = true;
  source.onopen = () => { jobs.clear(); tasks.clear(); first = true; $("link").textContent = "live"; };
  source.onerror = () => { $("link").textContent = source.readyState === EventSource.CLOSED ? "not signed in any more: open the link that ckpt serve prints" : "no connection: the page tries again"; };
  source.onmessage = (m) => {
    const c = JSON.parse(m.data), key = c.store + "/" + c.job;
    if (c.task_now) tasks.set(c.task_now.task, c.task_now);
    else if (c.status) jobs.set(key, c);
    else jobs.delete(key);
    if (c.task_now && shown && c.task_now.job === shown.job && c.task_now.task_state !== "running") $("done").textContent = "task " + c.task_now.task + ": " + c.task_now.task_state + ". " + outcome(c.task_now);
    if (shown && key === shown.store + "/" + shown.job) { // the tables follow, at most once a second
      fresh ??= setTimeout(() => { fresh = null; refreshJob(); }, 1000);
    }
    draw();
  };
}
const say = (e) => { $("link").textContent = e.message; };

// Views.
const views = { jobs: drawJobs, "what-if": turned, trace: showTrace, studies: showStudies, tasks: drawTasks, job: null };
function go() {
  const [name, ...rest] = location.hash.slice(1).split("/").map(decodeURIComponent);
  const view = name in views ? name : "jobs";
  for (const v in views) $("view-" + v).hidden = v !== view;
  for (const a of document.querySelectorAll("nav a")) a.toggleAttribute("aria-current", a.hash === "#" + view || view === "job" && a.hash === "#jobs");
  for (const a of document.querySelectorAll("nav a[aria-current]")) a.setAttribute("aria-current", "page");
  document.title = (view === "job" ? rest[1] : $("view-" + view).querySelector("h2").textContent) + " – ckpt";
  if (view === "job") showJob(rest[0], rest[1]);
  else { shown = null; views[view](...rest); }
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
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { // a canvas keeps its colours
  if (shown) refreshJob();
  if (!$("view-what-if").hidden) turned();
  if (!$("view-trace").hidden) drawTiles();
  againStudy();
});
const againStudy = () => { if (!$("view-studies").hidden) for (const box of document.querySelectorAll("#study .chart")) box.again?.(); };
let resized;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(() => { if (!$("view-trace").hidden) drawTiles(); for (const box of document.querySelectorAll(".chart")) if (box.plot && box.clientWidth && !box.again) box.plot.setSize({ width: box.clientWidth, height: 300 }); againStudy(); }, 100);
});
async function begin() {
  try {
    const [who, stores, doc] = await Promise.all([api("GET", "/api/session"), api("GET", "/api/stores"), api("GET", "/api/openapi.json")]);
    session = who;
    $("about").textContent = "ckpt " + who.version + " on " + who.host + ". " + stores.map((s) => s.directory + (s.reason ? ": " + s.reason : s.free_bytes === undefined ? "" : ", " + bytes(s.free_bytes) + " free")).join("; ");
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
