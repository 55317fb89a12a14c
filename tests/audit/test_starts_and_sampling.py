"""Whether a server may be started, and whether it may use the host's model, is in the audit."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_client import (
    Allow,
    AuditLog,
    Deny,
    Handlers,
    Host,
    MemoryServer,
    Timeouts,
    allow_all,
    connect,
)
from mcp_client.approval import Decisions, SamplingRequest, StartRequest
from mcp_client.approval.sampling_request import SAMPLING_FINDING
from mcp_client.approval.start_request import STARTS
from mcp_client.audit import Audit, verify_audit
from mcp_client.errors import StartDenied, Unanswered
from mcp_client.handlers import SamplingResult
from tests.support.asking import LATEST, NEWEST_HANDSHAKE, Asking

pytestmark = pytest.mark.one_backend

WEATHER = Path(__file__).parents[2] / "examples" / "servers" / "weather.py"
LITERAL = "blue-cheese"
KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


class Records(list[dict[str, Any]]):
    """Of all events but ``fail``, which is as if the disk were full."""

    def __init__(self, fail: str = "") -> None:
        super().__init__()
        self.fail = fail

    def __call__(self, record: Mapping[str, Any]) -> None:
        if record["event"] == self.fail and record["tool"] is None:
            raise OSError("the disk is full")
        self.append(dict(record))

    @property
    def decided(self) -> list[dict[str, Any]]:
        """Those of decisions about what is not a call."""
        return [one for one in self if one.get("tool", "") is None]


def raises(request: Any) -> Any:
    raise RuntimeError(KEY)


# ----------------------------------------------------------------------------- starts


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Host]:
    """Makes a host of a project's config file."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / ".mcp.json"

    def host(confirm: Any, server: Mapping[str, Any] | None = None, **options: Any) -> Host:
        local = {"command": sys.executable, "args": [str(WEATHER)], "env": {"CHEESE": LITERAL}}
        path.write_text(json.dumps({"mcpServers": {"weather": server or local}}))
        options.setdefault("timeouts", Timeouts(connect=30, close=1))
        return Host.from_config(path, confirm=confirm, approval=allow_all, **options)

    return host


async def started(host: Host) -> None:
    async with host:
        await host.session("weather")


async def refused(host: Host) -> StartDenied:
    async with host:
        with pytest.raises(StartDenied) as caught:
            await host.session("weather")
    return caught.value


async def test_a_start_is_recorded_before_anybody_is_asked_and_when_it_is_decided(
    project: Callable[..., Host],
) -> None:
    records, seen = Records(), list[Any]()

    def hook(request: StartRequest) -> Allow:
        assert [one["event"] for one in records] == ["opened"]
        seen.append(request)
        return Allow(by="ana", source="person")

    await started(project(hook, audit=records))
    opened, closed = records
    (request,) = seen
    assert (opened["call"], opened["server"], opened["tool"]) == (request.id, "weather", None)
    assert opened["start"] == request.subject
    assert opened["fingerprint"].startswith("hmac-sha256:"), "it covers values of the file"
    assert request.fingerprint not in str(records)
    assert (opened["context"], opened["findings"][0]) == (None, STARTS.to_json())
    assert opened["facts"]["file"] == str(request.path)
    assert (closed["event"], closed["call"]) == ("closed", request.id)
    assert (closed["outcome"], closed["start"]) == ("ok", request.subject)
    decision = {"answer": "allow", "source": "person", "reason": None, "by": "ana"}
    assert closed["decision"] == {**decision, "scope": "once"}
    assert not {"delivery", "running_seconds", "sent_bytes", "received_bytes"} & closed.keys()


async def test_a_start_that_is_not_allowed_is_recorded_with_the_reason(
    project: Callable[..., Host],
) -> None:
    records = Records()
    await refused(project(lambda request: Deny("not here", by="bo"), audit=records))
    closed = records[1]
    assert closed["outcome"] == "StartDenied"
    assert closed["decision"]["answer"] == "deny"
    assert (closed["decision"]["reason"], closed["decision"]["by"]) == ("not here", "bo")
    assert "error" not in closed


async def test_a_hook_that_raises_at_a_start_is_recorded_without_what_it_raised(
    project: Callable[..., Host],
) -> None:
    records = Records()
    await refused(project(raises, audit=records))
    decision = records[1]["decision"]
    assert (decision["answer"], decision["source"]) == ("deny", "gate")
    assert "RuntimeError" in decision["reason"]
    assert KEY not in json.dumps(records)


async def test_a_start_that_no_one_is_asked_about_is_recorded_as_decided_by_the_gate(
    project: Callable[..., Host],
) -> None:
    records = Records()
    await refused(project(None, audit=records))
    assert records[1]["decision"]["source"] == "gate"


