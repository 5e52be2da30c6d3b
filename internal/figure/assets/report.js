"use strict";
// A report: charts are drawn when they come into view, tables are sorted by their heads.
const figures = [...document.querySelectorAll("figure.drawn")].map((f) => ({ box: f.querySelector(".chart"), chart: JSON.parse(f.querySelector("script").textContent) }));
const again = () => { for (const f of figures) if (f.box.plot) drawn(f.box, f.chart); };
const seen = new IntersectionObserver((list) => {
  for (const e of list) if (e.isIntersecting) { seen.unobserve(e.target); drawn(e.target, figures.find((f) => f.box === e.target).chart); }
}, { rootMargin: "400px" });
for (const f of figures) seen.observe(f.box);
for (const table of document.querySelectorAll("table.sorted")) sortable(table);
let resized;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(again, 100); });
addEventListener("beforeprint", () => { for (const f of figures) drawn(f.box, f.chart); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again); // a canvas keeps its colours
