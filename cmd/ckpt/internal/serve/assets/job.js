"use strict";
// One job: its state, its life, its memory and its versions.

let shown = null;
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
  if (!c) {
    $("facts").textContent = "There is no such job.";
    $("actions").replaceChildren();
    delete $("actions").dataset.has;
    return;
  }
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
    const problems = [], warn = (text) => problems.push(text);
    const [list, history, line] = await Promise.all([api("GET", path + "/checkpoints?last=" + mostVersions, null, null, warn), api("GET", path + "/history"),
      api("GET", path + "/recovery-line").catch((e) => { if (e.status === 404) return null; warn(e.message); })]); // 404: a job without a checkpoint
    if (!shown || shown.store !== store || shown.job !== job) return;
    $("checkpoints").tBodies[0].replaceChildren(...list.slice(-mostRows).reverse().map((c) => el("tr", {},
      el("td", { className: "n" }, String(c.number)), el("td", { className: "n" }, String(c.iteration)), el("td", {}, c.created ? new Date(c.created).toLocaleString() : "–"),
      el("td", { className: "n" }, bytes(c.stored_bytes)), el("td", { className: "n" }, c.memory ? bytes(Object.values(c.memory).reduce((a, b) => a + b, 0)) : "–"),
      el("td", { className: "n" }, seconds(c.pause_s)), el("td", { className: "n" }, seconds(c.latency_s.total)),
      el("td", {}, placesOf(c).join(", ") + (c.default_origin ? ", a restart continues here" : "")),
      el("td", {}, el("a", { href: "#trace/" + [store, job, c.number].map(encodeURIComponent).join("/") }, "trace of " + c.number)))));
    $("problems").textContent = problems.join(". ");
    drawLife(history, line);
    drawZones(list);
    drawVersions(list, history);
  } catch (e) { $("done").textContent = e.message; }
}
const mostVersions = 1000;
const placesOf = (c) => c.storage_levels?.length ? c.storage_levels : ["stored"];
const words = {
  start: (e) => e.from ? "computes from checkpoint " + e.from + " on " + e.mapping.join(",") : "begins on " + (e.mapping || []).join(","),
  checkpoint: (e) => "checkpoint " + e.number + ": " + bytes(e.stored_bytes) + ", pause " + seconds(e.pause_s),
  checkpoint_lost: (e) => "checkpoint " + e.number + " was aborted: " + e.reason,
  failure: (e) => (e.rank >= 0 ? "rank " + e.rank + " " : "") + e.reason,
  restart: (e) => "restart of " + e.ranks + " ranks from " + (e.from ? "checkpoint " + e.from : "the beginning"),
  restarted: (e) => "restarted in " + seconds(e.restart_s), result: (e) => e.outcome, stopping: () => "is stopping",
};

const moment = (t) => Date.parse(t) / 1000;

// drawLife draws iterations over time. Journals of earlier versions have no times: events stand
// one after the other.
function drawLife(history, line) {
  const times = history.some((e) => e.time), at = {}, rows = [], many = line?.places?.length > 1;
  let now = 0;
  for (const e of history) {
    if (times && !e.time) continue;
    const x = times ? moment(e.time) : rows.length, row = { x };
    if (e.type === "checkpoint") at[e.number] = e.iteration;
    if (e.type === "result") now = e.outcome === "completed" ? e.iterations : now;
    else if (e.type === "storage_level" && e.storage_level === "stored" && at[e.number] !== undefined) row.drained = at[e.number];
    else if (e.iteration !== undefined) now = e.iteration;
    else if (e.type !== "checkpoint_lost") continue;
    if (e.type === "start" && rows.length) rows.push({ x, iteration: null }); // a line ends there
    row.iteration = e.type === "storage_level" ? undefined : now; // which a line passes over
    if (["checkpoint", "failure", "restart"].includes(e.type)) row[e.type] = e.iteration;
    if (e.type === "checkpoint_lost") row.aborted = now;
    row.pause = e.type === "checkpoint" ? e.pause_s : undefined;
    rows.push(row);
  }
  $("log").replaceChildren(...history.filter((e) => words[e.type]).slice(-mostRows).reverse().map((e) => el("li", {}, (e.time ? new Date(e.time).toLocaleString() + ", " : "") + (e.iteration !== undefined ? "iteration " + e.iteration + ": " : "") + words[e.type](e))));
  if (!rows.length) { noChart($("life"), "The journal has no events yet."); return; }
  const column = (name) => rows.map((r) => r[name] ?? null), back = line && Math.min(...line.places.map((p) => p.iteration));
  $("line").textContent = line === undefined ? "" : !line ? "No checkpoint can be restarted from yet." :
    "Recovery line, the dashed line: iteration " + back + (many ? " is the oldest of " + line.places.length + " groups" : ", checkpoint " + line.line[0]) + ". If all ranks fail now, the job resumes there.";
  const series = [
    { label: "iteration", stroke: color("--accent"), points: { show: false } },
    marks("checkpoint", "--good", 9), marks("drained into the store", "--accent", 7), marks("failure", "--bad", 11), marks("restart from", "--warn", 9), marks("aborted", "--bad", 6),
    { label: "pause", scale: "right", stroke: color("--soft"), width: 1, fill: color("--line"), paths: uPlot.paths.bars({ size: [0.2, 12, 2] }), points: { show: false } },
  ];
  $("life").line = back;
  chart($("life"), "Chart of " + rows.length + " events; the list of events below says the same", [times ? { ...axes.time, label: "time" } : { ...axes.count, label: "event" }, { ...axes.count, label: "iteration" }, { ...axes.seconds, label: "pause" }],
    series, [column("x"), rows.map((r) => r.iteration), column("checkpoint"), column("drained"), column("failure"), column("restart"), column("aborted"), column("pause")],
    { draw: (u) => drawLine(u, $("life").line) });
}

