// One cursor and one window on the time axis across every chart. Without this script the page lacks nothing but these two.
(() => {
  const charts = [...document.querySelectorAll("svg.time")];
  const bar = document.getElementById("cursor"), at = document.getElementById("at"), said = document.getElementById("said");
  if (!bar || !charts.length) return;
  const LEFT = 72, RIGHT = 12, WIDTH = 960, plot = WIDTH - LEFT - RIGHT, end = +charts[0].dataset.end, SVG = "http://www.w3.org/2000/svg";
  const three = n => n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2);
  const group = n => n.toFixed(0).replace(/\B(?=(\d{3})+$)/g, " ");
  const say = {
    bytes: n => { for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"]]) if (n >= size) return three(n / size) + " " + unit; return n.toFixed(0) + " B"; },
    rate: n => group(n) + "/s", count: group, percent: n => three(n) + " %", time: n => n >= 1e9 ? three(n / 1e9) + " s" : three(n / 1e6) + " ms",
  };
  const make = (name, attributes) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const panels = charts.map(svg => {
    const height = svg.viewBox.baseVal.height;
    const line = make("line", { class: "cursor", y1: 18, y2: height - 8 });
    const picked = make("rect", { class: "picked", y: 18, height: height - 26, width: 0 });
    svg.append(picked, line);
    const series = [...svg.querySelectorAll("path[data-v]")].map(path => ({
      name: path.dataset.n, values: path.dataset.v.split(" ").map(Number),
      xs: path.getAttribute("d").slice(1).split("L").map(p => +p.split(" ")[0]),
    })).sort((a, b) => order(a.name) - order(b.name));
    const read = document.createElement("span");
    read.className = "read";
    if (series.length) svg.parentElement.querySelector("figcaption").append(read);
    return { svg, line, picked, read, series, height, inner: svg.querySelector(".plot"), say: say[svg.dataset.unit],
      marks: [...svg.querySelectorAll(".moment")], names: [...svg.querySelectorAll(".phase")], axis: svg.querySelector(".at") !== null };
  });
  function order(name) { return ["anonymous", "files", "other", "swap"].indexOf(name); }
  const events = [...document.querySelectorAll("figure > svg.time [data-at]")].filter(g => !g.closest("details"))
    .map(g => ({ at: +g.dataset.at, what: g.querySelector("title").textContent,
      of: g.closest("figure").querySelector("figcaption").firstChild.nextSibling.textContent.split(":")[0] }));
  const moments = [...new Set(events.map(e => e.at))].sort((a, b) => a - b);
  let now = end, from = 0, to = end;
  const across = ns => LEFT + plot * (ns - from) / (to - from);
  const drawn = ns => LEFT + plot * ns / end;
  const inside = x => x >= LEFT - 0.5 && x <= WIDTH - RIGHT + 0.5;
  const show = (element, on) => { element.style.display = on ? "" : "none"; };

  function place(ns) {
    now = Math.max(0, Math.min(end, ns));
    const x = across(now), original = drawn(now);
    for (const { line, read, series, say } of panels) {
      line.setAttribute("x1", x); line.setAttribute("x2", x);
      show(line, inside(x));
      read.textContent = series.map(s => {
        let i = s.xs.findIndex(v => v > original + 0.05);
        i = i < 0 ? s.xs.length - 1 : i - 1;
        if (original > s.xs.at(-1) + 4) return "";
        return i < 0 ? "" : s.name + " " + say(s.values[i]);
      }).filter(Boolean).join(" · ") || "–";
    }
    const near = events.filter(e => Math.abs(e.at - now) < (to - from) / 400).slice(0, 3).map(e => e.of + ": " + e.what);
    said.textContent = [say.time(now), ...near].join(" · ");
    at.value = Math.round(1000 * (now - from) / (to - from));
    at.setAttribute("aria-valuetext", said.textContent);
  }
  function step(forward) {
    const next = forward ? moments.find(m => m > now) : moments.filter(m => m < now).pop();
    if (next === undefined) return;
    if (next < from || next > to) look(next - (to - from) / 2, next + (to - from) / 2);
    place(next);
  }

  // Shows a stretch of the axis in every chart: drawings are stretched, words and marks move.
  function look(first, last) {
    const width = Math.max(end / 500, Math.min(end, last - first));
    from = Math.max(0, Math.min(end - width, first));
    to = from + width;
    const whole = width >= end * 0.999;
    for (const { svg, inner, marks, names, axis, height } of panels) {
      inner.setAttribute("viewBox", `${drawn(from)} 0 ${plot * width / end} ${height}`);
      for (const mark of marks) {
        const x = across(+mark.dataset.at);
        mark.setAttribute("transform", `translate(${x - drawn(+mark.dataset.at)} 0)`);
        show(mark, inside(x));
      }
      for (const name of names) {
        const [a, b] = [Math.max(from, +name.dataset.from), Math.min(to, +name.dataset.to)];
        name.setAttribute("x", across(a) + 4);
        const label = name.querySelector("title").textContent;
        name.firstChild.nodeType === Node.TEXT_NODE || name.prepend("");
        name.firstChild.data = across(b) - across(a) > label.length * 7 + 8 ? label : "";
      }
      if (axis) mark_axis(svg, height);
    }
    document.getElementById("whole").disabled = whole;
    document.getElementById("out").disabled = whole;
    place(now);
  }
  function mark_axis(svg, height) {
    svg.querySelectorAll(".at").forEach(tick => tick.remove());
    const raw = (to - from) / 1e9 / 8, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map(f => f * power).find(s => s >= raw) * 1e9, base = height - 30;
    for (let ns = Math.ceil(from / step) * step; ns <= to * 1.0001; ns += step) {
      const x = across(ns), tick = make("g", { class: "at" }), text = make("text", { class: "tick", x, y: base + 20, "text-anchor": x > WIDTH - 30 ? "end" : "middle" });
      text.textContent = +(ns / 1e9).toPrecision(6) + " s";
      tick.append(make("line", { class: "mark", x1: x, x2: x, y1: base, y2: base + 5 }), text);
      svg.append(tick);
    }
  }
  const zoom = factor => { const half = (to - from) * factor / 2; look(now - half, now + half); };

  at.addEventListener("input", () => place(from + (to - from) * at.value / 1000));
  for (const [id, act] of [["before", () => step(false)], ["after", () => step(true)], ["in", () => zoom(0.5)], ["out", () => zoom(2)], ["whole", () => look(0, end)]])
    document.getElementById(id).addEventListener("click", act);
  for (const { svg } of panels) {
    let began = null;
    const under = e => {
      const box = svg.getBoundingClientRect();
      return from + (to - from) * Math.max(0, Math.min(1, ((e.clientX - box.left) * WIDTH / box.width - LEFT) / plot));
    };
    const pick = (a, b) => panels.forEach(({ picked }) => {
      picked.setAttribute("x", across(Math.min(a, b)));
      picked.setAttribute("width", across(Math.max(a, b)) - across(Math.min(a, b)));
    });
    const far = ns => Math.abs(ns - began) > (to - from) / 100;
    svg.addEventListener("pointerdown", e => {
      place(under(e));
      // A finger moves the cursor; a mouse, which moves it anyway, picks a stretch.
      if (e.pointerType === "mouse" && e.button === 0) { began = under(e); svg.setPointerCapture(e.pointerId); e.preventDefault(); }
    });
    svg.addEventListener("pointermove", e => {
      if (e.pointerType === "mouse" || e.buttons) place(under(e));
      if (began !== null) pick(began, far(under(e)) ? under(e) : began);
    });
    const stop = e => {
      if (began === null) return;
      const first = began, last = under(e);
      pick(first, first);
      if (e.type === "pointerup" && far(last)) look(Math.min(first, last), Math.max(first, last));
      began = null;
    };
    svg.addEventListener("pointerup", stop);
    svg.addEventListener("pointercancel", stop);
    svg.addEventListener("dblclick", () => look(0, end));
  }
  bar.hidden = false;
  document.documentElement.classList.add("scripted");
  // Where every arm still has something to say.
  const last = panels.flatMap(p => p.series.map(s => s.xs.at(-1)));
  look(0, end);
  place(end * (Math.min(...last) - LEFT) / plot / 2);
})();
