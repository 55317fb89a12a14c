"""What a program may read unasked is found by rules that a project cannot bend."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from mcp_client.sandbox import program
from mcp_client.sandbox.program import Program, program_of

pytestmark = [
    pytest.mark.one_backend,
    pytest.mark.skipif(sys.platform == "win32", reason="sandboxes are for Linux"),
]


def made(directory: Path, *names: str) -> Path:
    """Files in ``directory``; those in ``bin`` can be run."""
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\x7fELF" if path.parent.name == "bin" else b"")
        if path.parent.name == "bin":
            path.chmod(0o755)
    return directory


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = made(tmp_path / "people" / "ana", ".ssh/id_rsa", ".env", "notes.txt")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(program, "home_directories", lambda: {str(home)})
    return home


def found(
    *argv: str | Path, cwd: Path = Path("/"), env: Mapping[str, str] | None = None
) -> Program:
    return program_of([str(word) for word in argv], env or {"PATH": "/usr/bin:/bin"}, str(cwd))


def names(program: Program, directory: Path) -> set[str]:
    """All that is granted in ``directory``, as it is called from there."""
    every = (*program.paths, *program.scripts, *program.caches)
    return {os.path.relpath(path, directory) for path in every if path.startswith(f"{directory}/")}


def missing(program: Program, directory: Path) -> set[str]:
    return {os.path.relpath(path, directory) for path in program.missing if str(directory) in path}


def python(directory: Path) -> Path:
    """An interpreter with its library."""
    made(directory, "bin/python3.12", "lib/python3.12/os.py")
    return directory / "bin" / "python3.12"


def environment(directory: Path, base: Path) -> Path:
    """A virtual environment; returns its interpreter."""
    made(directory, "lib/python3.12/site-packages/x.py", "pyvenv.cfg")
    (directory / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    (directory / "bin").mkdir()
    (directory / "bin" / "python").symlink_to(base)
    return directory / "bin" / "python"


def test_of_an_environment_itself_and_the_installation_that_its_settings_name(home: Path) -> None:
    base = python(home / ".pyenv" / "versions" / "3.12")
    inside = environment(home / "work" / ".venv", base)
    assert names(found(inside, "-m", "x"), home) == {"work/.venv", ".pyenv/versions/3.12"}


@pytest.mark.parametrize("place", ["home", "ssh", "local", "linked"])
def test_an_environment_whose_settings_name_no_installation_gets_nothing_of_it(
    home: Path, tmp_path: Path, place: str
) -> None:
    bases = {"home": home / "bin", "ssh": home / ".ssh" / "bin", "local": home / ".local" / "bin"}
    if place == "linked":
        (tmp_path / "fake").mkdir()
        (tmp_path / "fake" / "lib").symlink_to(home / ".ssh")
    if place == "local":
        python(home / ".local")
    base = bases.get(place, tmp_path / "fake" / "bin") / "python"
    work = tmp_path / "work"
    inside = environment(work / ".venv", base)
    every = found(inside, "-m", "x", cwd=work)
    assert names(every, tmp_path) == {"work/.venv"}


@pytest.mark.parametrize("plant", ["pth", "finder", "link called site-packages"])
def test_what_an_environment_states_is_installed_elsewhere_is_not_granted(
    home: Path, tmp_path: Path, plant: str
) -> None:
    inside = environment(tmp_path / "work" / ".venv", python(tmp_path / "base"))
    packages = tmp_path / "work" / ".venv" / "lib" / "python3.12" / "site-packages"
    made(home / "src", "app/__init__.py", ".env")
    if plant == "pth":
        (packages / "a.pth").write_text(f"{home / 'src'}\n")
    elif plant == "finder":
        mapping = f"MAPPING = {{'app': '{home}/src/app'}}\n"
        (packages / "__editable___app_finder.py").write_text(mapping)
    else:
        (tmp_path / "work" / "site-packages").symlink_to(home / ".ssh")
        (packages / "a.pth").write_text(f"{tmp_path / 'work' / 'site-packages'}\n")
    assert names(found(inside, "-m", "x", cwd=tmp_path / "work"), home) == set()


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(home: Path) -> None:
    work = made(home / "work", "venv/bin/python3")
    os.mkfifo(work / "venv" / "pyvenv.cfg")
    os.mkfifo(work / "run")
    has_looked = threading.Event()

    def look() -> None:
        found(work / "venv" / "bin" / "python3", "-c", "1", cwd=work)
        found(work / "run", cwd=work)
        has_looked.set()

    threading.Thread(target=look, daemon=True).start()
    assert has_looked.wait(20)


def test_an_interpreter_in_a_home_directory_is_granted_alone_and_what_it_lacks_is_named(
    home: Path,
) -> None:
    every = found(python(home / ".pyenv" / "versions" / "3.12"), "-c", "1")
    assert names(every, home) == {".pyenv/versions/3.12/bin/python3.12"}
    assert missing(every, home) == {".pyenv/versions/3.12"}


@pytest.mark.parametrize(
    ("words", "script"),
    [
        (["/usr/bin/python3", "app/server.py"], True),
        (["/usr/bin/python3", "-u", "-W", "error", "-Xdev", "app/server.py"], True),
        (["/usr/bin/python3", "-u", "-W", "error", "app/server.py"], True),
        (["/usr/bin/python3", "-c", "1", "app/server.py"], False),
        (["/usr/bin/python3", "--unknown", "app/server.py"], False),
        (["/usr/bin/python3", "-", "app/server.py"], False),
        (["/usr/bin/node", "app/server.js"], True),
        (["/usr/bin/node", "--no-warnings", "--max-old-space-size=9", "app/server.js"], True),
        (["/usr/bin/node", "--import", "tsx", "app/server.ts"], True),
        (["/usr/bin/node", "--unknown", "app/server.js"], False),
        (["/usr/bin/node", "-e", "1", "app/server.js"], False),
        (["/bin/sh", "app/run.sh"], True),
        (["/bin/sh", "-c", "app/run.sh"], False),
        (["/usr/bin/env", "python3", "app/server.py"], True),
        (["/usr/bin/env", "-i", "python3", "app/server.py"], False),
        (["/usr/bin/other", "app/server.py"], False),
    ],
)
def test_of_a_script_the_directory_it_is_in_unless_an_option_is_not_known(
    home: Path, tmp_path: Path, words: list[str], script: bool
) -> None:
    tools = made(tmp_path / "tools", "bin/python3") / "bin"
    made(home, "work/app/server.py", "work/app/server.js", "work/app/server.ts", "work/app/run.sh")
    expected = {"work/app"} if script else set()
    every = found(*words, cwd=home / "work", env={"PATH": str(tools)})
    assert names(every, home) == expected


def test_of_a_script_in_a_home_directory_the_file_alone(home: Path) -> None:
    made(home, "server.py", "other.py")
    assert names(found("/usr/bin/python3", "server.py", cwd=home), home) == {"server.py"}


@pytest.mark.parametrize("way", ["file", "directory", "executable"])
def test_a_link_of_the_project_that_leads_out_of_it_is_named_and_not_granted(
    home: Path, tmp_path: Path, way: str
) -> None:
    work = made(tmp_path / "work", "x")
    made(home, "secret/key.py", "bin/key")
    if way == "directory":
        (work / "app").symlink_to(home / "secret")
        every = found("/usr/bin/python3", "app/key.py", cwd=work)
    elif way == "file":
        (work / "app.py").symlink_to(home / "secret" / "key.py")
        every = found("/usr/bin/python3", "app.py", cwd=work)
    else:
        (work / "app").symlink_to(home / "bin" / "key")
        every = found(work / "app", cwd=work)
    assert names(every, home) == set()
    assert missing(every, home) == {"bin/key" if way == "executable" else "secret"}


def test_of_a_script_for_node_the_package_that_holds_it_and_no_more(home: Path) -> None:
    made(home, "work/package.json", "work/dist/index.js", "work/node_modules/x/dist/cli.js")
    made(home, "work/node_modules/x/package.json", "work/node_modules/y/index.js")
    assert names(found("/usr/bin/node", "dist/index.js", cwd=home / "work"), home) == {"work"}
    within = found("/usr/bin/node", "node_modules/x/dist/cli.js", cwd=home / "work")
    assert names(within, home) == {"work/node_modules/x"}
    assert missing(within, home) == {"work/node_modules"}


def test_of_a_program_its_installation_unless_it_lies_in_the_project_or_a_home(
    home: Path, tmp_path: Path
) -> None:
    for around in (tmp_path / "srv" / "app", home / "app", tmp_path / "work"):
        made(around, "bin/server", "lib/code.so", "share/data", "etc/secret")
    every = found(tmp_path / "srv" / "app" / "bin" / "server", cwd=tmp_path / "work")
    assert names(every, tmp_path / "srv" / "app") == {"bin/server", "lib", "share"}
    for around, cwd in ((home / "app", Path("/")), (tmp_path / "work", tmp_path / "work")):
        every = found(around / "bin" / "server", cwd=cwd)
        assert names(every, around) == {"bin/server"}
        assert missing(every, around) == {"lib"}


def test_no_other_argument_and_no_variable_grants_anything(home: Path) -> None:
    certificate = home / "ca.pem"
    certificate.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    made(home, "data/x.csv")
    env = {"PATH": "/usr/bin:/bin", "SSL_CERT_FILE": str(certificate), "DATA": str(home / "data")}
    every = found("/usr/bin/python3", "-c", "1", f"--data={home}/data", home / "data", env=env)
    assert names(every, home) == set()
