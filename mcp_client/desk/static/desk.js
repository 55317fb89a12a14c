// The live part of the approval page. All markup is made and escaped by the server; this inserts it,
// and writes text as text.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const main = $("main");
  const rowsBox = $("rows");
  const place = $("open");
  const batch = $("batch");
  const live = $("live");
  const filters = $("filters");
  const every = $("every");
  const policy = window.trustedTypes
    ? window.trustedTypes.createPolicy("desk", { createHTML: (markup) => markup })
    : { createHTML: (markup) => markup };
  let decided = null;
  let logins = "";
  let known = null; // the ids of what was pending when the list was last looked at
  let tidying = 0;
  let latest = null;
  let syncing = false;
  let stream = null;
  let current = null; // the id of the request that is open, or about to be
  const cards = new Map(); // by id, with what was typed into them; the next one is fetched ahead

  // An answer so soon after its request appeared was meant for the one before it.
  const SETTLE_MS = 300;
  const appeared = (shown) => { shown.dataset.since = String(performance.now()); };
  const isFresh = (shown) => performance.now() - Number(shown.dataset.since) < SETTLE_MS;
  const rows = () => Array.from(rowsBox.querySelectorAll("li.row"));
  const rowOf = (id) => $(`row-${id}`);
  const tickOf = (row) => row.querySelector("input.tick");
  const lineOf = (row) => row.querySelector("a.line");
  const ticked = () => rows().filter((row) => tickOf(row).checked);
  // What proves that a row said all of its request; not where the row was too narrow for it.
  const seenInRow = (row) => {
    const cut = Array.from(row.querySelectorAll(".name, .server, .gist")).some((one) => one.scrollWidth > one.clientWidth);
    const proof = row.querySelector("input[name=opened]");
    return proof && !cut ? proof.value : null;
  };
  const proofOf = (row) => row.dataset.opened || seenInRow(row);
  const isFree = (row) => Boolean(proofOf(row));
  const openCard = () => place.querySelector("article");
  const isPending = (id) => latest === null || latest.ids.includes(id);

  function say(text) {
    $("said").textContent = text;
  }

  function show(where, text) {
    where.textContent = text;
    where.hidden = !text;
  }

  function paragraph(kind, text) {
    const made = document.createElement("p");
    made.className = kind;
    made.textContent = text;
    return made;
  }

  function made(markup) {
    const template = document.createElement("template");
    template.innerHTML = policy.createHTML(markup);
    return template.content;
  }

  async function get(address) {
    let answer;
    try {
      answer = await fetch(address, { headers: { Accept: "text/html" } });
    } catch (error) {
      offline();
      throw error;
    }
    if (answer.status === 403) loggedOut();
    if (!answer.ok) throw new Error(String(answer.status));
    return answer.text();
  }

  function query(more) {
    const fields = new URLSearchParams(new FormData(filters));
    if (Number(rowsBox.dataset.skip)) fields.set("skip", rowsBox.dataset.skip);
    for (const [name, value] of Array.from(fields)) if (!value) fields.delete(name);
    if (more) fields.set("open", more);
    return fields.toString();
  }

  // ------------------------------------------------------------------ what is pending

  async function sync(state) {
    for (const field of document.querySelectorAll("input[name=token]")) field.value = state.token;
    if (logins !== state.logins) {
      $("logins").replaceChildren(made(await get("logins")));
      logins = state.logins;
    }
    for (const id of cards.keys()) if (!isPending(id)) cards.delete(id);
    settleGone();
    const gone = rows().filter((row) => !isPending(row.dataset.id) && !sent.has(row.dataset.id));
    if (gone.length) leave(gone);
    const fresh = known ? state.ids.filter((id) => !known.has(id)).length : 0;
    window.clearTimeout(tidying);
    if (fresh) {
      await list();
      say(fresh === 1 ? "A new request waits." : `${fresh} new requests wait.`);
    } else if (!known || known.size !== state.ids.length) {
      tidying = window.setTimeout(() => list().catch(() => {}), 250); // a decision goes first
    }
    known = new Set(state.ids);
    if (decided !== null && decided !== state.decided) {
      $("decided").replaceChildren(made(await get("decided")));
    }
    decided = state.decided;
    refresh();
  }

  // Rows that are there already stay the elements they are, with their ticks and the focus.
  async function list() {
    const fresh = made(await get(`list?${query()}`));
    const focused = document.activeElement;
    const box = fresh.querySelector("#rows");
    for (const row of box.querySelectorAll("li.row")) {
      const old = rowOf(row.dataset.id);
      if (old) row.replaceWith(old);
      else if (latest && !isPending(row.dataset.id)) row.remove();
    }
    rowsBox.replaceChildren(...box.childNodes);
    if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
    const chosen = fresh.querySelector("#chosen");
    if (!$("chosen").contains(document.activeElement)) $("chosen").replaceWith(chosen);
    mark();
    if (openCard() || !rows().length) ahead();
    else await open(rows()[0].dataset.id);
    refresh();
  }

  function refresh() {
    const all = rows();
    const some = ticked();
    const free = some.filter(isFree).length;
    every.checked = Boolean(all.length) && some.length === all.length;
    every.indeterminate = some.length > 0 && some.length < all.length;
    $("count").textContent = some.length ? `${some.length} of ${all.length} selected` : `${all.length} listed`;
    for (const button of batch.querySelectorAll("button[name=answer]")) {
      const count = button.value === "allow" ? free : some.length;
      let number = button.querySelector(".number");
      if (!number) {
        number = document.createElement("span");
        number.className = "number";
        number.setAttribute("aria-hidden", "true"); // the count beside it is what is read out
        button.append(number);
      }
      number.textContent = ` (${count})`;
      button.disabled = !count;
    }
    const left = some.length - free;
    const have = left === 1 ? "1 has" : `${left} have`;
    show($("left-out"), left ? `${free} of ${some.length} can be allowed together: ${have} notes, or arguments that the list does not show in full. Open each first.` : "");
    batch.hidden = !some.length;
    $("all").hidden = !all.length;
    const count = latest ? latest.ids.length : Number(main.dataset.count);
    main.dataset.count = count;
    document.title = count ? `(${count}) Requests that wait for approval` : "Nothing waits for approval";
  }

  // ------------------------------------------------------------------ the one that is open

  function mark() {
    for (const row of rows()) {
      const line = lineOf(row);
      const here = row.dataset.id === current;
      if (here) line.setAttribute("aria-current", "true");
      else line.removeAttribute("aria-current");
      line.tabIndex = tickOf(row).tabIndex = here ? 0 : -1; // one stop in the list; arrows do the rest
    }
    const all = rows();
    if (all.length && !all.some((row) => row.dataset.id === current)) lineOf(all[0]).tabIndex = 0;
  }

  async function card(id) {
    if (!cards.has(id)) {
      const fetched = get(`calls?ids=${id}`).then((markup) => made(markup).querySelector("article"));
      cards.set(id, fetched);
      fetched.then((article) => article ? cards.set(id, article) : cards.delete(id), () => cards.delete(id));
    }
    return cards.get(id);
  }

  async function open(id, byPerson) {
    current = id;
    mark();
    const known = cards.get(id);
    let article;
    try {
      article = known instanceof Element ? known : await card(id);
    } catch {
      return;
    }
    if (current !== id) return; // another was opened meanwhile
    if (!article) {
      place.replaceChildren(paragraph("empty", "It is not pending any more: it was decided, or its caller has gone."));
      return;
    }
    place.replaceChildren(article);
    appeared(article);
    if (place.getBoundingClientRect().top < 0) place.scrollIntoView(); // its beginning comes first
    opened(article, byPerson);
    history.replaceState(null, "", `?${query(id)}`);
    ahead();
  }

  // The next one is fetched before it is opened, so that a decision is followed by it at once.
  function ahead() {
    const next = rows()[rows().findIndex((row) => row.dataset.id === current) + 1];
    if (next && isPending(next.dataset.id)) card(next.dataset.id).catch(() => {});
  }

  // Once it was on the screen, it may be allowed together with others: what came by itself may
  // stand below what the window shows.
  const sight = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      const article = isIntersecting && target.closest("article");
      if (article) wasSeen(article);
    }
  });

  function wasSeen(article) {
    sight.disconnect();
    const row = rowOf(article.dataset.id);
    if (row) row.dataset.opened = article.dataset.opened;
    refresh();
  }

  function opened(article, byPerson) {
    sight.disconnect();
    if (byPerson) wasSeen(article);
    else sight.observe(article.querySelector("pre.block") || article.querySelector(".asks") || article);
    cards.set(article.dataset.id, article);
    dress(article);
    refresh();
  }

  function dress(article) {
    if (article.dataset.dressed) return;
    article.dataset.dressed = "yes";
    const edit = article.querySelector(".edit-button"); // only a call has one
    if (edit) edit.hidden = false;
    for (const field of article.querySelectorAll("input[name=token]")) field.value = batch.elements.token.value;
  }

  // What this page itself is answering now is told by that answer.
  function settleGone() {
    const article = openCard();
    if (article && !isPending(article.dataset.id) && !sent.has(article.dataset.id)) {
      settle(article.dataset.id, "Decided elsewhere, or its caller has gone.");
    }
  }

  const sent = new Set(); // ids that are being answered

  // The card of a request that was decided elsewhere stays, without its buttons: no button of
  // another request may come to lie under the pointer by itself.
  function settle(id, text) {
    const article = openCard();
    cards.delete(id);
    if (article && article.dataset.id === id && !article.classList.contains("settled")) {
      const inside = article.contains(document.activeElement);
      article.querySelector("form.answer").replaceWith(paragraph("settled-note", text));
      article.classList.add("settled");
      say(`${article.querySelector("h2").textContent}: ${text}`);
      if (inside) article.querySelector("h2").focus();
    }
    const row = rowOf(id);
    if (row) leave([row]);
  }

  // Rows go at once; the focus goes on to what follows them.
  function leave(gone) {
    const all = rows();
    const last = all.indexOf(gone[gone.length - 1]);
    const following = all.slice(last + 1).find((row) => !gone.includes(row))
      || all.slice(0, last).reverse().find((row) => !gone.includes(row));
    const inside = gone.some((row) => row.contains(document.activeElement));
    for (const row of gone) {
      const group = row.parentElement;
      row.remove();
      if (!group.children.length) {
        const heading = group.previousElementSibling;
        if (heading && heading.matches("h2")) heading.remove();
        group.remove();
      }
    }
    mark();
    if (inside) (following ? lineOf(following) : $("list")).focus({ preventScroll: true });
    return following;
  }

  // ------------------------------------------------------------------------- answers

  async function send(form, submitter) {
    const fields = new URLSearchParams(new FormData(form));
    fields.set(submitter.name, submitter.value);
    if (form === batch) {
      fields.delete("ids");
      fields.delete("opened");
      for (const row of ticked()) {
        if (submitter.value === "allow" && !isFree(row)) continue;
        fields.append("ids", row.dataset.id);
        const proof = proofOf(row);
        if (proof) fields.append("opened", proof);
      }
    }
    const ids = fields.getAll("ids");
    for (const id of ids) sent.add(id);
    try {
      const answer = await fetch("decide", { method: "POST", headers: { Accept: "application/json" }, body: fields });
      if (answer.status === 403) loggedOut();
      return { ok: answer.ok, ids, body: await answer.json() };
    } finally {
      for (const id of ids) sent.delete(id);
    }
  }

  // A decision goes on to the next request, in the list and beside it.
  function after(ids, allow) {
    const article = openCard();
    const was = article && ids.includes(article.dataset.id);
    const name = article && article.querySelector("h2").textContent;
    const inside = was && article.contains(document.activeElement);
    for (const id of ids) cards.delete(id);
    const gone = ids.map(rowOf).filter(Boolean);
    const following = gone.length ? leave(gone) : rows()[0];
    say(ids.length > 1 ? `${ids.length} requests ${allow ? "allowed" : "denied"}.` : `${was ? `${name}: you` : "You"} ${allow ? "allowed" : "denied"} it.`);
    if (!was) return;
    place.replaceChildren();
    current = null;
    if (!following) return;
    if (inside) lineOf(following).focus({ preventScroll: true });
    lineOf(following).scrollIntoView({ block: "nearest" });
    open(following.dataset.id);
  }

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    const submitter = event.submitter;
    if (form.method === "dialog") return;
    event.preventDefault();
    if (form === filters) {
      look();
      return;
    }
    if (!submitter || form.dataset.busy) return;
    const asked = form.classList.contains("question");
    const several = form === batch || asked;
    const error = several ? $("batch-error") : form.querySelector(".error");
    const shown = asked ? $("ask") : form.closest("article");
    if (shown && isFresh(shown)) {
      show(error, "Nothing was decided: the question had only just appeared. Answer again.");
      return;
    }
    if (asked) $("ask").close();
    show(error, "");
    form.dataset.busy = "yes";
    try {
      const { ok, ids, body } = await send(form, submitter);
      if (ok) {
        after(body.decided, submitter.value === "allow");
        if (several) batch.elements.reason.value = "";
      } else if (body.question) {
        $("ask").replaceChildren(made(body.question));
        $("ask").showModal();
        appeared($("ask"));
      } else if (body.gone && !several) {
        settle(ids[0], body.error);
      } else {
        show(error, body.error);
        for (const id of body.gone || []) settle(id, "Decided elsewhere, or its caller has gone.");
        const field = body.field && form.elements[body.field];
        if (field) field.focus();
      }
    } catch {
      show(error, "The answer did not arrive. Check the connection and try again: nothing is decided twice.");
      offline();
    } finally {
      delete form.dataset.busy;
      settleGone();
      refresh();
      resync();
    }
  });

  document.addEventListener("click", async (event) => {
    const target = event.target;
    if (event.detail > 1 && target.closest("button[name=answer]")) {
      event.preventDefault(); // the second click of a double one is not for the request that came
      return;
    }
    const line = target.closest("a.line");
    if (line && !(event.ctrlKey || event.metaKey || event.shiftKey)) {
      event.preventDefault();
      line.focus({ preventScroll: true });
      await open(line.closest("li").dataset.id, true);
      if (event.detail && place.getBoundingClientRect().top > window.innerHeight * 0.75) place.scrollIntoView({ block: "start" });
      return;
    }
    if (target.closest("#ask .back")) {
      event.preventDefault();
      $("ask").close();
      return;
    }
    const button = target.closest(".edit-button");
    if (button) await edit(button);
  });

  async function edit(button) {
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
    covers(form);
    button.setAttribute("aria-expanded", String(open));
    if (open) area.focus();
  }

  function covers(form) {
    const select = form.elements.remember;
    form.querySelector(".covers").textContent = select.disabled
      ? "Allow sends the arguments above instead. An edited call is not remembered."
      : select.selectedOptions[0].dataset.covers;
  }

  // ------------------------------------------------------------------------- the list

  let waiting = 0;
  function look() {
    window.clearTimeout(waiting);
    rowsBox.dataset.skip = "0";
    waiting = window.setTimeout(async () => {
      try {
        await list();
        const here = query(current);
        history.replaceState(null, "", here ? `?${here}` : "./");
        say(`${rows().length} requests are listed.`);
      } catch { /* the state of the connection says it */ }
      refresh();
    }, 120);
  }

  filters.addEventListener("input", look);
  new ResizeObserver(() => refresh()).observe(rowsBox); // how much stands in a row
  document.addEventListener("change", (event) => {
    if (event.target.name === "remember") covers(event.target.form);
    if (event.target === every) for (const row of rows()) tickOf(row).checked = every.checked;
    refresh();
  });

  // ---------------------------------------------------------------------------- live

  function state(name, text) {
    if (live.dataset.state === name) return;
    live.dataset.state = name;
    live.textContent = text;
  }

  function loggedOut() {
    state("off", "Not live: log in, and load the page again");
    if (stream) stream.close();
  }

  // What did not arrive says more than a stream that still seems to be there.
  function offline() {
    if (live.dataset.state === "off") return;
    state("wait", "No connection: trying again…");
    listen();
  }

  async function resync() {
    if (syncing) return;
    syncing = true;
    try {
      for (let done = null; latest !== null && done !== latest;) {
        done = latest;
        await sync(done);
      }
    } catch {
      if (live.dataset.state === "on") state("off", "Not live: load the page again");
    } finally {
      syncing = false;
    }
  }

  function listen() {
    if (stream) stream.close();
    const mine = new EventSource("changes");
    stream = mine;
    mine.onmessage = (event) => {
      state("on", "Live");
      latest = JSON.parse(event.data);
      resync();
    };
    mine.onerror = () => {
      if (mine.readyState !== EventSource.CLOSED) {
        window.setTimeout(() => mine === stream && mine.readyState === EventSource.CONNECTING && state("wait", "Connecting…"), 4000);
      } else if (mine === stream && live.dataset.state !== "off") {
        get("decided").then(() => state("off", "Not live: load the page again"), () => {});
      }
    };
  }

  $("filter-now").hidden = true;
  const first = openCard();
  if (first) {
    current = first.dataset.id;
    appeared(first);
    opened(first, new URLSearchParams(window.location.search).get("open") === current);
    ahead();
  }
  mark();
  const line = rowsBox.querySelector("[aria-current]");
  if (line) rowsBox.scrollTop = line.offsetTop - rowsBox.offsetTop - rowsBox.clientHeight / 2;
  refresh();
  listen();
})();
