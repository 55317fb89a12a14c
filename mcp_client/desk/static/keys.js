// The keys of the approval page: they press what can be clicked, too.
"use strict";
(() => {
  const list = document.getElementById("list");
  const rows = () => Array.from(list.querySelectorAll("li.row"));

  // From elsewhere to the row that is open; from there up or down.
  function step(by) {
    const all = rows();
    if (!all.length) return;
    const here = all.findIndex((row) => row.querySelector("[aria-current]"));
    const to = list.contains(document.activeElement) && here >= 0 ? here + by : here;
    const line = all[Math.min(all.length - 1, Math.max(0, to))].querySelector("a.line");
    line.focus({ preventScroll: true });
    line.scrollIntoView({ block: "nearest" });
    if (!line.hasAttribute("aria-current")) line.click();
  }

  function press(selector) {
    const article = document.querySelector("#open article");
    const line = list.querySelector("[aria-current]");
    const isShown = article && line && line.closest("li").dataset.id === article.dataset.id;
    const button = isShown && article.querySelector(selector);
    if (button) button.click();
  }

  document.addEventListener("keydown", (event) => {
    const target = event.target;
    if (event.repeat && target.matches("button")) event.preventDefault(); // held down, it presses once
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (target.matches("input:not([type=checkbox]), textarea, select")) {
      if (event.key === "Escape" && target.closest("#filters")) step(0);
      return;
    }
    const isArrow = event.key.startsWith("Arrow");
    if (isArrow && target.matches("pre")) return; // it scrolls
    const keys = {
      ArrowDown: () => step(1),
      ArrowUp: () => step(-1),
      "/": () => document.getElementById("filter").focus(),
      "?": () => document.getElementById("keys").showModal(),
    };
    if (target.closest("#list, #open")) {
      keys.a = () => press("button.allow");
      keys.d = () => press("button.deny");
      keys.e = () => press(".edit-button");
    }
    if (target.matches("a.line")) keys[" "] = () => target.closest("li").querySelector(".tick").click();
    if (!keys[event.key]) return;
    event.preventDefault();
    if (!event.repeat || isArrow) keys[event.key](); // a key that is held down decides one
  });

  const button = document.getElementById("show-keys");
  button.hidden = false;
  button.addEventListener("click", () => document.getElementById("keys").showModal());
})();
