"use strict";
// What if: answers of the predictions to sliders.

const span = (v) => Math.pow(10, 3 + v / 100 * 4.5); // 1000 s to a year
const sliders = {
  ranks: (v, form) => ["bt", "sp"].includes(form.app.value) ? v * v : 2 ** Math.round(v / 3.2), // the codes run on squares, or powers of two
  nodes: (v) => Number(v), mtbf: span, time: span, overhead: (v) => v / 100,
};
const told = { ranks: String, nodes: String, mtbf: seconds, time: seconds, overhead: (v) => (100 * v).toFixed(0) + " %" };
let asking = null, wait = null;
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
    ask("w-count", "/api/predict/count/" + of + "?" + nodes + on + "&overhead=" + Math.round(100 * k.overhead) + "%25&app-time=" + k.time, countText),
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
      chart($("waste"), "Chart of the waste from an interval of " + seconds(x[0]) + " to " + seconds(x[x.length - 1]) + "; least at " + seconds(best.interval_s), [{ ...axes.interval, label: "interval" }, { ...axes.percent, label: "waste" }],
        [{ label: "waste", stroke: color("--accent") }], [x, y]);
    } catch (e) { if (e.name !== "AbortError") $("took").textContent = e.message; }
  }, 250);
}

