// One cursor across every chart over time. Without this script the page lacks nothing but the cursor.
(() => {
  const charts = [...document.querySelectorAll("svg.time")];
  const bar = document.getElementById("cursor"), at = document.getElementById("at"), said = document.getElementById("said");
  if (!bar || !charts.length) return;
  const LEFT = 72, RIGHT = 12, WIDTH = 960, plot = WIDTH - LEFT - RIGHT, end = +charts[0].dataset.end;
  const three = n => n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2);
  const group = n => n.toFixed(0).replace(/\B(?=(\d{3})+$)/g, " ");
  const say = {
    bytes: n => { for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"]]) if (n >= size) return three(n / size) + " " + unit; return n.toFixed(0) + " B"; },
    rate: n => group(n) + "/s", count: group, percent: n => three(n) + " %", time: n => n >= 1e9 ? three(n / 1e9) + " s" : three(n / 1e6) + " ms",
  };
  const panels = charts.map(svg => {
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const height = svg.viewBox.baseVal.height;
    for (const [name, value] of [["class", "cursor"], ["y1", 18], ["y2", height - 8]]) line.setAttribute(name, value);
    svg.append(line);
    const read = document.createElement("span");
    read.className = "read";
    svg.parentElement.querySelector("figcaption").append(read);
    const series = [...svg.querySelectorAll("path[data-v]")].map(path => ({
      name: path.dataset.n, values: path.dataset.v.split(" ").map(Number),
      xs: path.getAttribute("d").slice(1).split("L").map(p => +p.split(" ")[0]),
    })).sort((a, b) => order(a.name) - order(b.name));
    return { svg, line, read, series, say: say[svg.dataset.unit] };
  });
  function order(name) { return ["anonymous", "files", "other", "swap"].indexOf(name); }
  const events = [...document.querySelectorAll("figure > svg.time [data-at]")].filter(g => !g.closest("details"))
    .map(g => ({ at: +g.dataset.at, what: g.querySelector("title").textContent,
      of: g.closest("figure").querySelector("figcaption").firstChild.nextSibling.textContent.split(":")[0] }));
  const moments = [...new Set(events.map(e => e.at))].sort((a, b) => a - b);
  let now = end;
  function place(ns) {
    now = Math.max(0, Math.min(end, ns));
    const x = LEFT + plot * now / end;
    for (const { line, read, series, say } of panels) {
      line.setAttribute("x1", x); line.setAttribute("x2", x);
      read.textContent = series.map(s => {
        let i = s.xs.findIndex(v => v > x + 0.05);
        i = i < 0 ? s.xs.length - 1 : i - 1;
        if (x > s.xs.at(-1) + 4) return "";
        return i < 0 ? "" : s.name + " " + say(s.values[i]);
      }).filter(Boolean).join(" · ") || "–";
    }
    const near = events.filter(e => Math.abs(e.at - now) < end / 400).slice(0, 3).map(e => e.of + ": " + e.what);
    said.textContent = [say.time(now), ...near].join(" · ");
    at.value = Math.round(1000 * now / end);
    at.setAttribute("aria-valuetext", said.textContent);
  }
  function step(forward) {
    const next = forward ? moments.find(m => m > now) : moments.filter(m => m < now).pop();
    if (next !== undefined) place(next);
  }
  at.addEventListener("input", () => place(end * at.value / 1000));
  document.getElementById("before").addEventListener("click", () => step(false));
  document.getElementById("after").addEventListener("click", () => step(true));
  for (const { svg } of panels) {
    const follow = e => {
      const box = svg.getBoundingClientRect();
      place(end * ((e.clientX - box.left) * WIDTH / box.width - LEFT) / plot);
    };
    svg.addEventListener("pointermove", e => { if (e.pointerType === "mouse" || e.buttons) follow(e); });
    svg.addEventListener("pointerdown", follow);
  }
  bar.hidden = false;
  document.documentElement.classList.add("scripted");
  // Where every arm still has something to say.
  const last = panels.flatMap(p => p.series.map(s => s.xs.at(-1)));
  place(end * (Math.min(...last) - LEFT) / plot / 2);
})();
