"""Servers in namespaces of their own, by bwrap."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_client import ConnectError, Sandbox
from mcp_client.sandbox import bubblewrap, confined_group
from mcp_client.sandbox.bubblewrap import Launch, confine
from mcp_client.sandbox.confined_group import ConfinedGroup
from mcp_client.sandbox.sandbox import DEVICES, Grants

from .confined import ENV, needs_bubblewrap, run, shell

pytestmark = [pytest.mark.one_backend, needs_bubblewrap]

HELD = Sandbox()


def granting(*, read: tuple[Path, ...] = (), write: tuple[Path, ...] = ()) -> Sandbox:
    return Sandbox(read=read, write=write)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("read", "write", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    return tmp_path


def test_what_is_granted_is_there_and_nothing_else(place: Path) -> None:
    sandbox = granting(read=(place / "read",), write=(place / "write",))
    script = f"cd {place}; cat read/file; cat write/file; ls; cat other/file; ls {Path.home()}"
    _, output, errors = shell(sandbox, script)
    assert output == "readwriteread\nwrite\n"
    assert errors.count("No such file or directory") == 2


@pytest.mark.parametrize(
    "where",
    [
        *("read/new", "read/file", "new", "other", "/new", "/tmp/new", "/dev/new", "/dev/shm/new"),
        *("/etc/new", "/usr/new", "/run", "/var/new", "/proc/sys/kernel/core_pattern", "/bin/new"),
    ],
)
def test_a_write_anywhere_else_fails_rather_than_vanishes(place: Path, where: str) -> None:
    sandbox = granting(read=(place / "read",), write=(place / "write",))
    code, _, errors = shell(sandbox, f"cd {place}; echo x > {where}")
    assert code != 0, where
    assert "cannot create" in errors


def test_what_is_written_where_it_is_granted_stays(place: Path) -> None:
    code, output, _ = shell(
        granting(write=(place / "write",)),
        f"cd {place}/write; echo new > new; mv new moved; rm file; cat moved; chmod 700 moved",
    )
    assert (code, output) == (0, "new\n")
    assert sorted(os.listdir(place / "write")) == ["moved"]


def test_a_directory_in_a_writable_directory_can_be_excluded_from_it(place: Path) -> None:
    (place / "write" / "kept").mkdir()
    sandbox = granting(read=(place / "write" / "kept",), write=(place / "write",))
    code, *_ = shell(sandbox, f"cd {place}/write; echo x > new && echo x > kept/new")
    assert code != 0
    assert (place / "write" / "new").exists()
    _, output, _ = shell(granting(read=(place,), write=(place / "write",)), f"ls {place}")
    assert output == "other\nread\nwrite\n"


def test_home_and_temporary_directory_are_the_servers_own(place: Path) -> None:
    script = 'echo x > "$TMPDIR/x" && cat "$HOME/x"; echo $HOME'
    _, output, _ = run(HELD, ["/bin/sh", "-c", script], env={**ENV, "HOME": str(place)})
    text, home = output.splitlines()
    assert text == "x"
    assert not os.path.exists(home)
    _, output, _ = run(HELD, ["/bin/sh", "-c", 'ls "$HOME"'], env=ENV)
    assert output == ""


def test_links_lead_nowhere_that_is_not_granted(place: Path) -> None:
    (place / "write" / "link").symlink_to(place / "other")
    _, output, errors = shell(
        granting(write=(place / "write",)),
        f"cd {place}/write; cat link/file; ln -s {place}/other new; cat new/file",
    )
    assert output == ""
    assert errors.count("No such file") == 2


def test_a_directory_granted_by_a_link_is_found_by_either_name(place: Path) -> None:
    (place / "link").symlink_to("read")
    sandbox = granting(read=(place / "link",))
    _, output, _ = shell(sandbox, f"cat {place}/link/file {place}/read/file")
    assert output == "readread"


@pytest.mark.parametrize("how", ["link", "parent", "gone"])
def test_a_granted_directory_that_leads_elsewhere_now_gives_nothing(place: Path, how: str) -> None:
    (place / "a" / "b").mkdir(parents=True)
    sandbox = granting(read=(place / "a" / "b",))
    os.rename(place / "a", place / "c")
    if how == "parent":
        (place / "other" / "b").mkdir()
        (place / "a").symlink_to("other")
    elif how == "link":
        (place / "a").mkdir()
        (place / "a" / "b").symlink_to(place / "other")
    with pytest.raises(
        ConnectError, match=r"cannot start.* (leads to another place|no longer exists)"
    ):
        shell(sandbox, f"cat {place}/a/b/file")


def test_a_directory_that_becomes_a_link_in_the_last_moment_is_not_a_mount(place: Path) -> None:
    os.rename(place / "read", place / "gone")
    (place / "read").symlink_to("other")
    with pytest.raises(ConnectError, match="now leads to another place"):
        bubblewrap._opened(str(place / "read"))


def test_there_are_no_other_processes_and_no_capabilities() -> None:
    _, output, _ = shell(
        HELD, "ls /proc | grep -c '^[0-9]'; grep -E 'Cap(Eff|Bnd)' /proc/self/status"
    )
    count, *capabilities = output.splitlines()
    assert int(count) <= 5
    assert {line.split()[1] for line in capabilities} == {"0" * 16}


def test_nothing_of_the_environment_is_on_a_command_line_or_for_bwrap(tmp_path: Path) -> None:
    env = {**ENV, "TOKEN": "hunter2", "LD_PRELOAD": str(tmp_path / "library.so")}
    argv = ["/bin/sh", "-c", "echo $TOKEN"]
    launch, held = confine(HELD, Grants.of(HELD, argv, env, None), argv, env, None)
    for fd in launch.pass_fds:
        os.close(fd)
    assert "hunter2" not in repr((launch.argv, launch.env, held))
    assert not {"TOKEN", "LD_PRELOAD"} & set(launch.env)
    _, output, _ = run(
        HELD, ["/bin/sh", "-c", "echo $TOKEN; tr '\\0' '\\n' </proc/1/environ"], env=env
    )
    assert set(output.splitlines()) <= {"hunter2", "PWD=/"}
    assert output.startswith("hunter2")


@pytest.mark.parametrize("part", ["A", "B"])
def test_a_variable_cannot_bring_options_of_its_own(part: str) -> None:
    pair = {"A\0--bind\0/\0/": "x"} if part == "A" else {"B": "x\0--bind\0/\0/"}
    with pytest.raises(ConnectError, match="cannot contain a NUL"):
        run(HELD, ["/bin/sh", "-c", "true"], env={**ENV, **pair})


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 127", 127),
        ("kill -TERM $$", -15),
        ("kill -KILL $$", -9),
    ],
)
def test_exit_codes_are_those_of_the_server(script: str, code: int) -> None:
    assert shell(HELD, script)[0] == code


def test_what_runs_inside_is_asked_to_end_and_has_the_time_to() -> None:
    script = "trap 'sleep 0.2; echo ended; exit 4' TERM; echo ready; while :; do sleep 0.05; done"
    argv = ["/bin/sh", "-c", script]
    launch, _ = confine(HELD, Grants.of(HELD, argv, ENV, None), argv, ENV, None)
    group = ConfinedGroup(launch)
    with group.start(argv, {}, None, None) as popen:
        try:
            assert popen.stdout is not None
            assert popen.stdout.readline() == b"ready\n"
            group.ask_to_end()
            assert popen.communicate(timeout=30)[0] == b"ended\n"
        finally:
            group.kill()
    assert popen.returncode == 4


def test_a_process_that_no_one_reaps_is_not_a_process_of_the_group() -> None:
    group = ConfinedGroup(Launch(["/bin/true"], {}, "/", (), None))
    with group.start([], {}, None, None) as popen:
        os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOWAIT)
        os.killpg(popen.pid, 0)
        assert group.is_empty()


def test_inherited_descriptors_are_closed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    with open(tmp_path / "secret") as file:
        os.set_inheritable(file.fileno(), True)
        _, output, _ = shell(HELD, "ls /proc/self/fd")
    assert output.split() == ["0", "1", "2", "3"]  # and the directory itself


def test_it_runs_in_its_directory_even_where_that_cannot_be_read(place: Path) -> None:
    _, output, _ = shell(HELD, "pwd; ls; cat file", cwd=place / "other")
    assert output == f"{place}/other\n"


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


CONNECT = """
import socket, sys
kind, address = sys.argv[1:]
try:
    if kind == "tcp":
        socket.create_connection(("127.0.0.1", int(address)), 5)
    else:
        socket.socket(socket.AF_UNIX).connect(chr(0) + address)
    print("connected")
