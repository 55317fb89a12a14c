"""What a program may read unasked is found by rules that a project cannot bend."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from mcp_client.sandbox import program
from mcp_client.sandbox.program import Program, modules_elsewhere, program_of

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
    *argv: str | Path,
    cwd: Path = Path("/"),
    env: Mapping[str, str] | None = None,
    writable: tuple[Path, ...] = (),
) -> Program:
    words, places = [str(word) for word in argv], [str(path) for path in writable]
    return program_of(words, env or {"PATH": "/usr/bin:/bin"}, str(cwd), writable=places)


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
        (["/usr/bin/node", "--eval=1", "app/server.js"], False),
        (["/usr/bin/node", "--print=1", "app/server.js"], False),
        (["/usr/bin/node", "--run=start", "app/server.js"], False),
        (["/usr/bin/node", "--experimental-loader", "tsx", "app/server.ts"], True),
        (["/usr/bin/bun", "run", "app/server.js"], True),
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


def test_a_link_in_what_the_server_can_write_is_not_followed_out_of_it_in_any_directory(
    home: Path, tmp_path: Path
) -> None:
    work = environment(tmp_path / "work" / ".venv", python(tmp_path / "base")).parents[2]
    made(home, "secret/key.py")
    (work / "server.py").symlink_to(home / "secret" / "key.py")
    words = (work / ".venv" / "bin" / "python", work / "server.py")
    for cwd in (Path("/"), home, tmp_path / "base"):
        every = found(*words, cwd=cwd, writable=(work,))
        assert names(every, home) == set()
        assert missing(every, home) == {"secret"}
    (tmp_path / "name").symlink_to(work)
    words = (tmp_path / "name" / ".venv" / "bin" / "python", tmp_path / "name" / "server.py")
    assert names(found(*words, writable=(work,)), home) == set()


@pytest.mark.parametrize(
    "lines",
    [
        "#!/bin/sh\n'''exec' \"{secret}\" \"$0\" &\n",
        '#!/bin/sh\n\'\'\'exec\' "{secret}" "$0" "$@"\n',
        '#!/bin/sh\n\'\'\'exec\' "{key}" "$0" "$@"\n',
        "#!{secret}\n",
        "#!{key}\n",
        "#!/usr/bin/env -S python3 {key}\n",
        "#!/usr/bin/env -S node --import=./own.mjs {key}\n",
        "#!/usr/bin/env -S BASH_ENV=own bash {key}\n",
        "#!/usr/bin/env -S BASH_ENV=own {script}\n",
        "#!/bin/sh {key}\n",
    ],
)
def test_the_first_lines_of_a_script_grant_nothing_but_its_interpreter(
    home: Path, tmp_path: Path, lines: str
) -> None:
    made(home, ".ssh/bin/run", ".ssh/bin/python3")
    (home / ".ssh" / "bin" / "run").write_text("#!/bin/sh\n")
    secret = home / ".ssh"
    work = made(tmp_path / "work", "bin/server", "bin/node", "bin/python3")
    text = lines.format(secret=secret, key=secret / "id_rsa", script=secret / "bin" / "run")
    (work / "bin" / "server").write_text(text)
    every = found(work / "bin" / "server", cwd=work, env={"PATH": f"{work / 'bin'}:/bin"})
    allowed = {".ssh/bin/run"} if "{script}" in lines else set()
    assert names(every, home) == allowed


@pytest.mark.parametrize("quote", ["", '"', "'"])
def test_the_python_that_pip_names_in_the_second_line_is_granted(
    home: Path, tmp_path: Path, quote: str
) -> None:
    inside = environment(home / "tools" / "venv", python(home / ".pyenv" / "3.12"))
    script = made(home, "work/bin/server") / "work" / "bin" / "server"
    script.write_text(f"#!/bin/sh\n'''exec' {quote}{inside}{quote} \"$0\" \"$@\"\n' '''\n")
    assert {"tools/venv", ".pyenv/3.12"} < names(found(script, cwd=home / "work"), home)


def test_a_shim_of_pyenv_gets_its_script_and_all_that_it_starts_is_named(home: Path) -> None:
    shim = made(home / ".pyenv", "shims/python3", "libexec/pyenv") / "shims" / "python3"
    shim.write_text("#!/usr/bin/env bash\nexec pyenv exec\n")
    made(home, "work/app/server.py")
    every = found(shim, "app/server.py", cwd=home / "work")
    assert names(every, home) == {".pyenv/shims", ".pyenv/shims/python3", "work/app"}
    assert missing(every, home) == {".pyenv"}


@pytest.mark.parametrize("where", ["work", "work/sub"])
def test_what_lies_beside_uvx_by_a_link_is_named_and_not_granted(
    home: Path, tmp_path: Path, where: str
) -> None:
    work = made(tmp_path / "work", "bin/uvx", "sub/x") / "bin"
    (work / "uv").symlink_to(home / ".ssh")
    every = found(work / "uvx", "x", cwd=tmp_path / where)
    assert names(every, home) == set()
    assert missing(every, home) == {".ssh"}


def test_the_dot_files_of_a_project_that_is_its_own_environment_are_not_its_program(
    home: Path, tmp_path: Path
) -> None:
    inside = environment(tmp_path / "work", python(tmp_path / "base"))
    every = found(inside, "-m", "x", cwd=tmp_path / "work")
    assert str(tmp_path / "work") in every.scripts  # whose names with a dot are hidden
    assert str(tmp_path / "work") not in every.paths


def test_a_module_of_the_directory_that_a_server_runs_in_is_named(
    home: Path, tmp_path: Path
) -> None:
    work = made(tmp_path / "work", "one.py", "two/__init__.py")
    for module, file in (("one", "one.py"), ("two.server", "two")):
        every = found("/usr/bin/python3", "-m", module, cwd=work)
        assert missing(every, work) == {file}


@pytest.mark.parametrize("way", ["pth", "finder"])
def test_a_module_of_an_editable_installation_is_named_if_python_misses_it(
    home: Path, tmp_path: Path, way: str
) -> None:
    around = environment(home / "code" / ".venv", python(tmp_path / "base")).parents[1]
    packages = around / "lib" / "python3.12" / "site-packages"
    made(home / "code" / "src", "app/__init__.py", "other/__init__.py")
    if way == "pth":
        (packages / "_app.pth").write_text(f"import this\n{home / 'code' / 'src'}\n")
    else:
        mapping = f"MAPPING = {{'app': '{home}/code/src/app', 'other': '{home}/other'}}\n"
        (packages / "__editable___app_finder.py").write_text(mapping)
    os.mkfifo(packages / "pipe.pth")
    for error in ("ModuleNotFoundError: No module named 'app.main'", "python: No module named app"):
        named = {path for path in modules_elsewhere(error, [str(around)]) if os.path.exists(path)}
        assert named == {str(home / "code" / "src" / "app")}
    assert list(modules_elsewhere("KeyError: 'app'", [str(around)])) == []


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
