// Keeps an open page true without a reload: when something changes the server says so, and the page is fetched again.
// Everything works without this script, too.
"use strict";

const SETTLE = 150;
let waiting = 0;

/** Someone who writes is not disturbed. */
function writes() {
  const at = document.activeElement;
  if (!at || !at.closest("main form")) return false;
  return at.matches("input:not([type=checkbox]), textarea, select");
}

async function refresh() {
  waiting = 0;
  if (writes()) return;
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (answer.redirected) { location.assign(answer.url); return; }
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (writes()) return;
  const focus = document.activeElement && document.activeElement.id;
  const open = new Set([...document.querySelectorAll("details[open]")].map((one) => one.id));
  for (const place of ["main", "#bell"]) {
    const now = document.querySelector(place);
    const then = page.querySelector(place);
    if (now && then && now.outerHTML !== then.outerHTML) now.replaceWith(document.adoptNode(then));
  }
  for (const one of document.querySelectorAll("details")) if (open.has(one.id)) one.open = true;
  if (focus) { const again = document.getElementById(focus); if (again) again.focus(); }
  document.title = page.title;
  const icon = document.querySelector("link[rel=icon]");
  const next = page.querySelector("link[rel=icon]");
  if (icon && next && icon.href !== next.href) icon.href = next.href;
}

function soon() {
  if (!waiting) waiting = setTimeout(refresh, SETTLE);
}

// A page that came as the answer to a form is not fetched again.
if (document.querySelector("main[data-live]")) {
  const live = new EventSource("/live");
  live.addEventListener("changed", soon);
  // What happened while nobody was told is on the page as it is now.
  live.addEventListener("open", soon);
}

document.addEventListener("submit", (event) => {
  const button = event.submitter;
  if (button) { button.setAttribute("aria-busy", "true"); button.textContent = button.dataset.busy || button.textContent; }
});
