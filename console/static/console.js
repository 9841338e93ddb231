// Keyboard shortcuts, colours, sorted tables, live tails and pages that renew themselves. Every page works without this file; what a
// stranger wrote is only ever set as textContent, or comes in a page that the server has escaped.
"use strict";

const places = { o: "/", t: "/topics", g: "/groups", b: "/brokers" };
let afterG = false;

function typing(target) {
  return target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName));
}

function help() {
  const lines = [["/", "search"], ["g o", "overview"], ["g t", "topics"], ["g g", "groups"], ["g b", "brokers"], ["?", "this list"]];
  const dialog = document.createElement("dialog");
  const title = dialog.appendChild(document.createElement("h2"));
  title.textContent = "Keyboard shortcuts";
  const list = dialog.appendChild(document.createElement("dl"));
  for (const [key, what] of lines) {
    const row = list.appendChild(document.createElement("div"));
    const name = row.appendChild(document.createElement("dt"));
    name.appendChild(document.createElement("kbd")).textContent = key;
    row.appendChild(document.createElement("dd")).textContent = what;
  }
  const close = dialog.appendChild(document.createElement("button"));
  close.textContent = "Close";
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  dialog.setAttribute("aria-label", "Keyboard shortcuts");
  document.body.appendChild(dialog);
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  const second = afterG;
  afterG = false;
  if (second && Object.hasOwn(places, event.key)) {
    window.location.assign(places[event.key]);
  } else if (event.key === "g") {
    afterG = true;
  } else if (event.key === "/") {
    const field = document.querySelector("form.filter input:not([type=hidden])");
    if (field === null) return;
    field.focus();
    field.select();
  } else if (event.key === "?" && document.querySelector("dialog") === null) {
    help();
  } else {
    return;
  }
  event.preventDefault();
});

function button(name, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = name;
  made.addEventListener("click", () => act(made));
  return made;
}

const schemes = ["", "light", "dark"];

function kept() {
  try {
    return Math.max(0, schemes.indexOf(localStorage.getItem("scheme") ?? ""));
  } catch {
    return 0; // the browser keeps nothing for pages
  }
}

function showScheme(at, switcher) {
  document.documentElement.dataset.scheme = schemes[at];
  switcher.textContent = `Colours: ${schemes[at] || "system"}`;
}

function switchScheme() {
  let at = kept();
  const switcher = button("", () => {
    at = (at + 1) % schemes.length;
    showScheme(at, switcher);
    try {
      localStorage.setItem("scheme", schemes[at]);
    } catch {} // then it is for this page only
  });
  showScheme(at, switcher);
  document.querySelector("header")?.append(switcher);
}

function startTail(tail) {
  const [base, rows, said] = [tail.dataset.tail.split("/tail/")[0], tail.querySelector("tbody"), tail.querySelector("[data-said]")];
  const source = new EventSource(tail.dataset.tail);
  let [shown, unseen, paused] = [0, 0, false];
  const buttons = document.createElement("p");
  const pause = button("Pause", () => {
    paused = !paused;
    pause.textContent = paused ? "Go on" : "Pause";
  });
  const stop = (why) => {
    source.close();
    buttons.remove();
    said.textContent = `${why} ${said.textContent}`;
  };
  buttons.append(pause, " ", button("Stop", () => stop("Stopped.")));
  said.after(buttons);
  source.onerror = () => source.readyState === EventSource.CLOSED && stop("The tail has ended; load the page again.");
  source.onmessage = (event) => {
    const news = JSON.parse(event.data);
    if (news.problem) return stop(news.problem);
    if (paused) unseen += news.rows.length;
    for (const [partition, offset, ...texts] of paused ? [] : news.rows) {
      const row = rows.insertRow(0);
      row.insertCell().textContent = partition;
      const link = row.insertCell().appendChild(document.createElement("a"));
      link.href = `${base}/${partition}/${offset}`;
      link.textContent = offset.toLocaleString("en");
      row.cells[0].className = row.cells[1].className = "n";
      for (const [at, text] of texts.entries()) {
        const cell = row.insertCell();
        (at === 1 || at === 2 ? cell.appendChild(document.createElement("code")) : cell).textContent = text;
      }
      shown += 1;
      if (rows.rows.length > 500) rows.deleteRow(-1);
    }
    said.textContent = `${news.came.toLocaleString("en")} records came, ${shown.toLocaleString("en")} shown, ${(news.left_out + unseen).toLocaleString("en")} that fit were not shown.`;
  };
}