async def test_a_start_that_is_remembered_is_recorded_with_whose_approval_it_was(
    project: Callable[..., Host], tmp_path: Path
) -> None:
    records, stored = Records(), tmp_path / "decisions.json"
    yes = Allow(remember="always", by="ana")
    await started(project(lambda request: yes, state=Decisions(stored), audit=records))
    await started(project(raises, state=Decisions(stored), audit=records))
    decision = records[3]["decision"]
    assert (decision["answer"], decision["source"], decision["by"]) == ("allow", "memory", "ana")


async def test_each_time_that_a_start_is_asked_for_has_records_of_its_own(
    project: Callable[..., Host],
) -> None:
    records = Records()
    async with project(lambda request: Deny("no"), audit=records) as host:
        for _ in range(2):
            with pytest.raises(StartDenied):
                await host.session("weather")
    ids = [one["call"] for one in records if one["event"] == "opened"]
    assert len(ids) == len(set(ids)) >= 2


@pytest.mark.parametrize("event", ["opened", "closed"])
async def test_a_start_that_cannot_be_recorded_is_refused(
    project: Callable[..., Host], event: str
) -> None:
    records, asked = Records(event), list[Any]()

    def hook(request: StartRequest) -> Allow:
        asked.append(request)
        return Allow()

    error = await refused(project(hook, audit=records))
    assert (error.source, error.server) == ("gate", "weather")
    assert "Records: OSError (Audit(failure=...))" in error.message
    assert bool(asked) == (event == "closed")


async def test_a_place_that_has_the_approval_already_is_informed_that_the_start_was_refused(
    project: Callable[..., Host],
) -> None:
    good, bad = Records(), Records("closed")
    await refused(project(lambda request: Allow(), audit=[good, bad]))
    answers = [one["decision"]["answer"] for one in good if one["event"] == "closed"]
    assert answers[:2] == ["allow", "deny"]


async def test_a_start_that_cannot_be_recorded_goes_on_if_the_host_sets_it(
    project: Callable[..., Host], caplog: pytest.LogCaptureFixture
) -> None:
    records = Records("opened")
    await started(project(lambda request: Allow(), audit=Audit(records, failure="warn")))
    assert "the audit record cannot be opened" in caplog.text


async def test_values_of_a_projects_file_are_in_no_record_and_their_names_are(
    project: Callable[..., Host],
) -> None:
    records, asked = Records(), list[StartRequest]()

    def hook(request: StartRequest) -> Deny:
        asked.append(request)
        return Deny("no")

    await refused(project(hook, audit=records))
    url = f"https://weather.example/mcp?cheese={LITERAL}"
    remote = {"type": "http", "url": url, "headers": {"X-Cheese": LITERAL}}
    await refused(project(hook, remote, audit=records))
    assert LITERAL in asked[0].env.values()
    assert LITERAL in asked[-1].headers.values()
    assert LITERAL in str(asked[-1].whole_url)
    assert LITERAL not in json.dumps(records)
    displayed = [one["facts"] for one in records if one["event"] == "opened"]
    assert displayed[0]["env"] == "CHEESE=[redacted]"
    assert displayed[-1]["headers"] == "X-Cheese=[redacted]"


async def test_what_looks_secret_in_a_command_is_left_out_and_a_long_command_is_whole(
    project: Callable[..., Host],
) -> None:
    records = Records()
    directories = [f"/srv/folder-{number}" for number in range(100)]
    args = ["serve.py", f"--api-key={LITERAL}", KEY, *directories]
    await refused(
        project(lambda request: Deny("no"), {"command": "py", "args": args}, audit=records)
    )
    text = json.dumps(records)
    assert LITERAL not in text
    assert KEY not in text
    assert records[0]["start"].endswith(directories[-1])


async def test_starts_and_calls_of_a_host_are_one_chain(
    project: Callable[..., Host], tmp_path: Path
) -> None:
    log = tmp_path / "calls.jsonl"
    async with project(lambda request: Allow(), audit=log) as host:
        session = await host.session("weather")
        await session.call_tool("get_weather", {"city": "Oslo"})
    found = await anyio.to_thread.run_sync(verify_audit, log)
    assert (found.calls, found.open_calls) == (2, ())


async def test_a_start_is_recorded_in_the_hosts_state(
    project: Callable[..., Host], tmp_path: Path
) -> None:
    await refused(project(lambda request: Deny("no"), state=tmp_path / "state"))
    (log,) = (tmp_path / "state").glob("*.jsonl")
    found = await anyio.to_thread.run_sync(verify_audit, log)
    assert found.calls >= 1


# ---------------------------------------------------------------- uses of the host's model


def sample(text: str = "Hi", **more: Any) -> tuple[str, dict[str, Any]]:
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return "sampling/createMessage", {"maxTokens": 9, "messages": [message], **more}


