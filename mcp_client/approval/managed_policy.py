"""An organisation's policy for this machine, which users, options and variables cannot override.

```toml
# /etc/mcp-client/policy.toml
sandbox = "required"            # each started program has to be confined
[servers]                       # with "allow", nothing else is allowed; "deny" wins
allow = ["/usr/bin/npx -y @acme/*", "https://*.acme.example/*"]
deny = ["*mcp-remote*", "https://test.acme.example/*"]
[[rules]]                       # as in a file of Rules, and only "deny" and "ask"
outcome = "deny"
tool = "delete_*"
```

``approval.start_patterns`` documents the patterns. A policy that is not understood cannot be
enforced. So if the file has an unknown key or any other error, nothing is started or connected to.

The command line and ``Host.from_config`` apply the policy of the machine by themselves. A host's
own program passes ``Host(policy=ManagedPolicy.system())``, and decides for servers in its own
process and for its own transports. Each connection is checked when it is made, with the current
file of the command; so is each redirect. The destination of a login is not checked. The policy's
rules are tried before those of the host. No one can allow what they deny. If they ask, no rule of
the host can allow, but its hook or a remembered approval can.

The file must belong to root. It and every directory above it must be writable by root only, and
must not be a link. Its path is fixed. On Windows it is in the directory of all users' data,
according to the system; its owner follows from that directory and is not checked. A policy
restricts users of this program. It does not stop a user who runs other programs. These can start a
server without it, or give a process another view of the file system.
"""

from __future__ import annotations

import os
import stat
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, cast

from ..errors import ConfigError, StartDenied
from ..runtime.atomic_file import access_problem
from ..runtime.directory import NO_FOLLOW, NO_WAIT, checked_path
from ..runtime.safe_text import near, safe_text
from .decision import Answer, ApprovalHook, Deny, Policy, policy_of
from .request import ApprovalRequest
from .rules import RULE_KEYS, Rule, Rules, rule_of
from .rules_file import rule_entries
from .start_patterns import LookUp, ServerPatterns, Unreadable

__all__ = ["ManagedPolicy"]

_MAX_BYTES = 256 * 1024
_ROOT = 0
_TOP = "/"
"""The directory up to which every directory must belong to root."""


@dataclass(frozen=True, slots=True)
class ManagedPolicy:
    """A policy for starts, connections and calls: see ``mcp_client.approval.managed_policy``."""

    path: Path | None = None
    """The file; None without one, which allows everything."""
    allow: Sequence[str] | None = None
    """Patterns of the servers that may be used; None for all."""
    deny: Sequence[str] = ()
    """Patterns of the servers that may not be used, even if ``allow`` matches."""
    sandbox_required: bool = False
    """Whether each started server has to be confined: ``StdioServer(sandbox=...)``."""
    rules: Sequence[Rule] = ()
    """Rules that deny or ask."""
    _allow: ServerPatterns = field(init=False, repr=False, compare=False)
    _deny: ServerPatterns = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raises ``ConfigError``."""
        for name in ("allow", "deny"):
            patterns = getattr(self, name)
            if isinstance(patterns, str) or not isinstance(patterns, Sequence | None):
                raise ConfigError(f"{name}: give a list of patterns, ['npx *']")
            if patterns is not None:
                object.__setattr__(self, name, tuple(patterns))
            try:
                object.__setattr__(self, f"_{name}", ServerPatterns(patterns or ()))
            except ConfigError as error:
                raise ConfigError(f"{name}: {error.message}") from None
        object.__setattr__(self, "rules", Rules(self.rules).rules)
        for number, rule in enumerate(self.rules, 1):
            if rule.outcome == "allow":
                raise ConfigError(
                    f"rule {number} allows, and a policy can only restrict: give 'deny' or 'ask'"
                )

    @classmethod
    def system(cls) -> ManagedPolicy:
        """Load the policy of this machine; without one, return a policy that allows everything.

        Raises ``ConfigError`` if it cannot be used or does not belong to root.
        """
        path = _place()
        try:
            os.lstat(path)
        except FileNotFoundError:
            return cls()
        except OSError as error:
            _unusable(path, f"it cannot be examined ({error.strerror})")
        if sys.platform != "win32":
            _check_owner(path)
        return _read(path, links=False)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> ManagedPolicy:
        """Load a policy from another path, to try one, or for a program's own.

        The file may belong to this user. Raises ``ConfigError`` if it is missing, cannot be used,
        or others may write it.
        """
        return _read(checked_path(path, f"ManagedPolicy.from_file({path!r})"), links=True)

    # ------------------------------------------------------------------- servers

    def check_command(self, words: Sequence[str], look_up: LookUp, *, confined: bool) -> None:
        """Raise ``StartDenied`` if this command may not be started.

        Args:
            words: The command and its arguments.
            look_up: A function that returns the file of a command.
            confined: Whether the command will run in a sandbox.
        """
        denied = partial(self._deny.denies_command, words, look_up)
        self._check("started", "command", denied, partial(self._allow.allows_command, words))
        if self.sandbox_required and not confined:
            self._refuse(
                "started", "it requires a sandbox: give sandbox=True, or --sandbox", "sandbox"
            )

    def check_url(self, url: str) -> None:
        """Raise ``StartDenied`` if nothing may be sent to this URL."""
        denied, allowed = partial(self._deny.denies_url, url), partial(self._allow.allows_url, url)
        self._check("connected to", "URL", denied, allowed)

    def _check(
        self, done: str, what: str, denied: Callable[[], str | None], allowed: Callable[[], bool]
    ) -> None:
        try:
            pattern = denied()
        except Unreadable as error:
            self._refuse(done, f"it denies what cannot be read: {error}")
        if pattern is not None:
            self._refuse(done, f"it denies {pattern!r}", f"deny {pattern!r}")
        if self.allow is not None and not allowed():
            self._refuse(done, f"its {what} is not among those that it allows", "allow")

    def _refuse(self, done: str, why: str, rule: str = "") -> NoReturn:
        reason = f"refused by {self._name}: {safe_text(why, 300)}"
        fields = {"reason": reason, "source": "policy", "rule": rule}
        raise StartDenied(f"the server was not {done}: {reason}", **fields)

    @property
    def _name(self) -> str:
        return "the policy" if self.path is None else f"the policy {safe_text(self.path, 300)}"

    # --------------------------------------------------------------------- rules

    def over(self, hook: ApprovalHook | Policy | None) -> ApprovalHook | Policy | None:
        """Return ``hook`` preceded by the rules of this policy."""
        return _Over(Rules(self.rules), hook, self._name) if self.rules else hook


@dataclass(frozen=True, slots=True)
class _Over:
    """Rules that only take away, over a host's hook or policy."""

    rules: Rules
    hook: ApprovalHook | Policy | None
    name: str

    @property
    def ask(self) -> ApprovalHook | None:
        policy = policy_of(self.hook)
        return cast(ApprovalHook | None, self.hook) if policy is None else policy.ask

    @property
    def unmatched(self) -> Callable[[ApprovalRequest], Deny] | None:
        """The denial that the host's own rules give of what they leave open."""
        return self.hook.unmatched if isinstance(self.hook, Rules) else None

    def decide(self, request: ApprovalRequest, /) -> Answer | None:
        taken = self.rules.explain(request).rule is not None
        decision = self.rules.decide(request)
        if isinstance(decision, Deny):
            return replace(decision, rule=f"{self.name}: {decision.rule}")
        policy = policy_of(self.hook)
        decision = None if policy is None else policy.decide(request)
        return None if taken and not isinstance(decision, Deny) else decision


