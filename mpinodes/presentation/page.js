"use strict";
const live = JSON.parse(document.getElementById("data").textContent);
const el = (id) => document.getElementById(id);
const svg = (name, attributes, words) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (words !== undefined) made.textContent = words;
  return made;
};
const short = (x) => (x === null ? "unknown" : Number(x.toPrecision(4)).toString());
document.documentElement.classList.add("scripted");

// In every browser alike: numbers first, by size; then words, agent 2 before agent 10.
const words = new Intl.Collator("en", { numeric: true });
function order(a, b) {
  const [x, y] = [parseFloat(a), parseFloat(b)];
  if (isNaN(x) !== isNaN(y)) return isNaN(x) ? 1 : -1;
  return (isNaN(x) ? 0 : x - y) || words.compare(a, b);
}

// Tables: a click on a head sorts by its column, another one the other way.
for (const table of document.querySelectorAll("table.sortable")) {
  table.querySelectorAll("th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => row.cells[column]?.textContent.trim() ?? "";
      const rows = [...table.tBodies[0].rows].sort((a, b) => (up ? 1 : -1) * order(key(a), key(b)));
      table.tBodies[0].append(...rows);
    });
  });
}

// Values: curves to pick, a horizon to pick, and the nearest point under the pointer.
const place = { left: 70, right: 785, top: 12, bottom: 335 };
const margin = 15;
const colour = (k) => `var(--c${k % 7})`;
let shown = null;
let picked = new Set();
function choose(k) {
  shown = live.quantities[k];
  picked = new Set(shown.curves.map((_, i) => i).filter((i) => shown.curves[i].agent === null || shown.curves.length < 5));
  if (!picked.size) picked = new Set(shown.curves.keys());
  el("horizon").max = shown.rounds.length - 1;
  el("horizon").value = shown.rounds.length - 1;
  el("series").replaceChildren(...shown.curves.map((curve, i) => {
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = picked.has(i);
    box.addEventListener("change", () => { box.checked ? picked.add(i) : picked.delete(i); draw(); });
    label.append(box, " " + curve.name);
    label.style.color = colour(i);
    return label;
  }));
  draw();
}
const x = (t) => {
  const last = Math.log(shown.rounds.at(-1));
  return place.left + (place.right - place.left) * (last ? Math.log(t) / last : 0.5);
};
function scale() {
  const values = [...picked].flatMap((i) => shown.curves[i].values).filter((v) => v !== null);
  let [low, high] = [Math.min(...values, Infinity), Math.max(...values, 0)];
  if (low > 0 && low < 0.6 * high || low === Infinity || low === high) low = Math.min(0, low === Infinity ? 0 : low);
  const positive = values.filter((v) => v > 0);
  const logs = values.length > 0 && positive.length === values.length && Math.max(...positive) > 30 * Math.min(...positive);
  if (logs) [low, high] = [Math.max(Math.min(...positive), 1e-9 * high), high];
  if (high === low) high = low + 1;
  const f = logs ? Math.log : (v) => v;
  const y = (v) => place.bottom - (place.bottom - place.top) * Math.max(0, (f(v) - f(low)) / (f(high) - f(low)));
  const ticks = [];
  if (logs) for (const s of [0, 0.25, 0.5, 0.75, 1]) ticks.push(Number((low * (high / low) ** s).toPrecision(1)));
  else {
    const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((m) => m * power >= rough);
    for (let k = Math.ceil(low / step); k * step <= high * (1 + 1e-9); k++) ticks.push(Number((k * step).toPrecision(6)));
  }
  return { y, ticks };
}
function draw() {
  // As wide as it is shown, so that its words stay as large as others, on a phone too.
  const chart = el("chart"), wide = Math.max(320, chart.clientWidth || 800);
  place.right = wide - margin;
  chart.setAttribute("viewBox", `0 0 ${wide} 380`);
  const { y, ticks } = scale(), at = Number(el("horizon").value);
  chart.replaceChildren();
  for (const tick of ticks) {
    chart.append(svg("line", { x1: place.left, x2: place.right, y1: y(tick), y2: y(tick), stroke: "var(--line)" }));
    chart.append(svg("text", { x: place.left - 6, y: y(tick) + 4, "text-anchor": "end" }, Number(tick.toPrecision(3))));
  }
  let free = -1;
  for (const t of shown.rounds) {
    if (x(t) < free) continue;
    chart.append(svg("text", { x: x(t), y: place.bottom + 18, "text-anchor": "middle" }, t));
    free = x(t) + 40;
  }
  chart.append(svg("text", { x: (place.left + place.right) / 2, y: place.bottom + 38, "text-anchor": "middle" }, "rounds"));
  chart.append(svg("line", { x1: x(shown.rounds[at]), x2: x(shown.rounds[at]), y1: place.top, y2: place.bottom, stroke: "var(--faint)", "stroke-dasharray": "4 3" }));
  for (const i of picked) {
    let path = "", pen = "M";
    shown.rounds.forEach((t, k) => {
      const v = shown.curves[i].values[k];
      if (v === null) { pen = "M"; return; }
      path += `${pen}${x(t)} ${y(v)}`;
      pen = "L";
      chart.append(svg("circle", { cx: x(t), cy: y(v), r: 2.5, fill: colour(i) }));
    });
    chart.append(svg("path", { d: path, fill: "none", stroke: colour(i), "stroke-width": 2 }));
  }
  el("at").textContent = shown.rounds[at];
  el("values").tBodies[0].replaceChildren(...[...picked].sort((a, b) => a - b).map((i) => {
    const row = document.createElement("tr");
    for (const words of [shown.curves[i].name, short(shown.curves[i].values[at])]) row.insertCell().textContent = words;
    return row;
  }));
}
if (live.quantities.length) {
  el("quantity").replaceChildren(...live.quantities.map((q, k) => new Option(q.name, k)));
  el("quantity").addEventListener("change", (event) => choose(Number(event.target.value)));
  el("horizon").addEventListener("input", draw);
  el("chart").addEventListener("pointermove", (event) => {
    const box = el("chart").getBoundingClientRect(), { y } = scale();
    const wide = place.right + margin;
    const [px, py] = [((event.clientX - box.left) * wide) / box.width, ((event.clientY - box.top) * 380) / box.height];
    let [near, words] = [Infinity, ""];
    for (const i of picked) shown.rounds.forEach((t, k) => {
      const v = shown.curves[i].values[k];
      if (v === null) return;
      const apart = Math.hypot(x(t) - px, y(v) - py);
      if (apart < near) [near, words] = [apart, `${shown.curves[i].name}, round ${t}: ${short(v)}`];
    });
    if (words) el("tip").textContent = words;
  });
  addEventListener("resize", draw);
  el("chart").closest("details").addEventListener("toggle", draw);
  choose(0);
} else el("chart").closest("details").remove();