async def sampled(
    hook: Any, audit: Any, *questions: Any, revision: str = LATEST, **options: Any
) -> list[Any]:
    """What the host's model was asked."""
    asked: list[Any] = []

    def model(request: SamplingRequest) -> SamplingResult:
        asked.append(request)
        return SamplingResult("Hello", "m")

    async with connect(
        MemoryServer(Asking(revision, *(questions or [sample()]))),
        name="poet",
        approval=allow_all,
        audit=audit,
        handlers=Handlers(sampling=model, sampling_approval=hook),
        **options,
    ) as session:
        try:
            await session.call_tool("ask", context="agent")
        except Unanswered:
            assert revision == LATEST
    return asked


@pytest.mark.parametrize("revision", [LATEST, NEWEST_HANDSHAKE])
async def test_a_use_of_the_model_is_recorded_before_anybody_is_asked_and_when_it_is_decided(
    revision: str,
) -> None:
    records, seen = Records(), list[SamplingRequest]()

    def hook(request: SamplingRequest) -> Allow:
        assert [one["event"] for one in records.decided] == ["opened"]
        seen.append(request)
        return Allow(by="ana", source="person")

    hints = {"hints": [{"name": "haiku"}]}
    asked = await sampled(hook, records, sample(modelPreferences=hints), revision=revision)
    opened, closed = records.decided
    assert len(asked) == 1
    assert (opened["call"], opened["server"], opened["sampling"]) == (seen[0].id, "poet", "haiku")
    assert opened["context"] == "agent"
    assert opened["fingerprint"].startswith("hmac-sha256:"), "it covers the content of the prompts"
    assert seen[0].fingerprint not in str(records)
    assert opened["findings"] == [SAMPLING_FINDING.to_json()]
    assert (opened["facts"]["message"], opened["facts"]["call"]) == ("Hi", "ask")
    assert (closed["event"], closed["call"], closed["outcome"]) == ("closed", seen[0].id, "ok")
    assert (closed["decision"]["answer"], closed["decision"]["by"]) == ("allow", "ana")


@pytest.mark.parametrize("hook", [lambda request: Deny("no more"), raises])
async def test_a_use_of_the_model_that_is_not_allowed_is_recorded_with_the_reason(
    hook: Any,
) -> None:
    records = Records()
    assert await sampled(hook, records) == []
    opened, closed = records.decided
    assert (opened["event"], closed["outcome"]) == ("opened", "CallDenied")
    assert closed["decision"]["answer"] == "deny"
    why = "RuntimeError" if hook is raises else "no more"
    assert why in closed["decision"]["reason"]
    assert KEY not in json.dumps(records)


async def test_without_a_hook_a_use_of_the_model_is_recorded_too() -> None:
    records = Records()
    assert len(await sampled(None, records)) == 1
    assert [one["event"] for one in records.decided] == ["opened", "closed"]


async def test_a_use_of_the_model_that_is_remembered_is_recorded() -> None:
    records = Records()
    yes = Allow(remember="session", by="ana")
    asked = await sampled(lambda request: yes, records, sample("Hi"), sample("Ho"))
    assert len(asked) == 2
    sources = [one["decision"]["source"] for one in records.decided if one["event"] == "closed"]
    assert sources == ["hook", "memory"]


@pytest.mark.parametrize("event", ["opened", "closed"])
async def test_a_use_of_the_model_that_cannot_be_recorded_is_refused(event: str) -> None:
    hooked: list[Any] = []

    def hook(request: SamplingRequest) -> Allow:
        hooked.append(request)
        return Allow()

    assert await sampled(hook, Records(event)) == []
    assert bool(hooked) == (event == "closed")
    assert len(await sampled(hook, Audit(Records(event), failure="warn"))) == 1


async def test_secrets_in_prompts_are_left_out_and_long_prompts_are_bounded(
    tmp_path: Path,
) -> None:
    log = AuditLog(tmp_path / "calls.jsonl")
    records = Records()
    turns = [
        {"role": "user", "content": {"type": "text", "text": "\N{GRINNING FACE}" * 20_000}}
        for _ in range(60)
    ]
    question = sample(messages=turns, systemPrompt=f"The key is {KEY}", metadata={"token": LITERAL})
    assert len(await sampled(lambda request: Allow(), [log, records], question)) == 1
    opened, _ = records.decided
    assert "[redacted]" in opened["facts"]["system_prompt"]
    assert "[left out: 20000 characters]" in opened["facts"]["message"]
    text = json.dumps(records)
    assert KEY not in text
    assert LITERAL not in text
    found = await anyio.to_thread.run_sync(verify_audit, log.path)
    assert (found.calls, found.open_calls) == (2, ())