# ------------------------------------------------------------------------- the file


def _place() -> str:
    if sys.platform == "win32":
        import winreg  # the variable %ProgramData% is the user's to set; this key is not

        key = r"SOFTWARE\Microsoft\Windows\CurrentVersion\Explorer\Shell Folders"
        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key) as directories:
                base = winreg.QueryValueEx(directories, "Common AppData")[0]
        except OSError as error:
            _unusable("policy.toml", f"the data directory is unknown ({error.strerror})")
        return os.path.join(base, "mcp-client", "policy.toml")
    base = "/Library/Application Support" if sys.platform == "darwin" else "/etc"
    return f"{base}/mcp-client/policy.toml"


def _check_owner(path: str) -> None:
    """Raises ``ConfigError`` where anybody but root could change or replace the file."""
    each = path
    while True:
        try:
            found = os.lstat(each)
        except OSError as error:
            _unusable(path, f"{each} cannot be examined ({error.strerror})")
        if stat.S_ISLNK(found.st_mode):
            _unusable(path, f"{each} is a symbolic link, and links are not followed")
        if found.st_uid != _ROOT:
            _unusable(path, f"{each} does not belong to root")
        if found.st_mode & 0o022:
            _unusable(path, f"users other than root may write {each} (chmod go-w)")
        if each == _TOP:
            return
        each = os.path.dirname(each)


def _read(path: str | os.PathLike[str], *, links: bool) -> ManagedPolicy:
    try:
        file = os.open(path, os.O_RDONLY | NO_WAIT | (0 if links else NO_FOLLOW))
        with open(file, "rb") as stream:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                _unusable(path, "it is not a regular file")
            problem = access_problem(found, private=False)
            if problem is not None:
                _unusable(path, problem)
            data = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        _unusable(path, f"it cannot be read ({error.strerror})")
    if len(data) > _MAX_BYTES:
        _unusable(path, f"it has more than {_MAX_BYTES:,} bytes")
    try:
        return _parsed(Path(path), tomllib.loads(data.decode()))
    except UnicodeDecodeError:
        _unusable(path, "it is not UTF-8 text")
    except ConfigError as error:
        _unusable(path, error.message)
    except (ValueError, RecursionError) as error:
        _unusable(path, f"it is not TOML: {safe_text(error, 200)}")


def _unusable(path: str | os.PathLike[str], why: str) -> NoReturn:
    raise ConfigError(
        f"the policy {safe_text(path, 300)} cannot be used: {why}; nothing is started or connected "
        "to until that is fixed"
    )


def _parsed(path: Path, whole: dict[str, Any]) -> ManagedPolicy:
    _check_keys(whole, ("servers", "sandbox", "rules"), "")
    servers, rules = whole.get("servers", {}), whole.get("rules", [])
    if type(servers) is not dict:
        raise ConfigError("servers is not a table: write [servers]")
    _check_keys(servers, ("allow", "deny"), "servers.")
    if type(rules) is not list:
        raise ConfigError("rules is not a list of tables: write [[rules]]")
    if whole.get("sandbox", "required") != "required":
        raise ConfigError('sandbox: write "required", or omit it')
    return ManagedPolicy(
        path,
        servers.get("allow"),
        servers.get("deny", ()),
        "sandbox" in whole,
        tuple(rule_of(*each) for each in rule_entries("", rules, RULE_KEYS)),
    )


def _check_keys(table: dict[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(f"unknown key {where}{safe_text(key, 40)}{near(key, known)}")