except OSError as error:
    print("refused")
"""


def connects(sandbox: Sandbox, kind: str, address: object) -> bool:
    _, output, errors = run(sandbox, ["/usr/bin/python3", "-c", CONNECT, kind, str(address)])
    assert output, errors
    return output == "connected\n"


def test_the_network_is_as_stated(listener: int) -> None:
    assert not connects(HELD, "tcp", listener)
    assert not connects(Sandbox(network="loopback"), "tcp", listener)
    assert connects(Sandbox(network="all"), "tcp", listener)


@pytest.mark.parametrize(
    ("network", "names"), [("none", ""), ("loopback", "hosts"), ("all", "hosts resolv.conf")]
)
def test_how_names_are_looked_up_is_reported_with_a_network_alone(network: str, names: str) -> None:
    sandbox = Sandbox(network=network)  # type: ignore[arg-type]
    _, output, _ = shell(sandbox, "cd /etc; ls hosts resolv.conf shadow ssl/private 2>/dev/null")
    assert output.split() == [name for name in names.split() if Path("/etc", name).exists()]


@pytest.mark.parametrize("network", ["none", "loopback", "all"])
def test_abstract_sockets_are_out_of_reach(network: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0mcp-client-{os.getpid()}")
        server.listen()
        name = f"mcp-client-{os.getpid()}"
        sandbox = Sandbox(network=network)  # type: ignore[arg-type]
        assert not connects(sandbox, "abstract", name)


def test_a_loopback_of_its_own_works() -> None:
    program = (
        "import socket; server = socket.create_server(('127.0.0.1', 0)); "
        "socket.create_connection(server.getsockname(), 5); print('connected')"
    )
    sandbox = Sandbox(network="loopback")
    assert run(sandbox, ["/usr/bin/python3", "-c", program])[1] == "connected\n"


def test_it_is_lacking_where_the_program_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "PLACES", ("/no/such/bwrap",))
    lack = bubblewrap.why_not(Sandbox()) or ""
    assert "/no/such/bwrap not found" in lack
    assert "install bubblewrap" in lack


@pytest.mark.parametrize(
    ("script", "advice"),
    [
        ("echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1", "AppArmor"),
        ("echo 'bwrap: Unknown option --ro-bind-fd' >&2; exit 1", "install bubblewrap"),
    ],
)
def test_it_is_lacking_where_the_program_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, advice: str
) -> None:
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "PLACES", (str(program),))
    lack = bubblewrap.why_not(Sandbox()) or ""
    assert "fails (bwrap: " in lack
    assert advice in lack


def test_a_program_on_the_path_of_the_server_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho taken\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert run(HELD, ["/bin/sh", "-c", "echo held"], env=path)[1] == "held\n"


@pytest.mark.needs("root")
def test_an_ordinary_user_gets_the_same(place: Path) -> None:
    for directory in (place, *place.parents):
        if directory.owner() == "root" and directory != Path("/"):
            directory.chmod(directory.stat().st_mode | 0o055)
    os.chmod(place / "write", 0o777)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            sandbox = granting(read=(place / "read",), write=(place / "write",))
            script = f"cd {place}; id -u; cat */file; echo x > write/new; echo x > new"
            os.write(write, repr(shell(sandbox, script)).encode())
        except BaseException as error:
            os.write(write, repr(error).encode())
        os._exit(0)
    os.close(write)
    with open(read) as file:
        reported = file.read()
    os.waitpid(child, 0)
    assert "65534\\nreadwrite'" in reported, reported
    assert "cannot create new" in reported
    assert (place / "write" / "new").exists()


CONNECT_BY_PATH = """
import socket, sys
for make in (lambda: socket.socket(socket.AF_UNIX), lambda: socket.socketpair(type=2)[0]):
    try:
        one = make()
        one.connect(sys.argv[1])
        print("connected")
    except OSError:
        print("refused")
