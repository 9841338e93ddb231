// Keyboard shortcuts. Every page works without this file, and nothing here reads what a page shows.
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
