"use strict";
(() => {
  const one = (id) => document.getElementById(id);
  const all = (what) => Array.from(document.querySelectorAll(what));
  // Copy SQL, explanations and ids.
  for (const text of all("details pre, [data-copy]")) {
    const button = document.createElement("button"), label = text.dataset.copy;
    button.type = "button";
    button.textContent = text.closest(".why") ? "Copy explanation" : "Copy";
    if (label) button.setAttribute("aria-label", label);
    button.onclick = async () => {
      try { await navigator.clipboard.writeText(text.textContent); button.textContent = "Copied"; }
      catch { getSelection().selectAllChildren(text); button.textContent = "Selected"; }
    };
    if (label) text.after(" ", button); else text.before(button);
  }
  // The reader's own time beside UTC.
  const local = (root) => {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const date = new Date(time.dateTime);
      if (isNaN(date) || !date.getTimezoneOffset()) continue;
      const text = date.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
      time.title = text + " your time";
      if (!time.closest("td, header, footer")) time.after(" (" + text + " your time)");
    }
  };
  let shown = (one("live-part") || document.body).textContent;
  local(document);
  // Keys.
  const stream = new URLSearchParams(location.search).get("stream");
  const pages = { h: "", e: "/events", f: "/figures/active", p: "/products", d: "/deliveries", s: "/system" };
  let afterG = false, row = -1;
  const move = (by) => {
    const rows = all("tbody tr");
    if (!rows.length) return;
    row = Math.min(Math.max(row + by, 0), rows.length - 1);
    (rows[row].querySelector("a") || rows[row].closest(".scroll")).focus();
  };
  const follow = (rel) => all(".pages a[rel=" + rel + "]").slice(0, 1).forEach((link) => link.click());
  document.addEventListener("keydown", (event) => {
    if (document.body.dataset.key !== "on" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const key = event.key;
    if (afterG) {
      afterG = false;
      if (key in pages) {
        location.href = "/console" + pages[key] + (stream ? "?stream=" + encodeURIComponent(stream) : "");
      }
    } else if (key === "/") { event.preventDefault(); one("search").focus(); }
    else if (key === "j") move(1);
    else if (key === "k") move(-1);
    else if (key === "[") follow("prev");
    else if (key === "]") follow("next");
    else if (key === "g") { afterG = true; setTimeout(() => { afterG = false; }, 1500); }
    else if (key === "?") one("keys").showModal();
  });
  // Live: off until it is switched on.
  const live = one("live");
  if (!live) return;
  let timer = 0;
  const say = (text) => { one("live-status").textContent = text; };
  const stop = (text) => {
    clearInterval(timer);
    timer = 0;
    live.textContent = "Live: off";
    say(text);
  };
  const load = async () => {
    if (!document.hasFocus()) return;
    try {
      const answer = await fetch(location.href);
      if (!answer.ok || answer.redirected) throw 0;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.getElementById("live-part"), old = one("live-part");
      if (next.textContent !== shown) { shown = next.textContent; local(next); old.replaceWith(next); say("Updated."); }
    } catch { stop("Live stopped: no answer."); }
  };
  live.hidden = false;
  live.onclick = () => {
    if (timer) return stop("Live is off.");
    timer = setInterval(load, 3000);
    live.textContent = "Live: on";
    say("Live is on.");
  };
})();
