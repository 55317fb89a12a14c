"""Skills of a server: listed, loaded after approval, and read file by file, each verified.

``io.modelcontextprotocol/skills`` (SEP-2640). A skill is a directory of files with instructions for
a model; its SKILL.md comes first. The server's entry of a skill names every file with size and
digest.

Loading has these steps, and stops at the first one that fails:

1. The entry is checked and within the limits.
2. The audit entry is opened.
3. Pins and approval.
4. SKILL.md is read, and its size, digest and front matter are compared field by field.

Nothing is read before an approval. Other files are read when they are requested. Each is compared
with the approved entry. A file that the entry does not list is refused before the server is asked.

A digest that matches proves that the server sends what it announced, and nothing about whether that
can be trusted. Dynamic content has no digests: then no decision is remembered, and what is read
counts against ``Limits(skill_bytes=)``.

*Pins.* The entry of a skill in the lock file (``catalog.pins``) is the set of its files, each URI
with its digest. The first list of a server's skills is stored; a skill that is loaded by its URI
before any list is stored by itself. Afterwards a skill that has changed or is not in the file is a
finding of the request to load it:

- "ask": the approver sees it. A permanent approval stores the new set.
- "refuse": the load is refused before approval is requested (``CallDenied``).
- "accept": the file follows the server.

A list need not be complete, so a skill that is missing from one is not gone.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ..approval.gate import Gate
from ..approval.remembered import write_down
from ..approval.skill_request import SKILL_FINDING, SkillFile, digest_of
from ..catalog.definition import text_findings
from ..catalog.finding import Finding, Listed
from ..catalog.library import ResourceResult, read_resource, uri_of
from ..catalog.paged_list import Kind, PagedEntries
from ..catalog.pins import DYNAMIC, Pins, pinned
from ..catalog.read_requests import ReadRequests
from ..catalog.subscriptions import Subscriptions
from ..connection.call_options import check_context
from ..connection.rpc import Traffic
from ..errors import CallDenied, InvalidArguments, NotSent, ServerError, SkillError
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

__all__ = ["SkillPins", "Skills", "with_same_names"]

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
        audit = self._audit
        load = None if audit is None else audit.entry_of("skill", id, uri, context=context)
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

    # ----------------------------------------------------------------- one load

    async def _load(
        self,
        entry: SkillEntry,
        id: str,
        load: AuditEntry | None,
        timeout: float | Timeouts | None,
        context: Hashable,
    ) -> Skill:
        pins, drift = self._pins, tuple[Finding, ...]()
        if pins is not None:
            drift = await in_thread(pins.drift_of, entry.server, entry.uri, entry.files)
        findings = [SKILL_FINDING, *drift]
        if entry.dynamic:
            findings.append(_DYNAMIC)
        findings += text_findings(_texts(entry.raw))
        request = request_for(entry, id, tuple(findings), context, self._identity)
        if load is not None:
            await load.open(request)
        if pins is not None:
            pins.check_policy(request.server, request.uri, drift)
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
        if pins is not None:
            store = partial(pins.loaded, is_permanent=verdict.is_permanent)
            await write_down(
                f"{entry.server}: the skill", store, entry.server, entry.uri, entry.files
            )
        return Skill(entry, text, reader)

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


# ------------------------------------------------------------------ the lock file

Files: TypeAlias = Sequence[SkillFile]
_MAX_FILES_SHOWN = 8


class SkillPins:
    """The skills in a lock file. Reads and writes it: to be called in a thread."""

    def __init__(self, pins: Pins) -> None:
        self._pins = pins
        self._seen: set[str] = set()
        """Servers whose skills the file had: if they are gone there, they are not new."""

    def drift_of(self, server: str, uri: str, files: Files) -> tuple[Finding, ...]:
        """Return the differences between a skill and the file."""
        pins = self._pins
        if pins.policy == "accept":
            return ()
        known = self._known(server)
        if known is None:
            if self._may_begin(server):
                return ()  # none of its skills has been written down yet
            text = f"{pins.name} does not have the skills of this server"
            return (Finding("not_pinned", text, "server"),)
        if pins._has_moved(server):
            text = f"{pins.name} has this server's name for another URL or other identity"
            return (Finding("server_moved", text),)
        return self._drift(known, uri, files)

    def compare(self, server: str, skills: Sequence[tuple[str, Files]]) -> list[Finding]:
        """Compare a list with the file, store what the policy permits, and return the drift."""
        pins = self._pins
        known = self._known(server)
        follows = pins.policy == "accept" and (pins.create or known is not None)
        findings = [
            finding.at(f"skill '{safe_text(uri, 128)}'")
            for uri, files in skills
            for finding in (
                self._drift(known or {}, uri, files)
                if follows and known is not None
                else self.drift_of(server, uri, files)
            )
        ]
        is_first = known is None and self._may_begin(server) and bool(skills)
        if (is_first or (follows and findings)) and not (
            pins._has_moved(server) and pins.policy != "accept"
        ):
            self._write(server, skills)
            if is_first and pins.policy == "refuse":
                text = (
                    f"{pins.name} did not have the skills of '{safe_text(server, 60)}': they were "
                    f"stored unreviewed ({len(skills)} of them); Pins(create=False) refuses "
                    "instead"
                )
                return [Finding("not_pinned", text, "server")]
        return findings

    def check_policy(self, server: str, uri: str, drift: Sequence[Finding]) -> None:
        """Raise ``CallDenied`` if there is ``drift`` and the policy is to refuse it."""
        if drift and self._pins.policy == "refuse":
            reason = "; ".join(map(str, drift))
            raise CallDenied(
                f"skill {safe_text(uri, 200)!r} refused: {reason}. To accept the new files, "
                "call Pins.accept_skills(...)",
                reason=reason,
                server=server,
            )

    def loaded(self, server: str, uri: str, files: Files, *, is_permanent: bool) -> None:
        """Note that a skill was approved and verified; ``is_permanent`` by a permanent approval."""
        pins = self._pins
        known = self._known(server)
        if known is not None and known.get(uri) == pinned(files):
            return
        is_first = known is None and self._may_begin(server)
        if (is_first or is_permanent or pins.policy == "accept") and not pins._has_moved(server):
            self._write(server, [(uri, files)])

    def _known(self, server: str) -> Mapping[str, Any] | None:
        known = self._pins._skills(server)
        if known is not None:
            self._seen.add(server)
        return known

    def _may_begin(self, server: str) -> bool:
        """Whether skills of a server that the file does not have are written down."""
        return self._pins.create and server not in self._seen

    def _write(self, server: str, skills: Iterable[tuple[str, Files]]) -> None:
        self._seen.add(server)
        self._pins._write_skills(server, {uri: pinned(files) for uri, files in skills})

    def _drift(self, known: Mapping[str, Any], uri: str, files: Files) -> tuple[Finding, ...]:
        old, new, name = known.get(uri), pinned(files), self._pins.name
        if old is None:
            text = f"this skill is not in {name}: it came after the file was written"
            return (Finding("not_pinned", text, "skill"),)
        if old == new:
            return ()
        if old == DYNAMIC or new == DYNAMIC:
            is_now = "is dynamic now" if new == DYNAMIC else "was dynamic"
            text = f"this skill has changed since {name} was written: its content {is_now}"
            return (Finding("definition_changed", text, digest_of(files) if files else DYNAMIC),)
        changes = list(_differences(uri, old, new))
        if len(changes) > _MAX_FILES_SHOWN:
            changes[_MAX_FILES_SHOWN:] = [f"{len(changes) - _MAX_FILES_SHOWN} more files differ"]
        texts = (f"this skill has changed since {name} was written", *changes)
        return tuple(Finding("definition_changed", text, digest_of(files)) for text in texts)


def _differences(uri: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    directory = uri.rpartition("/")[0] + "/"
    for file in sorted({*old, *new}):
        quoted = f"its file '{safe_text(file.removeprefix(directory), 110)}'"
        if file not in old:
            yield f"{quoted} is new"
        elif file not in new:
            yield f"{quoted} was removed"
        elif old[file] != new[file]:
            yield f"{quoted} has changed"
