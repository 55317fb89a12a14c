"""The sandbox of a server in a config file: this package's key, and those of VS Code.

Ours, in any program's file, is ``"mcp-client": {"sandbox": true}``, or an object with the arguments
of ``Sandbox``: ``read``, ``write``, ``network``. Relative paths are below the directory that
servers run in.

VS Code's are ``sandboxEnabled`` of a server, and ``sandbox`` with ``filesystem`` and ``network``,
of a server or of the whole file. There a server reads everything but what is denied, and reaches
the domains that are allowed. Here it reads the system's programs, its own, and ``allowRead``; it
writes ``allowWrite`` and not its directory by default; it reaches no network, because domains
cannot be distinguished. A grant that a denial overlaps is not given. So nothing is wider than it is
there, and a request beyond that is a problem; our own key can grant it instead.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..errors import ConfigError
from .fields import Fields
from .programs import as_own
from .values import Expanded

if TYPE_CHECKING:
    from ..sandbox.sandbox import Sandbox

__all__ = ["GivenSandbox", "own_sandbox", "vscode_sandbox"]

_INSTEAD = "grant what it may do with 'mcp-client': {'sandbox': {...}}"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix", "/System")
"""The paths that each sandbox may read, in parts."""
_GLOB = frozenset("*?[{")
_PLAIN = re.compile(r"[\w@%+=:./~${}\\-]+")
_FILES = ("allowRead", "denyRead", "allowWrite", "denyWrite")
_DOMAINS = ("allowedDomains", "deniedDomains")


class GivenSandbox(NamedTuple):
    """A sandbox with its paths as they are and as they may be shown."""

    read: tuple[Expanded, ...] = ()
    write: tuple[Expanded, ...] = ()
    network: str = "none"

    def made(self) -> Sandbox:
        """Raise ``ConfigError``: without what a variable brought."""
        from ..sandbox.sandbox import Sandbox

        read, write = ([one.value for one in each] for each in (self.read, self.write))
        try:
            return Sandbox(read, write, self.network)  # type: ignore[arg-type]
        except ConfigError:
            if any(one.used for one in (*self.read, *self.write)):
                raise ConfigError(
                    "its sandbox cannot grant a path after variables are replaced: check them"
                ) from None
            raise

    @property
    def places(self) -> Mapping[str, Expanded]:
        """The paths, by their place in the file."""
        lists = (("read", self.read), ("write", self.write))
        return {
            f"sandbox.{name}[{number}]": one
            for name, paths in lists
            for number, one in enumerate(paths)
        }


def own_sandbox(fields: Fields, ours: str) -> GivenSandbox | bool | None:
    """Return the sandbox of our own key; None if there is none, or it is wrong."""
    value = fields.raw(ours)
    if value is None or value is True:
        return None if value is None else GivenSandbox()
    if value is False:
        if fields.parsed.scope == "user":
            return False
        fields.note(
            "sandbox", "has no effect: only a user's own file may start a server without one"
        )
        return None
    inner = fields.inside("sandbox", as_own("read", "write", "network"), "mcp-client")
    read, write = _paths(inner, "read"), _paths(inner, "write")
    network = inner.raw("network")
    if network is not None and not isinstance(network, str):
        inner.wrong("network", "is not a text: write it in double quotes")
        network = None
    return _checked(inner, GivenSandbox(read, write, network or "none"))


def vscode_sandbox(fields: Fields) -> GivenSandbox | None:
    """Return the sandbox of VS Code's keys."""
    if not fields.flag("sandbox"):
        if fields.has("sandbox_rules"):
            fields.note("sandbox", "has no effect without 'sandboxEnabled': true")
        return None
    parsed, names = fields.parsed, as_own("filesystem", "network")
    if fields.has("sandbox_rules"):
        inner = fields.inside("sandbox_rules", names, "VS Code")
    else:
        of_file = {"sandbox": parsed.document.value.get("sandbox")}
        whole = Fields(parsed, (), of_file, as_own("sandbox"), title="VS Code")
        inner = whole.inside("sandbox", names, "VS Code")
    files = inner.inside("filesystem", as_own(*_FILES), "VS Code")
    domains = inner.inside("network", as_own(*_DOMAINS), "VS Code")
    for name in _DOMAINS:
        if domains.names(name):
            domains.note(
                name,
                f"cannot be enforced, so it reaches no network: {_INSTEAD}, network included",
            )
    paths = {name: _paths(files, name) for name in _FILES}
    denied = (*paths["denyWrite"], *paths["denyRead"])
    write = tuple(_not_denied(files, "allowWrite", paths["allowWrite"], denied))
    # What is allowed within a directory that is denied may be read.
    inside = [each for each in paths["denyRead"] if not _holds(each.value, paths["allowRead"])]
    read = tuple(_not_denied(files, "allowRead", paths["allowRead"], inside))
    for number, each in enumerate(paths["denyRead"]):
        if _is_glob(each) or any(_overlap(each.value, one) for one in _SYSTEM):
            files.wrong(
                "denyRead",
                f"cannot be enforced, because programs of the system may be read there: {_INSTEAD}",
                number,
            )
    return _checked(files, GivenSandbox(read, write))


def _checked(fields: Fields, sandbox: GivenSandbox) -> GivenSandbox | None:
    try:
        sandbox.made()
    except ConfigError as error:
        fields.unusable(error.message)
        return None
    return sandbox


def _paths(fields: Fields, name: str) -> tuple[Expanded, ...]:
    base = fields.parsed.base
    return tuple(
        one._replace(value=path, shown=one.shown if one.used else path)
        for one in fields.words(name)
        for path in (os.path.abspath(base / os.path.expanduser(one.value)),)
    )


def _not_denied(
    fields: Fields, name: str, granted: Iterable[Expanded], denied: Iterable[Expanded]
) -> Iterator[Expanded]:
    """Yield the grants that no denial overlaps."""
    for number, one in enumerate(granted):
        if any(_is_glob(each) or _overlap(one.value, each.value) for each in denied):
            fields.note(
                name,
                f"[{number}] is not granted: what is denied in it cannot be enforced; {_INSTEAD}",
            )
        else:
            yield one


def _is_glob(path: Expanded) -> bool:
    return not _GLOB.isdisjoint(path.value)


def _holds(path: str, inner: tuple[Expanded, ...]) -> bool:
    """Whether all of ``inner`` that overlaps ``path`` lies in it."""
    return all(_is_in(one.value, path) or not _overlap(one.value, path) for one in inner)


def _overlap(one: str, other: str) -> bool:
    return _is_in(one, other) or _is_in(other, one)


def _is_in(path: str, directory: str) -> bool:
    real, within = os.path.realpath(path), os.path.realpath(directory)
    return any(
        one == two or one.startswith(two.rstrip(os.sep) + os.sep)
        for one, two in ((path, directory), (real, within))
    )