const units = { KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, min: 60, h: 3600, day: 86400, days: 86400 };

function amountOf(cell) {
  const [, digits, unit] = /^([+-]?[\d,.]+)(?:\s+([A-Za-z]+))?/.exec(cell.textContent.trim()) ?? [];
  return digits === undefined ? -Infinity : Number(digits.replaceAll(",", "")) * (units[unit] ?? 1); // what is not known comes last
}

function sortBy(table, head, at) {
  const down = head.classList.contains("n") ? head.ariaSort !== "descending" : head.ariaSort === "ascending"; // the largest first
  const [body, order] = [table.tBodies[0], new Intl.Collator("en", { numeric: true })];
  const rows = [...body.rows].map((row) => [row, row.cells[at].textContent.trim(), amountOf(row.cells[at])]);
  rows.sort(head.classList.contains("n") ? (one, two) => one[2] - two[2] : (one, two) => order.compare(one[1], two[1]));
  for (const other of head.parentElement.cells) other.ariaSort = null;
  head.ariaSort = down ? "descending" : "ascending";
  body.append(...(down ? rows.reverse() : rows).map(([row]) => row));
}

function makeSortable(table) {
  const heads = table.tHead?.rows[0]?.cells ?? [];
  const whole = [...(table.tBodies[0]?.rows ?? [])].every((row) => row.cells.length === heads.length);
  if (!whole || table.tBodies[0].rows.length < 2 || table.closest("[data-tail], [data-live]")) return;
  for (const [at, head] of [...heads].entries()) {
    if (head.querySelector("a, button") !== null || head.textContent.trim() === "") continue;
    const made = button(head.textContent.trim(), () => sortBy(table, head, at));
    made.className = "sort";
    head.replaceChildren(made);
  }
}

async function swap(url, signal) {
  const answer = await fetch(url, { signal });
  const next = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
  if (!answer.ok || next === null) return false;
  const main = document.querySelector("main");
  const focus = document.activeElement?.id;
  const open = [...main.querySelectorAll("details")].map((one) => one.open);
  main.replaceChildren(...next.childNodes);
  main.querySelectorAll("details").forEach((one, at) => (one.open = open[at] ?? one.open));
  if (focus) document.getElementById(focus)?.focus();
  prepare();
  return true;
}

function warn(id, text) {
  if (document.getElementById(id) !== null) return;
  const line = document.createElement("p");
  line.id = id;
  line.className = "warn";
  line.setAttribute("role", "status");
  line.textContent = `▲ ${text}`;
  document.querySelector("main").prepend(line);
}

function prepare() {
  document.querySelectorAll("main .wide table").forEach(makeSortable);
  for (const text of document.querySelectorAll("[data-copy]")) {
    text.after(button("Copy", (made) => navigator.clipboard.writeText(text.textContent).then(() => (made.textContent = "Copied"))));
  }
  const on = document.querySelector("a[data-goon]");
  if (on !== null) {
    const stop = new AbortController();
    const stopper = button(on.dataset.goon || "Stop searching", () => (stop.abort(), stopper.remove()));
    on.after(stopper);
    swap(on.href, stop.signal)
      .catch(() => false)
      .then((done) => {
        if (done) return history.replaceState(null, "", on.href);
        stopper.remove();
        if (!stop.signal.aborted) warn("ended", "This has ended: the console does not answer, or your session is over.");
      });
  }
}

switchScheme();
prepare();
const tail = document.querySelector("[data-tail]");
if (tail !== null) startTail(tail);
const live = document.querySelector("main[data-live]");
if (live !== null) {
  let busy = false;
  setInterval(async () => {
    if (busy || document.hidden || document.querySelector("dialog") !== null || String(getSelection())) return;
    busy = true;
    const done = await swap(window.location.href).catch(() => false);
    if (!done) warn("stale", `Not renewed since ${new Date().toLocaleTimeString()}: the console does not answer, or your session is over.`);
    busy = false;
  }, 1000 * (live.dataset.live || 2));
}
