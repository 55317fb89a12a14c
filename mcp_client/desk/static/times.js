// Moments are shown by how far they are away.
"use strict";
(() => {
  const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "narrow" });

  function show() {
    for (const time of document.querySelectorAll("time")) {
      const seconds = (Date.parse(time.dateTime) - Date.now()) / 1000;
      const [unit, size] =
        Math.abs(seconds) < 90 ? ["second", 1] : Math.abs(seconds) < 5400 ? ["minute", 60]
        : Math.abs(seconds) < 129600 ? ["hour", 3600] : ["day", 86400];
      const text = relative.format(Math.round(seconds / size), unit);
      time.title = time.title || time.textContent;
      if (time.textContent !== text) time.textContent = text;
    }
  }

  window.setInterval(show, 15000);
  new MutationObserver(show).observe(document.body, { childList: true, subtree: true });
  show();
})();
