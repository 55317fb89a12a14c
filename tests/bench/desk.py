"""The approval page with very many pending requests, in Chromium: how soon it is there, and how
long a decision takes.

    python -m tests.bench.desk [--pending 1000] [--decisions 30]

Printed, in milliseconds of wall time as the browser has them: from opening the page to the first
paint of its content, the largest of five; and from pressing ``a`` until the next request is open
and its row has gone, as median and largest. The targets are 1,000 and 100. The browser is the one
that ``tests/interop/install.py`` installs.
"""

from __future__ import annotations

import argparse
import statistics

import anyio

from mcp_client import ApprovalQueue, Limits, ToolCall
from tests.desk_page.site import Site, a_site
from tests.interop import chromium, peers
from tests.interop.chromium import Page, until

PAINT, DECISION = 1_000.0, 100.0
_PAINTED = """
const found = performance.getEntriesByName('first-contentful-paint');
return found.length ? found[0].startTime : 0;
"""
_DECIDE = """
const rows = document.querySelectorAll('li.row').length;
const open = document.querySelector('#open article').dataset.id;
const began = performance.now();
window.took = 0;
const look = () => {
  const now = document.querySelector('#open article');
  if (now && now.dataset.id !== open && !document.getElementById(`row-${open}`)) {
    window.took = performance.now() - began;
  } else requestAnimationFrame(look);
};
const press = { key: 'a', bubbles: true, cancelable: true };
document.activeElement.dispatchEvent(new KeyboardEvent('keydown', press));
requestAnimationFrame(look);
"""
_DOWN = "\ue015"


def measure(site: Site, decisions: int) -> None:
    with chromium.browsing(*peers.chromium()) as page:
        page.open(site.base.replace("approvals/", "login/ana-session"))
        paints = [_paint(page, site.base) for _ in range(5)]
        print(f"first paint    {max(paints):7.0f}   target {PAINT:,.0f}")
        until(lambda: page.run("return live.textContent === 'Live'"), "it is not live")
        page.press(_DOWN)
        took = [_decision(page) for _ in range(decisions)]
        middle, most = statistics.median(took), max(took)
        print(f"a decision     {middle:7.0f}   largest {most:.0f}, target {DECISION:,.0f}")


def _paint(page: Page, address: str) -> float:
    page.open(address)
    return until(lambda: float(page.run(_PAINTED)), "nothing was painted")


def _decision(page: Page) -> float:
    page.run(_DECIDE)
    return until(lambda: float(page.run("return window.took")), "it was not decided")


async def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.bench.desk")
    options.add_argument("--pending", type=int, default=1_000)
    options.add_argument("--decisions", type=int, default=30)
    chosen = options.parse_args()
    calls = [
        ToolCall.example(f"tool_{n % 40}", {"path": f"/srv/{n}", "text": "word " * 200})
        for n in range(chosen.pending)
    ]
    async with a_site(ApprovalQueue(limits=Limits(pending=chosen.pending))) as site:
        await site.ask(*calls)
        await anyio.to_thread.run_sync(measure, site, chosen.decisions)


if __name__ == "__main__":
    anyio.run(main)