print(socket.socketpair()[0].fileno() > 0)
"""


@pytest.mark.parametrize("network", ["none", "loopback"])
@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_unix_socket_in_what_can_be_read_is_out_of_reach_without_a_network(
    place: Path, network: str, kind: socket.SocketKind
) -> None:
    with socket.socket(socket.AF_UNIX, kind) as server:
        server.bind(str(place / "read" / "s"))
        if kind is socket.SOCK_STREAM:
            server.listen()
        sandbox = Sandbox(read=[place / "read"], network=network)  # type: ignore[arg-type]
        argv = ["/usr/bin/python3", "-c", CONNECT_BY_PATH, f"{place}/read/s"]
        lines = run(sandbox, argv)[1].split()
    assert lines[-1] == "True"
    assert ("connected" in lines) is (network != "none")


def test_a_directory_above_one_that_cannot_be_written_cannot_be_replaced(place: Path) -> None:
    (place / "write" / "sub" / "rules").mkdir(parents=True)
    (place / "write" / "sub" / "rules" / "one").write_text("kept")
    sandbox = granting(write=(place / "write",), read=(place / "write" / "sub" / "rules",))
    script = (
        f"cd {place}/write; mv sub other; mv sub/rules sub/r; rm -r sub; mkdir -p sub/rules; "
        "echo changed > sub/rules/one; echo new > sub/two; echo new > three"
    )
    shell(sandbox, script)
    assert (place / "write" / "sub" / "rules" / "one").read_text() == "kept"
    assert (place / "write" / "sub" / "two").read_text() == "new\n"
    assert (place / "write" / "three").read_text() == "new\n"


@pytest.mark.needs("root")
def test_the_mode_of_the_machines_devices_cannot_be_changed() -> None:
    before = {path: os.stat(path).st_mode for path in DEVICES}
    code, output, errors = shell(
        HELD, f"chmod 600 {' '.join(DEVICES)}; echo x > /dev/null && echo ok"
    )
    try:
        assert {path: os.stat(path).st_mode for path in DEVICES} == before
    finally:
        for path, mode in before.items():
            os.chmod(path, mode)
    assert (code, output) == (0, "ok\n"), errors


def test_only_the_processes_of_a_server_are_looked_at_when_it_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[str] = []

    def noted(path: str, mode: str) -> Any:
        looked_at.append(path)
        return open(path, mode)

    monkeypatch.setattr(confined_group, "open", noted, raising=False)
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        assert list(confined_group._living(process.pid)) == [process.pid]
        assert looked_at == [f"/proc/{process.pid}/stat"]
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert list(confined_group._living(process.pid)) == []
    finally:
        process.kill()
        process.wait()
