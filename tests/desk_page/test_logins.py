"""Logins on another device, shown on the approval page: to whom, how long, and as what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from anyio import fail_after

from mcp_client import ApprovalRequest
from mcp_client.auth import DeviceLogin
from mcp_client.desk.inbox import login_list
from tests.approval.test_queue_views import login_of
from tests.desk_page.site import Seen, a_site


def page_text(login: DeviceLogin) -> Seen:
    return Seen(login_list([login]))


async def test_a_person_sees_where_to_log_in_with_which_code_for_which_server() -> None:
    async with a_site() as site, site.person() as ana:
        assert "Log in at" not in (await ana.get()).text
        await site.queue.show_login(login_of())
        page = Seen((await ana.get()).text)  # without a script, too
        prompt = "Log in at https://as.example/activate with code WDJB-MJHT for server docs"
        assert prompt in page.text
        assert "acts with the account that logs in there" in page.text
        (link,) = [one for one in page.tags("a") if one["href"] == "https://as.example/activate"]
        assert "noreferrer" in str(link["rel"])
        assert "user_code=" not in str(page.elements)  # nothing to follow without a look


async def test_a_page_that_is_open_is_notified_of_a_login_and_of_its_end() -> None:
    async with a_site() as site, site.person() as ana, ana.stream() as events:
        with fail_after(30):
            assert (await anext(events))["logins"] == ""
            end = await site.queue.show_login(login_of())
            mark = (await anext(events))["logins"]
            assert mark != ""
            assert "WDJB" not in mark
            assert "WDJB-MJHT" in (await ana.get("logins")).text
            end()
            assert (await anext(events))["logins"] == ""
            assert (await ana.get("logins")).text == ""


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_login_is_shown_to_whom_visible_names_and_to_no_one_in_doubt(
    is_async: bool,
) -> None:
    def only_bo(person: str, asked: Any) -> bool:
        return person == "Bo" and isinstance(asked, DeviceLogin)

    async def later(person: str, asked: Any) -> bool:
        return only_bo(person, asked)

    visible: Callable[..., Any] = later if is_async else only_bo
    async with a_site(visible=visible) as site, site.person() as ana:
        await site.queue.show_login(login_of())
        async with site.person("bo-session") as bo, site.person(None) as no_one:
            for path in ("", "logins"):
                assert "WDJB" not in (await ana.get(path)).text
                assert "WDJB" in (await bo.get(path)).text
                assert (await no_one.get(path)).status_code == 403
        async with ana.stream() as events:
            assert (await anext(events))["logins"] == ""


async def test_a_function_that_knows_requests_only_shows_no_login() -> None:
    def knows_calls(person: str, request: ApprovalRequest) -> bool:
        return request.context is None

    async with a_site(visible=knows_calls) as site, site.person() as ana:
        await site.queue.show_login(login_of())
        assert "WDJB" not in (await ana.get()).text


def test_only_https_is_a_link_and_no_text_becomes_markup() -> None:
    local = page_text(login_of(url="http://127.0.0.1:9/activate"))
    assert local.tags("a") == []
    assert "http://127.0.0.1:9/activate" in local.text
    odd = page_text(login_of(server="<b>&docs\u202e", code='"><script>x</script>'))
    assert (odd.tags("b"), odd.tags("script")) == ([], [])
    assert "<b>&docs" in odd.text
    assert "\u202e" not in odd.text
    assert '"><script>x</script>' in odd.text
    look_alike = page_text(login_of(url="https://xn--pple-43d.com/activate"))
    assert {"class": "cut"} in look_alike.tags("p")
    assert {"class": "cut"} not in local.tags("p")
    elsewhere = page_text(login_of(issuer="https://evil.example", warning="another <b>site"))
    assert "for server docs, asked by https://evil.example, until" in elsewhere.text
    assert "another <b>site" in elsewhere.text
    assert {"class": "cut"} in elsewhere.tags("p")
