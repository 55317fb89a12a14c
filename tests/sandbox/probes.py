"""What a server in a sandbox can reach, tried from inside: ``python -m tests.sandbox.probes``.

Prints a table: a row for each probe, a column for each user, engine and setting. Options choose
some of them: ``--engines bubblewrap --settings default read --users root --languages python``. The
probes themselves are in ``inside/``, what they try to reach is made by ``world.py``.

Where this runs as root, the ordinary user is ``nobody``, with a copy of the package that it can
read.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib.util
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.sandbox.client import SETTINGS, Report, Trial
from tests.sandbox.world import INSIDE

LANGUAGES = ("python", "node")
USERS = ("root", "ordinary")
ROOT = Path(__file__).parents[2]
_NEEDED = ("mcp_client", "anyio", "idna", "sniffio", "typing_extensions")
"""What a client over stdio is made of."""

HELD, GRANTED, EITHER, UNTRIED = "-", "+", ".", "0"
OPEN, VANISHED, BROKEN, REPORTED = "!", "v", "x", "~"
LEGEND = {
    HELD: "refused",
    GRANTED: "possible, as was asked for",
    EITHER: "no matter",
    UNTRIED: "not possible without a sandbox either",
    REPORTED: "possible, and session.sandbox reports it",
    OPEN: "POSSIBLE, THOUGH IT SHOULD NOT BE",
    VANISHED: "A WRITE THAT SUCCEEDED AND CHANGED NOTHING",
    BROKEN: "NOT POSSIBLE, THOUGH IT SHOULD BE",
}
FAULTS = (OPEN, VANISHED, BROKEN)
SENTENCES = dict.fromkeys(("stat_of_home", "link_in_home", "work_in_home"), "can know of any path")
"""What a sandbox may fail to enforce if it reports it: a part of the sentence for each probe."""

ENGINES = ("bubblewrap",)
"""Beside "none"."""


class About(NamedTuple):
    """A probe: see ``inside/probing/catalogue.py``."""

    kind: str
    settings: Sequence[str]
    either: Sequence[str]
    who: str

    def possible(self, user: str) -> bool:
        """Whether it has to succeed without a sandbox."""
        return self.kind != "works" and self.who in ("both", {"ordinary": "user"}.get(user, user))

    def verdict(self, name: str, report: Report) -> str:
        setting, outcome = report.setting, report.outcomes[name]
        if outcome.startswith("broken") or (outcome == "held not here" and self.settings):
            return BROKEN if outcome.startswith("broken") else UNTRIED
        succeeded = outcome.startswith("open")
        if setting in self.settings:
            return GRANTED if succeeded else BROKEN
        if setting in self.either:
            return EITHER
        if outcome == "vanished":
            return VANISHED
        if succeeded and name in SENTENCES and SENTENCES[name] in report.sentences:
            return REPORTED
        return OPEN if succeeded else HELD


def users() -> Sequence[str]:
    """Those that can be tried: root can be the other, too."""
    return USERS if os.getuid() == 0 else ("ordinary",)


def catalogue(language: str, command: str) -> dict[str, About]:
    script = INSIDE / ("server.mjs" if language == "node" else "server.py")
    words = [command, str(script), "--list"]
    listed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return {name: About(*about) for name, about in json.loads(listed).items()}


@functools.cache
def command_of(language: str, user: str) -> str | None:
    """The interpreter that this user can run; None without one."""
    if language == "node":
        names = ["node"]
        places = [shutil.which("node")]
        check = "process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)"
        option = "-e"
    else:
        names = [sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"]
        places = [shutil.which(name) for name in names]
        check = "import sys; sys.exit(sys.version_info < (3, 11))"
        option = "-c"
    for place in filter(None, places):
        with_rights = _as_user(user)
        try:
            done = subprocess.run([place, option, check], cwd="/", check=False, **with_rights)
        except OSError:
            continue
        if done.returncode == 0:
            return place
    return None


def _as_user(user: str) -> dict[str, Any]:
    if user == "root" or os.getuid() != 0:
        return {}
    no_one = pwd.getpwnam("nobody")
    return {"user": no_one.pw_uid, "group": no_one.pw_gid, "extra_groups": []}


@contextmanager
def _for_everyone() -> Iterator[tuple[Path, Path]]:
    """A copy of what the client is made of, and a setuid program, for a user with few rights."""
    with tempfile.TemporaryDirectory(prefix="sandbox-", dir="/var/tmp") as directory:
        top = Path(directory)
        top.chmod(0o755)
        for name in _NEEDED:
            found = importlib.util.find_spec(name)
            if found is None or found.origin is None:
                continue
            if found.submodule_search_locations:
                ignore = shutil.ignore_patterns("__pycache__")
                shutil.copytree(Path(found.origin).parent, top / name, ignore=ignore)
            else:
                shutil.copy(found.origin, top)
        shutil.copytree(Path(__file__).parent, top / "tests" / "sandbox")
        subprocess.run(["chmod", "-R", "a+rX", directory], check=True)
        setuid = top / "setuid-id"
        shutil.copy("/usr/bin/id", setuid)
        setuid.chmod(0o4755)
        yield top, setuid


def run(user: str, trials: Sequence[Trial]) -> list[Report]:
    """Try them one after the other, in one client."""
    python = command_of("python", user)
    assert python is not None
    rights = _as_user(user)
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    if not rights:
        return _client([python], trials, {**os.environ, "PYTHONPATH": str(ROOT)}, {})
    with _for_everyone() as (top, setuid):
        environment |= {"PYTHONPATH": str(top), "PYTHONDONTWRITEBYTECODE": "1"}
        trials = [dataclasses.replace(each, setuid=str(setuid)) for each in trials]
        return _client([python], trials, environment, {**rights, "cwd": top})


def _client(
    python: Sequence[str], trials: Sequence[Trial], env: Mapping[str, str], rights: dict[str, Any]
) -> list[Report]:
    words = [*python, "-m", "tests.sandbox.client"]
    asked = json.dumps([dataclasses.asdict(trial) for trial in trials])
    done = subprocess.run(
        words, input=asked, env=env, capture_output=True, text=True, check=False, **rights
    )
    reports = [Report(**json.loads(line)) for line in done.stdout.splitlines()]
    if done.returncode:
        raise AssertionError(done.stderr[-4000:])
    return reports


def trials_of(
    user: str, engines: Sequence[str], settings: Sequence[str], languages: Sequence[str]
) -> list[Trial]:
    """Each of them once without a sandbox, and then in every setting of every engine."""
    trials = []
    for language in languages:
        command = command_of(language, user)
        if command is None:
            continue
        probes = tuple(catalogue(language, _lister(language)))
        pairs = [("none", "default")] if "none" in engines else []
        pairs += [(engine, name) for engine in engines if engine != "none" for name in settings]
        trials += [Trial(*pair, language, (command,), probes) for pair in pairs]
    return trials


def _lister(language: str) -> str:
    return sys.executable if language == "python" else str(command_of("node", USERS[0]))


# --------------------------------------------------------------------------- the table


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.sandbox.probes")
    options.add_argument("--engines", nargs="+", default=ENGINES, choices=ENGINES)
    options.add_argument("--settings", nargs="+", default=tuple(SETTINGS), choices=SETTINGS)
    options.add_argument("--users", nargs="+", default=users(), choices=users())
    options.add_argument("--languages", nargs="+", default=LANGUAGES, choices=LANGUAGES)
    chosen = options.parse_args()
    faults: list[str] = []
    for language in chosen.languages:
        columns: list[tuple[str, Report]] = []
        for user in chosen.users:
            trials = trials_of(user, ("none", *chosen.engines), chosen.settings, [language])
            columns += [(user, report) for report in run(user, trials)]
        faults += _print(catalogue(language, _lister(language)), columns)
    print(f"\nIn each column one sign a setting: {', '.join(chosen.settings)}.")
    print("o  possible without a sandbox", *map("  ".join, LEGEND.items()), sep="\n")
    print("", *(faults or ["Everything is held."]), sep="\n")
    return 1 if faults else 0


def _print(probes: Mapping[str, About], columns: Sequence[tuple[str, Report]]) -> list[str]:
    width = max(map(len, probes)) + 2
    groups: dict[str, list[Report]] = {}
    faults = []
    for user, report in columns:
        where = f"{user}, {report.engine}"
        groups.setdefault(where, []).append(report)
        if report.problem:
            faults.append(f"NOT OPENED: {where}, {report.setting}: {report.problem}")
        if report.left and report.engine != "none":
            faults.append(f"LEFT BEHIND: {where}, {report.setting}: {', '.join(report.left)}")
    print(f"\n{'':{width}}" + " | ".join(groups))
    outside = {user: report.outcomes for user, report in columns if report.engine == "none"}
    for name, about in probes.items():
        cells = []
        for where, reports in groups.items():
            signs = ""
            without = outside[where.partition(",")[0]].get(name, "")
            for report in reports:
                sign, fault = _sign(name, about, report, without)
                signs += sign
                if fault:
                    faults.append(f"{fault}: {name}, {where}, {report.setting}")
            cells.append(f"{signs:{len(where)}}")
        print(f"{name.replace('_', ' '):{width}}" + " | ".join(cells))
    return faults


def _sign(name: str, about: About, report: Report, without: str) -> tuple[str, str]:
    """The sign in the table, and what is wrong about it."""
    if name not in report.outcomes:
        return " ", ""
    possible = without.startswith("open") or about.kind == "works"
    if report.engine == "none":
        return ("o" if possible else UNTRIED), ""
    verdict = about.verdict(name, report)
    if verdict in FAULTS:
        return verdict, f"{LEGEND[verdict]} ({report.outcomes[name]})"
    return (verdict if possible else UNTRIED), ""


if __name__ == "__main__":
    sys.exit(main())
