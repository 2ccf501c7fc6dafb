// Opens pages in Chromium at three widths, light and dark, and says what is wrong with them, as JSON.
// node check.mjs CHROMIUM FOLDER-FOR-SCREENSHOTS PAGE…
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";

// The modules lie where the test installed them, not beside this file.
const require = createRequire(join(process.cwd(), "package.json"));
const { default: puppeteer } = await import(pathToFileURL(require.resolve("puppeteer-core")).href);
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const [chromium, shots, ...pages] = process.argv.slice(2);
const WIDTHS = [360, 768, 1280];
// By what is wrong: what is wrong at every width is said once.
const problems = new Map();
let looked = 0;

const browser = await puppeteer.launch({
  executablePath: chromium,
  // A container has little shared memory.
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-device-scale-factor=1"],
});
for (const path of pages) {
  for (const scheme of ["light", "dark"]) {
    for (const width of WIDTHS) {
      const page = await browser.newPage();
      const blame = what => problems.has(what) || problems.set(what, { page: basename(path), width, scheme, what });
      page.on("pageerror", error => blame(`script: ${error.message}`));
      page.on("console", line => { if (line.type() === "error") blame(`console: ${line.text()}`); });
      page.on("request", request => { if (!request.url().startsWith("file:") && !request.url().startsWith("data:")) blame(`asks for ${request.url()}`); });
      await page.setViewport({ width, height: 900 });
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      await page.goto(pathToFileURL(path).href, { waitUntil: "load" });
      (await page.evaluate(layout)).forEach(blame);
      // Its findings depend on the scheme, and on whether tables must scroll.
      if (width !== 768) {
        await page.evaluate(axe);
        const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
        for (const { id, help, nodes } of violations) blame(`axe ${id}: ${help}: ${nodes.slice(0, 3).map(node => node.target.join(" ")).join("; ")}`);
      }
      await page.screenshot({ path: join(shots, `${basename(path, ".html")}-${scheme}-${width}.png`), fullPage: true });
      if (scheme === "light" && width === 1280) await pictures(page, basename(path, ".html"));
      if (scheme === "light") await drive(page, width, blame);
      looked += 1;
      await page.close();
    }
  }
}
await browser.close();
console.log(JSON.stringify({ looked, problems: [...problems.values()] }));

// Sections alone, as far as a page of documentation has room.
async function pictures(page, name) {
  for (const section of ["arms", "time"]) {
    const box = await page.$eval(`section[aria-labelledby=${section}]`, element => {
      const { left, top, width, height } = element.getBoundingClientRect();
      return { x: left + scrollX - 16, y: top + scrollY, width: width + 32, height: Math.min(height, 1000) };
    });
    await page.screenshot({ path: join(shots, `${name}-${section}.png`), clip: box });
  }
}

// Words that lie over each other, words that are cut off, a page wider than its window.
function layout() {
  const found = [];
  const wide = document.documentElement.scrollWidth;
  if (wide > document.documentElement.clientWidth) found.push(`the page is ${wide} wide`);
  for (const svg of document.querySelectorAll("svg:not(svg svg)")) {
    const frame = svg.getBoundingClientRect();
    // What is folded away keeps the places it had when it was last laid out.
    if (!frame.width || svg.closest("details:not([open])")) continue;
    const words = [...svg.querySelectorAll("text")].filter(text => [...text.childNodes].some(n => n.nodeType === 3 && n.data.trim()));
    const boxes = words.map(text => [[...text.childNodes].filter(n => n.nodeType === 3).map(n => n.data).join(""), text.getBoundingClientRect()]);
    boxes.forEach(([said, box], i) => {
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
        found.push(`"${said}" is cut off in: ${svg.getAttribute("aria-label")}`);
      for (const [other, its] of boxes.slice(i + 1)) {
        const across = Math.min(box.right, its.right) - Math.max(box.left, its.left);
        const down = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
        // Boxes of letters are taller than their ink.
        if (across > 1 && down > box.height * 0.35) found.push(`"${said}" and "${other}" overlap in: ${svg.getAttribute("aria-label")}`);
      }
    });
  }
  for (const cell of document.querySelectorAll("td, th, p, li, dd, dt, figcaption, h1, h2, h3, summary, output, button, .badge")) {
    const folded = cell.parentElement.closest("details:not([open])");
    if (folded && cell.parentElement !== folded) continue;
    const scrolls = cell.closest(".scroll, .charts");
    const box = cell.getBoundingClientRect();
    if (box.width && !scrolls && box.right > document.documentElement.clientWidth + 1) found.push(`"${cell.textContent.trim().slice(0, 60)}" leaves the page`);
    if (box.width && cell.scrollWidth > cell.clientWidth + 1 && cell.clientWidth && !scrolls) found.push(`"${cell.textContent.trim().slice(0, 60)}" is cut off`);
  }
  return found;
}

// Cursor, zoom and tree, by mouse and by keyboard.
async function drive(page, width, blame) {
  const text = selector => page.$eval(selector, element => element.textContent);
  const window_ = () => page.$eval("svg.time .plot", plot => plot.getAttribute("viewBox"));
  const chart = await page.$("svg.time");
  if (!chart) return;
  await chart.scrollIntoView();
  const box = await chart.boundingBox();
  const at = share => [box.x + Math.min(box.width, width - 60) * share, box.y + box.height / 2];
  await page.mouse.move(...at(0.4));
  const before = await text("#said");
  await page.mouse.move(...at(0.7));
  if (await text("#said") === before) blame("the cursor does not follow the mouse");
  const lines = await page.$$eval("svg.time > .cursor", all => new Set(all.filter(l => l.style.display !== "none").map(l => l.getAttribute("x1"))).size);
  if (lines !== 1) blame(`the cursor is at ${lines} places`);
  await page.focus("#at");
  const here = await text("#said");
  // A step of the arrow may be less than three digits show.
  await page.keyboard.press("PageDown");
  if (await text("#said") === here) blame("the cursor does not follow the keyboard");
  const whole = await window_();
  await page.mouse.move(...at(0.3));
  await page.mouse.down();
  await page.mouse.move(...at(0.5), { steps: 4 });
  await page.mouse.up();
  if (await window_() === whole) blame("dragging does not zoom");
  const windows = await page.$$eval("svg.time .plot", all => new Set(all.map(plot => plot.getAttribute("viewBox").split(" ").filter((_, i) => i !== 3).join(" "))).size);
  if (windows !== 1) blame(`charts show ${windows} different stretches`);
  (await page.evaluate(layout)).forEach(what => blame(`zoomed: ${what}`));
  await page.focus("#whole");
  await page.keyboard.press("Enter");
  if (await window_() !== whole) blame("the whole axis does not come back");
  await page.focus("#in");
  await page.keyboard.press("Enter");
  if (await window_() === whole) blame("+ does not zoom");
  await page.focus("#out");
  await page.keyboard.press("Enter");
  const node = await page.$(".tree details.node > summary, details > summary");
  if (!node) return;
  await page.evaluate(summary => { for (let d = summary.closest("details").parentElement.closest("details"); d; d = d.parentElement.closest("details")) d.open = true; }, node);
  const open = () => page.evaluate(summary => summary.parentElement.open, node);
  const was = await open();
  await node.focus();
  await page.keyboard.press("Enter");
  if (await open() === was) blame("the tree does not open by keyboard");
  await page.evaluate(() => document.querySelectorAll("details").forEach(d => { d.open = true; }));
  (await page.evaluate(layout)).forEach(what => blame(`all open: ${what}`));
}
