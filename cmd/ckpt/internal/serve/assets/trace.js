"use strict";
// Traces: the bytes of ranks or files over time, as tiles that the service has added up.

const trace = { path: "", from: null, to: null, answer: null, rows: [] };

// showTrace shows the trace of a checkpoint, or lets the user choose one of the service's.
async function showTrace(store, job, n) {
  trace.from = trace.to = null;
  $("t-of").textContent = job ? "The I/O of checkpoint " + n + " of " + job + "." : "";
  $("t-files").parentElement.hidden = !!job;
  if (job) {
    trace.path = pathOf(store, job) + "/checkpoints/" + n + "/trace/tiles?";
    askTrace();
    return;
  }
  try {
    const list = await api("GET", "/api/traces"), was = $("t-files").value;
    $("t-files").replaceChildren(...list.map((t) => el("option", { value: t.trace }, t.trace + ", " + bytes(t.file_bytes))));
    if (list.some((t) => t.trace === was)) $("t-files").value = was;
    if (!list.length) { trace.answer = null; $("t-says").textContent = "This service shows no traces: ckpt serve --traces DIR shows the traces in a directory, and the table of checkpoints of a job leads to theirs."; drawTiles(); return; }
    chooseTrace();
  } catch (e) { $("t-says").textContent = e.message; }
}
function chooseTrace() {
  trace.path = "/api/traces/tiles?trace=" + encodeURIComponent($("t-files").value) + "&";
  trace.from = trace.to = null;
  askTrace();
}

let askingTrace = null;
async function askTrace() {
  askingTrace?.abort();
  askingTrace = new AbortController();
  const columns = Math.max(50, Math.min(400, Math.floor($("t-map").clientWidth / 3)));
  let path = trace.path + "by=" + $("t-by").value + "&tiles=" + columns;
  if (trace.from !== null) path += "&from=" + trace.from + "&to=" + trace.to;
  $("t-says").textContent = "reading";
  try {
    trace.answer = await api("GET", path, null, askingTrace.signal);
  } catch (e) {
    if (e.name === "AbortError") return;
    trace.answer = null;
    $("t-says").textContent = e.message;
  }
  drawTiles();
}

const moved = (r, i) => ($("t-op").value === "written" ? 0 : r.tile_read_bytes[i]) + ($("t-op").value === "read" ? 0 : r.tile_written_bytes[i]);
const mapRow = 14, mapTop = 4, mapLeft = () => innerWidth < 640 ? 60 : 180;

function drawTiles() {
  const a = trace.answer, canvas = $("t-map"), ctx = canvas.getContext("2d"), filter = $("t-filter").value.toLowerCase();
  trace.rows = a ? a.rows.filter((r) => r.name.toLowerCase().includes(filter)) : [];
  const width = canvas.parentElement.clientWidth, height = mapTop + Math.max(4, trace.rows.length) * mapRow + 24, ratio = devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.height = height + "px";
  ctx.scale(ratio, ratio);
  ctx.font = "11px system-ui, sans-serif";
  $("t-rows").tBodies[0].replaceChildren();
  if (!a) { canvas.setAttribute("aria-label", "No trace"); return; }
  const n = a.rows[0]?.tile_read_bytes.length || 1, left = mapLeft(), w = (width - left) / n;
  let most = 0;
  for (const r of trace.rows) for (let i = 0; i < n; i++) most = Math.max(most, moved(r, i));
  const accent = color("--accent"), soft = color("--soft"), line = color("--line");
  trace.rows.forEach((r, k) => {
    const y = mapTop + k * mapRow;
    ctx.globalAlpha = 1;
    ctx.fillStyle = soft;
    ctx.fillText(shorten(ctx, r.name, left - 8), 0, y + mapRow - 4);
    ctx.fillStyle = line;
    ctx.fillRect(left, y + mapRow - 1, width - left, 1);
    ctx.fillStyle = accent;
    for (let i = 0; i < n; i++) {
      const v = moved(r, i);
      if (v <= 0) continue;
      ctx.globalAlpha = 0.15 + 0.85 * Math.log(1 + v) / Math.log(1 + most);
      ctx.fillRect(left + i * w, y, Math.max(1, w), mapRow - 2);
    }
  });
  ctx.globalAlpha = 1;
  ctx.fillStyle = soft;
  const foot = height - 6;
  ctx.fillText(tick(a.from_s), left, foot);
  ctx.textAlign = "right";
  ctx.fillText(tick(a.to_s), width, foot);
  ctx.textAlign = "left";
  canvas.setAttribute("aria-label", "Heatmap of " + trace.rows.length + " rows from " + tick(a.from_s) + " to " + tick(a.to_s) + "; the table below has their sums");
  $("t-says").textContent = a.events.toLocaleString() + " events; shown " + tick(a.from_s) + " to " + tick(a.to_s) + " of " + tick(a.trace_start_s) + " to " + tick(a.trace_end_s) + "; darkest " + bytes(most) + " in " + seconds((a.to_s - a.from_s) / n);
  const sum = (list) => list.reduce((x, y) => x + y, 0);
  $("t-rows").tBodies[0].replaceChildren(...trace.rows.map((r) => el("tr", {}, el("td", { className: "wrap" }, r.name), el("td", { className: "n" }, bytes(sum(r.tile_read_bytes))), el("td", { className: "n" }, bytes(sum(r.tile_written_bytes))))));
}
const tick = (s) => s === 0 ? "0 s" : (s < 0 ? "-" : "") + seconds(Math.abs(s));
function shorten(ctx, text, most) { // keeps the end, which tells files apart
  if (ctx.measureText(text).width <= most) return text;
  let k = 1;
  while (k < text.length && ctx.measureText("…" + text.slice(k)).width > most) k++;
  return "…" + text.slice(k);
}

