"""Skills of a server: listed, loaded after approval, and read file by file, each verified.

``io.modelcontextprotocol/skills`` (SEP-2640). A skill is a directory of files with instructions for
a model; its SKILL.md comes first. The server's entry of a skill names every file with size and
digest.

Loading has these steps, and stops at the first one that fails: the entry is checked and within the
limits -> the audit entry is opened -> pins and approval -> SKILL.md is read -> its size, its
digest, its front matter field by field -> the skill is returned. Nothing is read before an
approval. Other files are read when they are requested. Each is compared with the approved entry. A
file that the entry does not list is refused before the server is asked.

A digest that matches proves that the server sends what it announced, and nothing about whether that
can be trusted. Dynamic content has no digests: then no decision is remembered, and what is read
counts against ``Limits(skill_bytes=)``.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ..approval.gate import Gate
from ..approval.remembered import write_down
from ..approval.skill_request import SKILL_FINDING
from ..catalog.finding import Finding, Listed
from ..catalog.inspection import text_findings
from ..catalog.library import ResourceResult, read_resource, uri_of
from ..catalog.paged_list import Kind, PagedEntries
from ..catalog.read_requests import ReadRequests
from ..catalog.skill_pins import SkillPins
from ..catalog.subscriptions import Subscriptions
from ..connection.call_options import check_context
from ..connection.rpc import Traffic
from ..errors import InvalidArguments, NotSent, ServerError, SkillError
from ..protocol.capabilities import declared_extensions
from ..protocol.era import Topic
from ..protocol.metadata import Origin
from ..runtime.callbacks import in_thread
from ..runtime.limits import Timeouts
from ..runtime.safe_text import safe_text
from .extension import SKILLS
from .front_matter import BadYaml, check_installed, front_matter, same
from .skill import Skill, SkillEntry, SkillReader, request_for

if TYPE_CHECKING:
    from ..audit.entry import AuditEntry
    from ..audit.record import SessionAudit
    from ..catalog.pins import Pins

__all__ = ["Skills", "with_same_names"]

_log = logging.getLogger("mcp_client")
_KIND = Kind("skills/list", "skills", "skills", lambda skill: skill.uri, "entries")
_NO_NOTICES = Topic("", "extensions", SKILLS, {})
"""The extension has no notices: a list is fresh for its ``ttlMs``, and until a new connection."""
_DYNAMIC = Finding(
    "dynamic_content",
    "its content is dynamic: it may be another one each time, and nothing of it can be verified",
)
_INVALID_PARAMS = -32602
_MAX_LEAVES = 1_000
_MAX_LISTED = 4


class Skills:
    """The skills of a session. ``Session`` has methods of the same names, which document these."""

    def __init__(
        self,
        requests: ReadRequests,
        subscriptions: Subscriptions,
        gate: Gate,
        *,
        audit: SessionAudit | None,
        pins: Pins | None,
        origin: str,
        identity: Callable[[], str | None],
    ) -> None:
        """Create the skills of one session.

        ``origin`` is a prefix that makes the ids of this session's loads unique; ``identity``
        returns the server's identity.
        """
        self._requests = requests
        self._gate = gate
        self._identity = identity
        self._audit = audit
        self._pins = None if pins is None else SkillPins(pins)
        self._origin = origin
        self._numbers = itertools.count(1)
        self._limits = requests.context.limits
        self._list = _SkillList(_KIND, _entry, requests, subscriptions.add(_NO_NOTICES))

    async def list_skills(self, refresh: bool) -> Listed[SkillEntry]:
        """List the skills of the server. Nothing of them is read."""
        await self._require()
        listed = await self._list.all(refresh=refresh)
        if self._pins is None:
            return listed
        files = [(entry.uri, entry.files) for entry in listed]
        findings = await in_thread(self._pins.compare, self._requests.server, files)
        if not findings:
            return listed
        return Listed(listed, listed.rejected, (*listed.findings, *findings), listed.meta)

    async def load_skill(
        self, skill: str | SkillEntry, timeout: float | Timeouts | None, context: Hashable
    ) -> Skill:
        """Load a skill, by its entry or URI, once it is approved."""
        check_installed()
        uri = self._uri_of(skill)
        check_context(context)
        id = f"{self._origin}-skill-{next(self._numbers)}"
        load = self._record(id, uri, context)
        try:
            await self._require()
            if load is not None:
                load.found(None, self._requests.connection.rpc.era.revision)
            entry = skill if isinstance(skill, SkillEntry) else await self._get(uri, timeout)
            self._check_limits(entry)
            loaded = await self._load(entry, id, load, timeout, context)
        except BaseException as error:
            if load is not None:
                await load.failed(error)
            raise
        if load is not None:
            loaded.findings = (*loaded.findings, *await load.over())
        return loaded

    def _record(self, id: str, uri: str, context: Hashable) -> AuditEntry | None:
        audit = self._audit
        return None if audit is None else audit.entry_of("skill", id, uri, context=context)

    # ----------------------------------------------------------------- one load

    async def _load(
        self,
        entry: SkillEntry,
        id: str,
        load: AuditEntry | None,
        timeout: float | Timeouts | None,
        context: Hashable,
    ) -> Skill:
        drift = () if self._pins is None else await self._drift(entry)
        findings = [SKILL_FINDING, *drift]
        if entry.dynamic:
            findings.append(_DYNAMIC)
        findings += text_findings(_texts(entry.raw))
        request = request_for(entry, id, tuple(findings), context, self._identity)
        if load is not None:
            await load.open(request)
        if self._pins is not None:
            self._pins.check_policy(request.server, request.uri, drift)
        if load is not None:
            load.asking()
        verdict = await self._gate.decide(request)
        if load is not None:
            load.decided(verdict)
            load.sending()
        reader = SkillReader(entry, self._limits.skill_bytes, self._ask)
        traffic = None if load is None else load.traffic
        content = await reader.read("SKILL.md", timeout, traffic)
        text = await in_thread(_verified, entry, content)  # seconds, if a server requires it
        if self._pins is not None:
            keep = partial(self._pins.loaded, is_permanent=verdict.is_permanent)
            await write_down(
                f"{entry.server}: the skill", keep, entry.server, entry.uri, entry.files
            )
        return Skill(entry, text, reader)

    async def _drift(self, entry: SkillEntry) -> tuple[Finding, ...]:
        assert self._pins is not None
        return await in_thread(self._pins.drift_of, entry.server, entry.uri, entry.files)

    async def _get(self, uri: str, timeout: float | Timeouts | None) -> SkillEntry:
        """Return the entry of one skill, whether it is listed or not."""
        requests = self._requests
        timeouts = requests.context.timeouts.for_call(timeout)
        try:
            result = await requests.ask("skills/get", {"uri": uri}, timeouts)
        except ServerError as error:
            if error.code == _INVALID_PARAMS:
                names = safe_text(uri, 200)
                error.args = (f"the server has no skill {names!r}: {error.server_message}",)
            raise
        try:
            if "skill" not in result:
                raise ValueError("the response has no skill")
            entry = SkillEntry.from_wire(result["skill"], requests.server)
            if entry.uri != uri:
                raise ValueError(f"it has another uri, {safe_text(entry.uri, 200)!r}")
        except ValueError as error:
            raise SkillError(
                f"the server's entry of the skill {safe_text(uri, 200)!r} is invalid: {error}",
                reason="invalid",
                uri=uri,
                server=requests.server,
            ) from None
        return entry

    def _check_limits(self, entry: SkillEntry) -> None:
        limits = self._limits
        too_many = len(entry.files) > limits.skill_files
        if not too_many and (entry.size or 0) <= limits.skill_bytes:
            return
        what = (
            f"{len(entry.files):,} files, more than {limits.skill_files:,} (Limits.skill_files)"
            if too_many
            else f"{entry.size:,} bytes, more than {limits.skill_bytes:,} (Limits.skill_bytes)"
        )
        raise SkillError(
            f"the skill {safe_text(entry.uri, 200)!r} is not loaded: it has {what}",
            reason="limit",
            uri=entry.uri,
            server=entry.server,
        )

    # ------------------------------------------------------------------ private

    async def _require(self) -> None:
        """Raise ``NotSent`` if the server does not declare the extension."""
        rpc = await self._requests.connection.ensure_connected()
        if SKILLS not in declared_extensions(rpc.era.server.capabilities):
            raise NotSent(
                f"the server does not declare the extension {SKILLS}, so it was not asked",
                server=self._requests.server,
            )

    def _uri_of(self, skill: object) -> str:
        if not isinstance(skill, SkillEntry):
            if not isinstance(skill, str):
                raise InvalidArguments(
                    f"load_skill({type(skill).__name__}): give the uri of a SKILL.md, "
                    "or an entry of list_skills()",
                    server=self._requests.server,
                )
            return uri_of(skill)
        if skill.server != self._requests.server:
            raise InvalidArguments(
                f"load_skill(): the skill belongs to the server {skill.server!r}. Load it there",
                server=self._requests.server,
            )
        return skill.uri

    async def _ask(
        self, uri: str, timeout: float | Timeouts | None, traffic: Traffic | None
    ) -> ResourceResult:
        reader = self._requests.reader(timeout, None, traffic)
        return await read_resource(reader, self._requests.server, uri)


def _entry(entry: Any, server: str, origin: Origin | None) -> SkillEntry:
    return SkillEntry.from_wire(entry, server)


class _SkillList(PagedEntries[SkillEntry]):
    """A list of skills.

    Names need not be unique; those that several have are among the findings.
    """

    async def _sorted_out(self, found: list[Any]) -> Listed[SkillEntry]:
        listed = await super()._sorted_out(found)
        return Listed(listed, listed.rejected, (*listed.findings, *_same_names(listed)))

    def _texts(self, entry: dict[str, Any]) -> list[str]:
        return _texts(entry)


def with_same_names(listed: Listed[SkillEntry]) -> Listed[SkillEntry]:
    """Return the skills of several servers, with findings for names that two of them have."""
    findings = _same_names(listed, across_servers=True)
    return Listed(listed, listed.rejected, (*listed.findings, *findings)) if findings else listed


def _same_names(listed: Listed[SkillEntry], *, across_servers: bool = False) -> list[Finding]:
    by_name: dict[str, list[SkillEntry]] = {}
    for entry in listed:
        by_name.setdefault(entry.name, []).append(entry)
    findings = []
    for name, alike in by_name.items():
        if len({one.server for one in alike} if across_servers else alike) > 1:
            names = [
                safe_text(one.uri, 128)
                + (f" of '{safe_text(one.server, 60)}'" if across_servers else "")
                for one in alike[:_MAX_LISTED]
            ]
            text = f"{len(alike)} skills are named '{name}': {', '.join(names)}"
            findings.append(Finding("same_name", text, name))
    return findings


def _texts(entry: Mapping[str, Any]) -> list[str]:
    """Return the texts of an entry's front matter."""
    return list(itertools.islice(_leaves(entry.get("frontmatter")), _MAX_LEAVES))


def _leaves(value: Any) -> Iterator[str]:
    if type(value) is str:
        yield value
    elif type(value) is dict:
        for key, item in value.items():
            yield key
            yield from _leaves(item)
    elif type(value) is list:
        for item in value:
            yield from _leaves(item)


def _verified(entry: SkillEntry, content: bytes) -> str:
    """Return the text of SKILL.md after its front matter, which is the entry's."""
    try:
        fields, text = front_matter(content)
        for name in dict.fromkeys((*entry.frontmatter, *fields)):
            if name not in fields:
                raise BadYaml(f"it lacks the field {safe_text(name, 64)!r}, which the entry has")
            if name not in entry.frontmatter:
                raise BadYaml(f"it has a field {safe_text(name, 64)!r}, which the entry lacks")
            if not same(fields[name], entry.frontmatter[name]):
                raise BadYaml(f"its field {safe_text(name, 64)!r} differs from the entry's")
    except BadYaml as error:
        raise SkillError(
            f"the skill {safe_text(entry.uri, 200)!r} is not loaded: its SKILL.md does not match "
            "the "
            f"server's entry: {error}",
            reason="frontmatter",
            uri=entry.uri,
            server=entry.server,
        ) from None
    return text
