"""What a program is made of is found from its command, and nothing else is."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from mcp_client.sandbox import program
from mcp_client.sandbox.program import program_of

pytestmark = [
    pytest.mark.one_backend,
    pytest.mark.skipif(sys.platform == "win32", reason="sandboxes are for POSIX systems"),
]

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def made(folder: Path, *names: str) -> Path:
    """Files in ``folder``; those in ``bin`` can be run."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        if path.parent.name == "bin":
            path.chmod(0o755)
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = made(tmp_path / "people" / "ana", ".ssh/id_rsa", ".env", "notes.txt")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(program, "home_folders", lambda: {str(home)})
    return home


def found(
    *argv: str | Path, cwd: Path = Path("/"), env: Mapping[str, str] | None = None
) -> set[str]:
    words = [str(word) for word in argv]
    return set(program_of(words, env or {"PATH": "/usr/bin:/bin"}, str(cwd)).made_of)


def names(paths: set[str], folder: Path) -> set[str]:
    """Those in ``folder``, as they are called from there."""
    return {os.path.relpath(path, folder) for path in paths if path.startswith(f"{folder}/")}


def python(folder: Path) -> Path:
    """An interpreter with its library."""
    made(folder, "bin/python3.12", "lib/python3.12/os.py")
    return folder / "bin" / "python3.12"