// zoom shows another part: a factor below 1 less of the time, a shift in parts of it.
function zoom(factor, shift) {
  const a = trace.answer;
  if (!a) return;
  const length = (a.to_s - a.from_s) * factor, middle = (a.from_s + a.to_s) / 2 + shift * (a.to_s - a.from_s);
  part(middle - length / 2, middle + length / 2);
}
function part(from, to) {
  const a = trace.answer;
  trace.from = Math.max(a.trace_start_s, Math.min(from, a.trace_end_s));
  trace.to = Math.min(a.trace_end_s, Math.max(to, trace.from + (a.trace_end_s - a.trace_start_s) / 1e4));
  askTrace();
}
const timeAt = (x) => {
  const a = trace.answer, canvas = $("t-map"), left = mapLeft();
  return a.from_s + (a.to_s - a.from_s) * Math.max(0, Math.min(1, (x - left) / (canvas.clientWidth - left)));
};
let dragFrom = null;
$("t-map").addEventListener("pointerdown", (e) => { dragFrom = trace.answer && e.offsetX; });
$("t-map").addEventListener("pointerup", (e) => {
  if (dragFrom !== null && Math.abs(e.offsetX - dragFrom) > 6) part(timeAt(Math.min(dragFrom, e.offsetX)), timeAt(Math.max(dragFrom, e.offsetX)));
  dragFrom = null;
});
$("t-map").addEventListener("dblclick", () => { trace.from = trace.to = null; askTrace(); });
$("t-map").addEventListener("pointermove", (e) => {
  const a = trace.answer, row = trace.rows[Math.floor((e.offsetY - mapTop) / mapRow)], left = mapLeft();
  if (!a || !row || e.offsetX < left) { $("t-hover").textContent = ""; return; }
  const n = row.tile_read_bytes.length, i = Math.max(0, Math.min(n - 1, Math.floor((e.offsetX - left) / ($("t-map").clientWidth - left) * n)));
  $("t-hover").textContent = ($("t-by").value === "rank" && row.name !== "no rank" ? "rank " : "") + row.name + " at " + tick(timeAt(e.offsetX)) + ": " + bytes(row.tile_read_bytes[i]) + " read, " + bytes(row.tile_written_bytes[i]) + " written";
});
for (const [id, factor, shift] of [["t-in", 0.5, 0], ["t-out", 2, 0], ["t-left", 1, -0.5], ["t-right", 1, 0.5]]) $(id).addEventListener("click", () => zoom(factor, shift));
$("t-all").addEventListener("click", () => { trace.from = trace.to = null; askTrace(); });
$("t-by").addEventListener("change", askTrace);
for (const id of ["t-op", "t-filter"]) $(id).addEventListener("input", drawTiles);
$("t-files").addEventListener("change", chooseTrace);
