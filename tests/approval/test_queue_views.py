"""Logins on another device that wait beside the calls: how many, how long, and until when."""

from __future__ import annotations

import time
from typing import Any

import pytest

from mcp_client import ApprovalQueue, ConfigError
from mcp_client.auth import DeviceLogin

pytestmark = pytest.mark.one_backend


def login_of(**members: Any) -> DeviceLogin:
    passed: dict[str, Any] = {
        "server": "docs",
        "url": "https://as.example/activate",
        "code": "WDJB-MJHT",
        "complete_url": "https://as.example/activate?user_code=WDJB-MJHT",
        "expires_at": time.time() + 600,
    }
    return DeviceLogin(**{**passed, **members})


async def test_a_login_is_shown_until_its_code_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = ApprovalQueue()
    login = login_of()
    await queue.show_login(login)
    assert queue.logins == (login,)
    assert "WDJB" not in repr(queue.logins)
    monkeypatch.setattr(time, "time", lambda: login.expires_at)
    assert not queue.logins


async def test_logins_are_bounded_in_number_and_the_end_may_be_reported_twice() -> None:
    queue = ApprovalQueue()
    ends = [await queue.show_login(login_of(code=str(number))) for number in range(50)]
    with pytest.raises(ConfigError, match="50 logins are shown already"):
        await queue.show_login(login_of())
    ends[0]()
    ends[0]()
    assert [one.code for one in queue.logins] == [str(number) for number in range(1, 50)]
    await queue.show_login(login_of())
    with pytest.raises(ConfigError, match="on_device"):
        await queue.show_login("https://as.example")  # type: ignore[arg-type]


async def test_a_reader_of_the_page_is_notified_of_a_login_that_comes_and_ends() -> None:
    queue = ApprovalQueue()
    login = login_of()
    end = await queue.show_login(login)
    with queue._page_changes() as changes:
        assert await anext(changes) == ((), (login,))
        end()
        assert await anext(changes) == ((), ())


async def test_expired_logins_leave_room() -> None:
    queue = ApprovalQueue()
    for _ in range(60):
        await queue.show_login(login_of(expires_at=1.0))
    assert len(queue._logins._logins) <= 1