def test_of_a_virtual_environment_the_interpreter_it_was_made_from_is_a_part(home: Path) -> None:
    base = python(home / ".pyenv" / "versions" / "3.12")
    venv = made(home / "work" / ".venv", "lib/python3.12/site-packages/x.py", "pyvenv.cfg")
    (venv / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    (venv / "bin").mkdir()
    (venv / "bin" / "python").symlink_to(base)
    assert names(found(venv / "bin" / "python", "-m", "x"), home) == {
        *("work/.venv", "work/.venv/bin/python"),
        *(".pyenv/versions/3.12", ".pyenv/versions/3.12/bin/python3.12"),
    }


def test_an_environment_that_is_a_home_folder_is_not_found(home: Path) -> None:
    base = python(home.parent / "base")
    made(home, "bin/python", "pyvenv.cfg", "lib/python3.12/site-packages/x.py")
    (home / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    paths = found(home / "bin" / "python", "-m", "x")
    assert names(paths, home) == {"bin/python"}
    assert str(home) not in paths


def test_of_a_script_itself_and_the_modules_beside_it(home: Path) -> None:
    made(home, "server.py", "other.py", "package/__init__.py", "package/data.json")
    made(home, "project/main.py", ".hidden.py", "data/x.csv")
    expected = {"server.py", "other.py", "package"}
    assert names(found("/usr/bin/python3", "server.py", "notes.txt", cwd=home), home) == expected
    assert (
        names(found("/usr/bin/python3", "-u", "-W", "error", home / "server.py"), home) == expected
    )
    assert program_of(["/usr/bin/python3", "server.py"], {}, str(home)).listed == (str(home),)


@pytest.mark.parametrize("words", [["-c", "import x"], ["-Ic", "1"], ["-"], ["-m"]])
def test_of_a_program_in_the_arguments_nothing(home: Path, words: list[str]) -> None:
    assert names(found("/usr/bin/python3", *words, "notes.txt", cwd=home), home) == set()
    assert names(found("/usr/bin/node", "-e", "1", "notes.txt", cwd=home), home) == set()


def test_of_a_module_what_the_folder_has_of_that_name(home: Path) -> None:
    made(home, "work/app/main.py", "work/helper.py", "work/.env")
    for words in (["-m", "app.main"], ["-Sm", "app"], ["-mapp"]):
        assert names(found("/usr/bin/python3", *words, cwd=home / "work"), home / "work") == {
            *("app", "helper.py")
        }
    assert names(found("/usr/bin/python3", "-m", "elsewhere", cwd=home / "work"), home) == set()


def test_what_is_installed_to_be_edited_is_there_by_its_modules(home: Path) -> None:
    python(home / "py")
    packages = made(home / "venv" / "lib" / "python3.12" / "site-packages", "a.pth", "b.pth")
    made(home / "src", "app/__init__.py", "module.py", ".env", "README.md")
    made(home / "flat", "tool/__init__.py", "secrets/key")
    (packages / "a.pth").write_text(f"import x\n{home / 'src'}\n{home}\n")
    (packages / "__editable___tool_finder.py").write_text(
        f"MAPPING: dict[str, str] = {{'tool': '{home}/flat/tool', 'x': '{home}/.ssh'}}\n"
    )
    made(home / "venv", "bin/python")
    (home / "venv" / "pyvenv.cfg").write_text("")
    assert names(found(home / "venv" / "bin" / "python", "-m", "tool"), home) == {
        *("venv", "venv/bin/python", "src/app", "src/module.py", "flat/tool")
    }


def test_of_a_node_server_its_package_and_what_it_requires(home: Path) -> None:
    made(home, "app/package.json", "app/dist/index.js", "app/.env", "app/node_modules/x/index.js")
    made(home, "node_modules/y/index.js")
    assert names(found("/usr/bin/node", "dist/index.js", "notes.txt", cwd=home / "app"), home) == {
        *("app/package.json", "app/dist", "app/dist/index.js", "app/node_modules", "node_modules")
    }


def test_of_an_installed_node_server_the_folder_of_packages_it_is_in(home: Path) -> None:
    package = made(home / "app" / "node_modules" / "server", "package.json", "dist/index.js")
    (home / "app" / "node_modules" / ".bin").mkdir()
    link = home / "app" / "node_modules" / ".bin" / "server"
    link.symlink_to("../server/dist/index.js")
    assert str(home / "app" / "node_modules") in found("/usr/bin/node", link)
    assert str(package.parent) in found("/usr/bin/node", package / "dist" / "index.js")


def test_a_package_in_a_home_folder_is_not_the_home_folder(home: Path) -> None:
    made(home, "package.json", "server.js", "lib.mjs")
    assert names(found("/usr/bin/node", home / "server.js"), home) == {
        *("server.js", "lib.mjs", "package.json")
    }


def test_a_link_in_a_project_leads_to_nothing_outside_of_it(home: Path) -> None:
    made(home, "work/server.py", "work/package.json", "work/server.js")
    work = home / "work"
    for name in ("keys.py", "keys.json", "node_modules"):
        (work / name).symlink_to("../.ssh/id_rsa" if "." in name else "../.ssh")
    (work / "main.py").symlink_to("../.ssh/id_rsa")
    for script in ("server.py", "main.py", "server.js"):
        runner = "/usr/bin/node" if script.endswith(".js") else "/usr/bin/python3"
        paths = {os.path.realpath(path) for path in found(runner, script, cwd=work)}
        assert not any(".ssh" in path for path in paths), script
    (work / "run").symlink_to("../.ssh/id_rsa")
    assert not any(".ssh" in os.path.realpath(path) for path in found("/bin/sh", "run", cwd=work))


def test_of_a_script_that_is_started_itself_what_runs_it_too(home: Path) -> None:
    base = python(home / "py")
    made(home, "tools/bin/serve", "tools/bin/helper.py")
    script = home / "tools" / "bin" / "serve"
    script.write_text(f"#!{base}\n")
    assert names(found(script), home) >= {"py", "tools/bin/serve", "tools/bin/helper.py"}
    script.write_text(f"#!/bin/sh\n'''exec' \"{base}\" \"$0\" \"$@\"\n' '''\n")
    assert "py" in names(found(script), home)
    script.write_text("#!/usr/bin/env python3.12\n")
    assert "py" in names(found(script, env={"PATH": f"{base.parent}:/usr/bin"}), home)


def test_a_script_whose_interpreter_is_a_script_has_all_that_linux_would_start(home: Path) -> None:
    tools = home / "tools"
    made(tools, *(f"run{number}" for number in range(6)))
    for number in range(5):
        (tools / f"run{number}").write_text(f"#!{tools}/run{number + 1}\n")
    assert names(found(tools / "run0"), tools) == {f"run{number}" for number in range(6)}


def test_of_a_program_in_opt_its_folder_and_elsewhere_its_libraries(
    home: Path, tmp_path: Path
) -> None:
    made(tmp_path / "tool", "bin/serve", "lib/library.so", "secret.txt")
    assert names(found(tmp_path / "tool" / "bin" / "serve"), tmp_path / "tool") == {
        *("bin/serve", "lib")
    }
    made(home, "bin/serve", ".local/bin/serve", ".local/share/keyrings/login", "lib/x.so")
    for place in (home / "bin" / "serve", home / ".local" / "bin" / "serve"):
        assert found(place) == {str(place)}


def test_other_arguments_and_variables_grant_nothing(home: Path) -> None:
    env = {"PATH": "/usr/bin", "PYTHONPATH": str(home / ".ssh"), "KEY": str(home / ".ssh")}
    words = ["/bin/cat", str(home / ".ssh" / "id_rsa"), f"--config={home}/.env"]
    assert names(found(*words, env=env), home) == set()


def test_a_variable_may_name_a_file_of_certificates_and_no_other_file(home: Path) -> None:
    (home / "ca.pem").write_text(CERTIFICATE)
    (home / "both.pem").write_text(f"{CERTIFICATE}-----BEGIN PRIVATE KEY-----\n")
    for name, path in {"SSL_CERT_FILE": "ca.pem", "NODE_EXTRA_CA_CERTS": "both.pem"}.items():
        granted = names(found("/bin/true", env={name: str(home / path)}), home)
        assert granted == ({"ca.pem"} if path == "ca.pem" else set())
    for path in (".ssh/id_rsa", "missing", ""):
        assert names(found("/bin/true", env={"SSL_CERT_FILE": str(home / path)}), home) == set()


def test_home_folders_are_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert {str(tmp_path), "/root"} <= program.home_folders()
    monkeypatch.setenv("HOME", "/")
    assert "/" not in program.home_folders()


def test_what_leads_in_a_circle_ends(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(f"#!{script}\n")
    script.chmod(0o755)
    assert found(script) == {str(script)}
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert names(found("/usr/bin/python3", tmp_path / "a"), tmp_path) == set()
