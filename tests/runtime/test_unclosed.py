"""A session that is still open when its event loop ends: what is left, and the warning."""

from __future__ import annotations

import gc
import os
import sys
import warnings

import anyio
import pytest

from mcp_client import allow_all, connect
from tests.support.starting import scripted


@pytest.mark.skipif(sys.platform != "linux", reason="lists the open descriptors in /proc")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_its_descriptors_are_closed_and_a_warning_names_it(backend: str) -> None:
    async def leave_open() -> int:
        session = await connect(scripted(), name="weather", approval=allow_all)
        return int((await session.call_tool("pid")).text)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gc.collect()
        caught.clear()
        before = len(os.listdir("/proc/self/fd"))
        pids = [anyio.run(leave_open, backend=backend) for _ in range(3)]
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) <= before
    reported = [str(one.message) for one in caught if one.category is ResourceWarning]
    assert reported == 3 * [reported[0]]
    assert "session 'weather' was still open when its event loop ended" in reported[0]
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
