"use strict";
// Studies: what ckpt study found, as its page has it.

async function showStudies(name) {
  $("s-says").textContent = "";
  try {
    const list = (await api("GET", "/api/studies")).sort((a, b) => b.modified.localeCompare(a.modified));
    $("s-files").replaceChildren(...list.map((s) => el("option", { value: s.study }, s.study + ", " + new Date(s.modified).toLocaleString())));
    $("s-files").parentElement.hidden = !list.length;
    if (!list.length) { $("study").replaceChildren(); $("s-says").textContent = "This service shows no studies: ckpt serve --studies DIR shows those in a directory, and ckpt study makes one."; return; }
    if (list.some((s) => s.study === name)) $("s-files").value = name;
    const s = await api("GET", "/api/studies/page?study=" + encodeURIComponent($("s-files").value));
    if ($("view-studies").hidden) return;
    drawStudy(s);
  } catch (e) { $("study").replaceChildren(); $("s-says").textContent = e.message; }
}
$("s-files").addEventListener("change", () => { location.hash = "#studies/" + encodeURIComponent($("s-files").value); });

const factList = (facts) => el("dl", {}, ...facts.map((f) => el("div", {}, el("dt", {}, f.name), el("dd", {}, f.text))));
function drawStudy(s) {
  const titles = s.sections.map((p, i) => [p.title, "section-" + i]);
  const contents = el("nav", { className: "contents", ariaLabel: "Contents" }, el("ul", {}, ...titles.map(([title, id]) => el("li", {}, el("button", { type: "button", className: "jump", onclick: () => { $(id).scrollIntoView(); $(id).focus(); } }, title)))));
  $("study").replaceChildren(el("h3", { className: "head" }, s.title), el("p", { className: "note" }, s.note), contents, factList(s.facts), ...s.sections.map((p, i) => drawSection(p, "section-" + i)));
  for (const table of $("study").querySelectorAll("table")) sortable(table);
  drawPictures(s);
}
function drawSection(p, id) {
  const parts = [];
  if (p.method_phase) parts.push(el("p", { className: "phase" }, p.method_phase));
  parts.push(el("h3", { id, tabIndex: -1 }, p.title), ...(p.paragraphs || []).map((text) => el("p", {}, text)));
  if (p.facts) parts.push(factList(p.facts));
  if (p.findings) parts.push(el("ul", {}, ...p.findings.map((f) => el("li", {}, el("b", {}, f.name), ": " + f.text))));
  for (const t of p.tables || []) parts.push(drawTable(t));
  for (const c of p.pictures || []) parts.push(el("figure", { className: "drawn" }, el("div", { className: "chart" }), el("figcaption", {}, c.caption)));
  if (p.commands) parts.push(el("details", {}, el("summary", {}, "Produced by"), el("pre", {}, p.commands.join("\n"))));
  return el("section", {}, ...parts);
}
function drawTable(t) {
  const number = t.head.map((text) => text.startsWith("|")), of = (k) => number[k] ? "n" : "";
  const table = el("table", {}, ...(t.note ? [el("caption", {}, t.note)] : []), el("thead", {}, el("tr", {}, ...t.head.map((text, k) => el(text ? "th" : "td", text ? { scope: "col", className: of(k) } : {}, text.replace(/^\|/, ""))))),
    el("tbody", {}, ...(t.rows || []).map((r) => el("tr", {}, ...r.map((text, k) => el("td", { className: of(k) }, text))))));
  return el("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: t.note || t.head.join(", ") }, table);
}
function drawPictures(s) {
  const charts = s.sections.flatMap((p) => p.pictures || []);
  document.querySelectorAll("#study .chart").forEach((box, i) => { box.again = () => drawn(box, charts[i].chart); box.again(); });
}