// The graph of every round.
const graph = live.topology;
function spot(k) {
  const angle = (2 * Math.PI * k) / graph.agents;
  return [105 * Math.cos(angle), -105 * Math.sin(angle)];
}
function sketch() {
  const k = Number(el("round").value) - 1, picture = el("graph");
  const again = graph.period ? `, ${k + 1 + graph.period}, …` : ` of the first ${graph.rounds.length}`;
  el("roundat").textContent = graph.period === 1 ? "every round" : `${k + 1}${again}`;
  picture.replaceChildren();
  const arrow = svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" });
  arrow.append(svg("path", { d: "M0 0L8 4L0 8z", fill: "var(--faint)" }));
  picture.append(arrow);
  const there = new Set(graph.rounds[k].map(([j, i]) => `${j} ${i}`));
  const radius = graph.agents > 25 ? 4 : 11;
  for (const [j, i] of graph.rounds[k]) {
    const both = there.has(`${i} ${j}`);
    if (both && j > i) continue;
    const [[x1, y1], [x2, y2]] = [spot(j), spot(i)], s = 1 - radius / Math.hypot(x2 - x1, y2 - y1);
    const line = svg("line", { x1, y1, x2: x1 + s * (x2 - x1), y2: y1 + s * (y2 - y1), stroke: "var(--faint)", "stroke-width": radius > 4 ? 1.3 : 0.3 });
    if (!both) line.setAttribute("marker-end", "url(#arrow)");
    picture.append(line);
  }
  for (let i = 0; i < graph.agents; i++) {
    const [cx, cy] = spot(i);
    picture.append(svg("circle", { cx, cy, r: radius, fill: "var(--well)", stroke: "var(--c0)" }));
    if (radius > 4) picture.append(svg("text", { x: cx, y: cy + 4, "text-anchor": "middle" }, i));
  }
}
el("round").max = graph.rounds.length;
el("round").value = 1;
el("round").addEventListener("input", sketch);
sketch();

el("copy").addEventListener("click", async () => {
  const text = el("experiment").textContent;
  try { await navigator.clipboard.writeText(text); } catch {
    const range = document.createRange();
    range.selectNodeContents(el("experiment"));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    document.execCommand("copy");
  }
  el("copy").textContent = "Copied";
});
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