// drawLine draws the recovery line over a chart.
function drawLine(u, iteration) {
  if (iteration === null || iteration === undefined) return;
  const { ctx, bbox } = u, y = Math.round(u.valToPos(iteration, "y", true)) + 0.5;
  ctx.save();
  ctx.strokeStyle = color("--warn");
  ctx.setLineDash([6, 5]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.restore();
}

// drawZones draws the memory that each checkpoint covers, zone on zone.
const zoneNames = ["library", "shared", "iobuffer", "data"], zoneColors = ["--soft", "--warn", "--bad", "--accent"];
function drawZones(list) {
  const rows = list.filter((c) => c.created && (c.memory || c.zones));
  if (!rows.length) { noChart($("zones"), "No checkpoint tells its zones yet."); return; }
  const of = (c, zone) => (c.memory || c.zones)[zone], data = [rows.map((c) => moment(c.created))];
  let below = rows.map(() => 0);
  for (const zone of zoneNames) data.push(below = rows.map((c, i) => below[i] + of(c, zone)));
  const series = zoneNames.map((label, k) => ({ label, stroke: color(zoneColors[k]), width: 1, fill: k ? undefined : color(zoneColors[0]), points: { show: rows.length < 60, size: 5 },
    value: (u, v, s, i) => i === null || i === undefined ? "–" : bytes(u.data[k + 1][i] - (k ? u.data[k][i] : 0)) }));
  chart($("zones"), "Chart of the zones of " + rows.length + " checkpoints; the table of checkpoints has their sums", [{ ...axes.time, label: "taken" }, { ...axes.bytes, label: "memory" }], series, data,
    { bands: zoneNames.slice(1).map((z, k) => ({ series: [k + 2, k + 1], fill: color(zoneColors[k + 1]) })) });
}

// drawVersions draws where the versions that exist have lived since they were taken.
function drawVersions(list, history) {
  const rows = list.slice(-60).filter((c) => c.created), left = {}, stored = {}, tier = {};
  for (const e of history) {
    if (e.type === "checkpoint") { tier[e.number] = !!e.storage_level; delete left[e.number]; stored[e.number] = e.storage_level ? undefined : e.time; }
    if (e.type === "storage_level" && e.storage_level === "stored") stored[e.number] = e.time;
    if (e.type === "storage_level" && e.storage_level === "reclaimed") left[e.number] = e.time;
  }
  if (!rows.length) { noChart($("versions"), "No version exists yet."); return; }
  const end = Date.now() / 1000, first = moment(rows[0].created), spans = [];
  for (const c of rows) {
    const from = moment(c.created), here = placesOf(c);
    if (tier[c.number] || here.some((p) => p !== "stored" && p !== "next")) spans.push({ n: c.number, from, to: left[c.number] ? moment(left[c.number]) : here.includes("stored") && here.length === 1 ? moment(stored[c.number] || c.created) : end, where: "nodes" });
    if (here.includes("stored")) spans.push({ n: c.number, from: stored[c.number] ? moment(stored[c.number]) : from, to: end, where: "store" });
  }
  const low = rows[0].number, high = rows[rows.length - 1].number;
  $("versions").spans = spans;
  chart($("versions"), "Chart of " + rows.length + " versions over time; the column Where of the table says where each is now", [{ ...axes.time, label: "time" }, { ...axes.count, label: "version" }],
    [{ label: "version", stroke: "transparent", points: { show: false } }], [[first, end], [low, high]],
    { bare: true, range: (u, a, b) => [a - 1, b + 1], draw: (u) => drawSpans(u, $("versions").spans) });
}
function drawSpans(u, spans) {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  const step = Math.abs(u.valToPos(0, "y", true) - u.valToPos(1, "y", true)), thick = Math.max(1, Math.min(8, step / 3));
  for (const s of spans) {
    const x = u.valToPos(s.from, "x", true), w = Math.max(2, u.valToPos(s.to, "x", true) - x), y = u.valToPos(s.n, "y", true);
    ctx.fillStyle = color(s.where === "nodes" ? "--warn" : "--good");
    ctx.fillRect(x, s.where === "nodes" ? y - thick : y, w, thick);
  }
  ctx.restore();
}
