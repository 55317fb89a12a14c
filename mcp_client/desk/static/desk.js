// The live part of the approval page. All markup is made and escaped by the server; this inserts it,
// and writes text as text.
"use strict";
(() => {
  const calls = document.getElementById("calls");
  const batch = document.getElementById("batch");
  const empty = document.getElementById("empty");
  const live = document.getElementById("live");
  const filter = document.getElementById("filter");
  const every = document.getElementById("every");
  const policy = window.trustedTypes
    ? window.trustedTypes.createPolicy("desk", { createHTML: (markup) => markup })
    : { createHTML: (markup) => markup };
  const skip = Number(calls.dataset.skip);
  const most = Number(calls.dataset.most);
  let token = batch.elements.token.value;
  let decided = null;
  let logins = "";
  let pending = null;
  let latest = null;
  let syncing = Promise.resolve();

  const cards = () => Array.from(calls.querySelectorAll("article:not(.settled)"));
  const shown = () => cards().filter((card) => !card.hidden);
  const tickOf = (card) => card.querySelector("input.tick");
  const cardOf = (id) => document.getElementById(`call-${id}`);
  const nameOf = (card) => card.querySelector("h2").textContent;

  function say(text) {
    document.getElementById("said").textContent = text;
  }

  function show(place, text) {
    place.textContent = text;
    place.hidden = !text;
  }

  async function get(address) {
    const answer = await fetch(address, { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new Error(String(answer.status));
    return answer.text();
  }

  function insert(place, markup, replace) {
    const made = document.createElement("template");
    made.innerHTML = policy.createHTML(markup);
    if (replace) place.replaceChildren(made.content);
    else place.append(made.content);
  }

  // ------------------------------------------------------------------ what is pending

  async function sync(state) {
    token = state.token;
    for (const field of document.querySelectorAll("input[name=token]")) field.value = token;
    if (logins !== state.logins) {
      insert(document.getElementById("logins"), await get("logins"), true);
      logins = state.logins;
    }
    pending = new Set(state.ids);
    settleGone();
    const room = Math.max(0, most - cards().length);
    const missing = state.ids.slice(skip).filter((id) => !cardOf(id)).slice(0, room);
    if (missing.length) insert(calls, await get(`calls?ids=${missing.join(",")}`), false);
    others(state.ids.length);
    if (missing.length) say(missing.length === 1 ? "A new request waits." : `${missing.length} new requests wait.`);
    if (decided !== null && decided !== state.decided) {
      insert(document.getElementById("decided"), await get("decided"), true);
    }
    decided = state.decided;
    refresh();
  }

  // A page has room for so many; what waits beside them is counted and linked to.
  function others(all) {
    const here = cards().length;
    show(document.getElementById("others-count"), here < all ? `These are ${here} of ${all} requests that wait.` : "");
    document.getElementById("others-first").hidden = !skip;
    document.getElementById("others-next").hidden = all <= skip + most;
    document.getElementById("others").hidden = here >= all && !skip;
  }

  // What this page itself is answering now is told by that answer.
  function settleGone() {
    for (const card of cards()) {
      const busy = card.querySelector("form.answer").dataset.busy || (batch.dataset.busy && tickOf(card).checked);
      if (pending && !pending.has(card.dataset.id) && !busy) {
        settle(card, "Decided elsewhere, or its caller has gone.");
      }
    }
  }

  // A card that is decided stays where it is while somebody points at the list, so that no button
  // of another request comes to lie under the pointer.
  function settle(card, text, quiet) {
    const inside = card.contains(document.activeElement);
    const note = document.createElement("p");
    note.className = "settled-note";
    note.textContent = text;
    card.querySelector("form.answer").replaceWith(note);
    card.querySelector("label.select").remove();
    card.classList.add("settled");
    if (!quiet) say(`${nameOf(card)}: ${text}`);
    if (inside) {
      const following = shown().find((other) => card.compareDocumentPosition(other) & 4) || shown()[0];
      (following ? following.querySelector("h2") : calls).focus();
    }
    leave(card);
    refresh();
  }

  function leave(card) {
    window.setTimeout(() => {
      if (calls.querySelector("article:hover") || card.contains(document.activeElement)) leave(card);
      else card.remove();
    }, 2500);
  }

  function refresh() {
    const words = filter.value.trim().toLowerCase();
    for (const card of cards()) {
      card.hidden = Boolean(words) && !card.dataset.text.toLowerCase().includes(words);
      if (card.hidden) tickOf(card).checked = false;
      dress(card);
    }
    const all = shown();
    const ticked = all.filter((card) => tickOf(card).checked).length;
    every.checked = Boolean(all.length) && ticked === all.length;
    every.indeterminate = ticked > 0 && ticked < all.length;
    every.disabled = !all.length;
    document.getElementById("count").textContent = `${ticked} of ${all.length} selected`;
    for (const button of batch.querySelectorAll("button[name=answer]")) button.disabled = !ticked;
    const count = pending ? pending.size : cards().length;
    empty.hidden = count > 0 || cards().length > 0;
    document.title = count ? `(${count}) Requests that wait for approval` : "Nothing waits for approval";
    times();
  }

  function dress(card) {
    if (card.dataset.dressed) return;
    card.dataset.dressed = "yes";
    const edit = card.querySelector(".edit-button"); // only a call has one
    if (edit) edit.hidden = false;
    for (const block of card.querySelectorAll("pre.block")) grow(block);
  }

  // A long text is in a box that scrolls, with a button that opens it to its whole height.
  function grow(block) {
    const lines = block.querySelectorAll(".l").length;
    if (lines < 18 && block.textContent.length < 3000) return;
    block.classList.add("long");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "grow";
    button.setAttribute("aria-expanded", "false");
    button.textContent = `Open all ${lines} lines`;
    button.addEventListener("click", () => {
      const open = block.classList.toggle("open");
      button.setAttribute("aria-expanded", String(open));
      button.textContent = open ? "Close" : `Open all ${lines} lines`;
    });
    block.after(button);
  }

  // ------------------------------------------------------------------------- answers

  async function send(form, submitter) {
    const fields = new URLSearchParams(new FormData(form));
    fields.append(submitter.name, submitter.value);
    const answer = await fetch("decide", {
      method: "POST",
      headers: { Accept: "application/json" },
      body: fields,
    });
    return { ok: answer.ok, body: await answer.json() };
  }

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    const submitter = event.submitter;
    event.preventDefault();
    if (!submitter || form.dataset.busy) return;
    const several = form === batch;
    const place = several
      ? document.getElementById("batch-error")
      : form.querySelector(".error");
    const allow = submitter.value === "allow";
    show(place, "");
    form.dataset.busy = "yes";
    try {
      const { ok, body } = await send(form, submitter);
      if (ok) {
        for (const id of body.decided) {
          const card = cardOf(id);
          if (card && !card.classList.contains("settled")) {
            settle(card, allow ? "You allowed it." : "You denied it.", several);
          }
        }
        if (several) say(`${body.decided.length} requests ${allow ? "allowed" : "denied"}.`);
        if (several) batch.elements.reason.value = "";
      } else if (body.gone && !several) {
        settle(form.closest("article"), body.error);
      } else {
        show(place, body.error);
        for (const id of body.gone || []) {
          const card = cardOf(id);
          if (card && !card.classList.contains("settled")) {
            settle(card, "Decided elsewhere, or its caller has gone.", true);
          }
        }
        const field = body.field && form.elements[body.field];
        if (field) field.focus();
      }
    } catch {
      show(place, "The answer did not arrive. Check the connection and try again.");
    } finally {
      delete form.dataset.busy;
      settleGone();
      refresh();
      resync(); // what was told while this was answered found no room for others
    }
  });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest(".edit-button");
    if (!button) return;
    const form = button.form;
    const box = form.querySelector(".edit");
    const area = form.elements.arguments;
    const open = box.hidden;
    if (open && !area.dataset.loaded) {
      try {
        area.value = await get(area.dataset.draft);
        area.rows = Math.min(24, area.value.split("\n").length + 1);
        area.dataset.loaded = "yes";
      } catch {
        show(form.querySelector(".error"), "The arguments cannot be loaded.");
        return;
      }
    }
    box.hidden = !open;
    area.disabled = !open;
    form.elements.remember.value = "once";
    form.elements.remember.disabled = open;
    form.classList.toggle("editing", open);
    covers(form);
    button.setAttribute("aria-expanded", String(open));
    if (open) area.focus();
  });

  function covers(form) {
    const select = form.elements.remember;
    form.querySelector(".covers").textContent = select.disabled
      ? "Allow sends the arguments above instead. An edited call is not remembered."
      : select.selectedOptions[0].dataset.covers;
  }

  document.addEventListener("change", (event) => {
    if (event.target.name === "remember") covers(event.target.form);
    if (event.target === every) {
      for (const card of shown()) tickOf(card).checked = every.checked;
    }
    refresh();
  });
  filter.addEventListener("input", refresh);

  // --------------------------------------------------------------------------- times

  const relative = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: "auto" });

  function times() {
    for (const time of document.querySelectorAll("time")) {
      const seconds = (Date.parse(time.dateTime) - Date.now()) / 1000;
      const [unit, size] =
        Math.abs(seconds) < 90 ? ["second", 1] : Math.abs(seconds) < 5400 ? ["minute", 60]
        : Math.abs(seconds) < 129600 ? ["hour", 3600] : ["day", 86400];
      time.title = time.title || time.textContent;
      time.textContent = relative.format(Math.round(seconds / size), unit);
    }
  }
  window.setInterval(times, 15000);

  // ---------------------------------------------------------------------------- live

  function state(name, text) {
    if (live.dataset.state === name) return;
    live.dataset.state = name;
    live.textContent = text;
  }

  function resync() {
    if (latest === null) return;
    syncing = syncing.then(() => sync(latest)).catch(() => {
      state("off", "Not live: load the page again");
    });
  }

  const stream = new EventSource("changes");
  stream.onmessage = (event) => {
    state("on", "Live");
    latest = JSON.parse(event.data);
    resync();
  };
  stream.onerror = () => {
    if (stream.readyState === EventSource.CLOSED) state("off", "Not live: load the page again");
    else window.setTimeout(() => stream.readyState === EventSource.CONNECTING && state("wait", "Connecting…"), 4000);
  };
  refresh();
})();
