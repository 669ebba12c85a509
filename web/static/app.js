// The only script: theme, the viewer's zone, live regions, keys. Every page works without it.
"use strict";

(() => {
  const root = document.documentElement;
  const asItIs = { createHTML: (text) => text };
  const policy = window.trustedTypes?.createPolicy("pgcron-live", asItIs) ?? asItIs;
  const LONGEST_PAUSE = 60;

  // Before anything is drawn: no flash of the other theme.
  try {
    const kept = localStorage.getItem("theme");
    if (["light", "dark"].includes(kept)) root.dataset.theme = kept;
  } catch { /* private windows */ }

  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const isZoneNew = zone && !document.cookie.includes(`pgcron_zone=${zone}`);
  if (isZoneNew) document.cookie = `pgcron_zone=${zone}; path=/; max-age=31536000; samesite=lax`;

  function switchTheme() {
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* private windows forget */ }
  }

  // Live regions: the page is asked for again without its frame, and what changed is put in place.
  const live = { base: 0, timer: 0, failures: 0, since: Date.now(), held: false, label: null };

  function isHeld(region) {
    const focused = document.activeElement;
    if (focused && focused !== document.body && region.contains(focused)) return true;
    if (region.querySelector("input:checked, details[open], dialog[open]")) return true;
    if ([...region.querySelectorAll("select")].some((field) => field.selectedIndex > 0 && !field.selectedOptions[0].defaultSelected)) return true;
    const selected = getSelection();
    return !selected.isCollapsed && region.contains(selected.anchorNode);
  }

  function swap(fresh) {
    // A page of an error becomes itself again as soon as it can.
    if (document.querySelector("[data-failure]") && !fresh.querySelector("[data-failure]")) location.reload();
    for (const region of document.querySelectorAll("[data-live][id]")) {
      const next = fresh.getElementById(region.id);
      if (!next || region.isEqualNode(next) || isHeld(region)) continue;
      const scrolled = [...region.querySelectorAll(".scroll")].map((box) => [box.scrollLeft, box.scrollTop]);
      const placed = document.importNode(next, true);
      region.replaceWith(placed);
      placed.querySelectorAll(".scroll").forEach((box, at) => box.scrollTo(...(scrolled[at] || [0, 0])));
    }
    if (fresh.title) document.title = fresh.title;
  }

  function say(state, text) {
    if (!live.label) return;
    live.label.hidden = false;
    live.label.dataset.state = state;
    if (live.label.textContent !== text) live.label.textContent = text;
  }

  async function refresh() {
    clearTimeout(live.timer);
    if (document.hidden || live.held) return;
    try {
      const answer = await fetch(location.href, {
        headers: { "X-Pgcron-Live": document.getElementById("main").dataset.operation }, cache: "no-store", redirect: "error", signal: AbortSignal.timeout(10000),
      });
      if (!answer.headers.get("content-type")?.startsWith("text/html")) throw new Error(String(answer.status));
      const text = await answer.text();
      if (live.held) return; // held while this was under way
      swap(new DOMParser().parseFromString(policy.createHTML(text), "text/html"));
      live.failures = answer.ok ? 0 : live.failures + 1;
      if (answer.ok) live.since = Date.now();
    } catch {
      if (live.held) return;
      live.failures += 1;
    }
    if (live.failures) say("stale", `stale, ${Math.round((Date.now() - live.since) / 1000)} s`);
    else say("live", "live");
    if (!live.base) return; // a page that stays as it is was asked for this once
    const pause = Math.min(live.base * 2 ** Math.min(live.failures, 5), LONGEST_PAUSE);
    live.timer = setTimeout(refresh, pause * 1000);
  }

  function hold() {
    live.held = !live.held;
    if (live.held) { clearTimeout(live.timer); say("held", "held"); } else refresh();
  }

  // Keys: single letters only move around; nothing is done without a button.
  let afterG = 0;

  function showKeys() { document.getElementById("keys").showModal(); }

  function find() {
    const field = document.querySelector("[data-search]");
    const fold = field?.closest("details");
    if (fold) fold.open = true;
    field?.focus();
  }

  function moveRow(step) {
    const links = [...document.querySelectorAll("table.rows tbody th a, table.cards tbody .strong a")];
    const at = links.indexOf(document.activeElement);
    links[Math.min(Math.max(at + step, 0), links.length - 1)]?.focus();
  }

  function onKey(event) {
    const target = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, select, textarea, [contenteditable], dialog[open]")) return;
    if (Date.now() - afterG < 1500) {
      afterG = 0;
      const link = document.querySelector(`.top nav a[data-key="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
      return;
    }
    const known = {
      g: () => { afterG = Date.now(); }, t: switchTheme, r: refresh, p: hold, j: () => moveRow(1), k: () => moveRow(-1),
      "?": showKeys,
      "/": find,
    };
    if (Object.hasOwn(known, event.key)) { event.preventDefault(); known[event.key](); }
  }

  // A page that comes back from the browser's memory was used: its forms are operations that are done.
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

  document.addEventListener("DOMContentLoaded", () => {
    for (const [id, action] of [["theme", switchTheme], ["keys-open", showKeys]]) {
      const button = document.getElementById(id);
      button.hidden = false;
      button.addEventListener("click", action);
    }
    document.addEventListener("keydown", onKey);
    // An address names only the filters that were given.
    for (const form of document.querySelectorAll("form.filters")) {
      form.addEventListener("formdata", (event) => {
        for (const [name, value] of [...event.formData]) if (!value) event.formData.delete(name);
      });
    }
    // On a phone the links are wider than the screen: the page's own is in sight.
    const links = document.querySelector(".top nav");
    const own = links.querySelector("[aria-current]");
    if (own) links.scrollLeft += own.getBoundingClientRect().right - links.getBoundingClientRect().right + 40;
    // On a phone the timeline opens where now is, a little to the right of the middle.
    for (const box of document.querySelectorAll("#timeline .plot-scroll")) {
      if (box.scrollWidth > box.clientWidth) box.scrollLeft = box.scrollWidth * 0.72 - box.clientWidth * 0.7;
    }
    // What was just done is said once, not at each reload.
    const here = new URL(location.href);
    if (here.searchParams.has("done")) {
      here.searchParams.delete("done");
      history.replaceState(null, "", here);
    }
    live.base = Number(document.getElementById("main").dataset.refresh || 0);
    if (live.base > 0) {
      live.label = document.getElementById("live-state");
      if (document.querySelector("[data-failure]")) say("stale", "waiting"); else say("live", "live");
      // The first page was made before the server knew the zone.
      if (isZoneNew && !here.searchParams.has("tz")) {
        document.querySelector(".top .zone").textContent = zone;
        refresh();
      } else {
        live.timer = setTimeout(refresh, live.base * 1000);
      }
      document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
    }
  });
})();
