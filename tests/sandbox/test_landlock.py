"""What Landlock and the filter of system calls hold, tried from inside, as root and as another."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_client import ConnectError, Sandbox
from mcp_client.sandbox.confined_group import ConfinedGroup
from mcp_client.sandbox.engine import Confined, confine
from tests.programs import missing, need
from tests.sandbox.confined import run

if sys.platform != "linux":
    pytest.skip("Landlock is of Linux", allow_module_level=True)

from mcp_client.sandbox import landlock, seccomp

pytestmark = pytest.mark.one_backend

ROOT = Path(__file__).parents[2]
HOST = Path(__file__).parent / "landlock_host.py"
ORDINARY = 65534
PRELUDE = """
import ctypes, errno, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def tried(name, action):
    try:
        told = action()
        print(name, "did:", repr(told), flush=True)
    except OSError as error:
        print(name, errno.errorcode[error.errno], flush=True)
def called(number, *arguments):
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    if libc.syscall(ctypes.c_long(number), *given) < 0:
        raise OSError(ctypes.get_errno(), "")
"""


OTHER_CALLS = """
    rt_sigqueueinfo 129 138 ptrace 101 117 process_vm_readv 310 270 pidfd_getfd 438 438 clone 56 220
"""


@pytest.fixture(scope="module", autouse=True)
def there_is_landlock() -> None:
    need("Landlock")


@pytest.fixture(params=["root", "ordinary"])
def user(request: pytest.FixtureRequest) -> int:
    if request.param == "ordinary":
        return os.getuid() or ORDINARY
    need("root")
    return 0


def _number(name: str) -> int:
    """Of a system call on this machine."""
    tables = f"{seccomp._FORBIDDEN} {seccomp._OF_THE_KERNEL} {OTHER_CALLS}".split()
    return int(tables[tables.index(name) + 1 + ["x86_64", "aarch64"].index(os.uname().machine)])


class Host:
    """Starts programs in sandboxes as ``user``."""

    def __init__(self, user: int, folder: Path) -> None:
        self.user, self.folder = user, folder
        self._as_user: dict[str, Any] = {}
        if user != os.getuid():
            self._as_user = {"user": user, "group": user, "extra_groups": []}
        self.owned()
        self.python = self._usable_python()

    def owned(self) -> None:
        """The folder and all in it belong to the user."""
        for each in (self.folder, *self.folder.rglob("*")):
            os.chown(each, self.user, self.user, follow_symlinks=False)

    def _usable_python(self) -> str:
        for python in (os.path.realpath(sys.executable), "/usr/bin/python3"):
            try:
                if not self._run(python, "-c", "import mcp_client.sandbox.landlock").returncode:
                    return python
            except OSError:
                continue
        return missing("a Python that every user can run", "or this user may not read this project")

    def _run(self, *argv: str, given: str = "") -> subprocess.CompletedProcess[str]:
        environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
        options = {"cwd": "/", "env": environment, **self._as_user}
        return subprocess.run(
            argv, input=given, capture_output=True, text=True, timeout=50, **options
        )

    def start(
        self, *argv: str, env: dict[str, str] | None = None, dies: bool = False, **sandbox: Any
    ) -> dict[str, Any]:
        request = {
            "argv": argv,
            "env": env or {"PATH": "/usr/bin:/bin"},
            "made_of": [] if self.python.startswith("/usr/") else [sys.base_prefix],
            "sandbox": sandbox,
            "dies": dies,
        }
        ran = self._run(self.python, str(HOST), given=json.dumps(request))
        assert dies or not ran.returncode, ran.stderr
        answer: dict[str, Any] = json.loads(ran.stdout)
        return answer

    def probe(self, program: str, **sandbox: Any) -> dict[str, str]:
        """What each ``tried`` of the program said."""
        answer = self.start(self.python, "-c", PRELUDE + textwrap.dedent(program), **sandbox)
        assert answer.get("code") == 0, answer
        return dict(line.split(" ", 1) for line in answer["out"].splitlines())


@pytest.fixture
def host(user: int) -> Iterator[Host]:
    # Not in pytest's folder, which is root's alone.
    with tempfile.TemporaryDirectory(prefix="landlock-", dir="/tmp") as folder:
        yield Host(user, Path(folder))


@pytest.mark.slow
def test_reads_what_is_granted_and_what_the_system_is_made_of(host: Host) -> None:
    told = host.probe(
        f"""
        tried("granted", lambda: open("{HOST}").readline())
        tried("system", lambda: len(os.listdir("/usr/bin")) > 9)
        tried("names", lambda: open("/etc/passwd").readline() != "")
        tried("certificates", lambda: len(os.listdir("/etc/ssl/certs")) >= 0)
        tried("random", lambda: len(open("/dev/urandom", "rb").read(4)))
        """,
        read=[str(HOST)],
    )
    assert all(each.startswith("did:") for each in told.values()), told


@pytest.mark.slow
def test_reads_nothing_else(host: Host) -> None:
    (host.folder / "secret").write_text("x")
    (host.folder / "granted").mkdir()
    (host.folder / "granted" / "link").symlink_to("../secret")
    host.owned()
    told = host.probe(
        f"""
        folder = "{host.folder}"
        tried("beside", lambda: open(folder + "/secret").read())
        tried("link", lambda: open(folder + "/granted/link").read())
        tried("list", lambda: os.listdir(folder))
        tried("home", lambda: os.listdir("/root"))
        tried("homes", lambda: os.listdir("/home"))
        tried("top", lambda: os.listdir("/"))
        tried("tmp", lambda: os.listdir("/tmp"))
        tried("shadow", lambda: open("/etc/shadow").read())
        tried("etc", lambda: os.listdir("/etc"))
        tried("run", lambda: os.listdir("/run"))
        tried("shm", lambda: os.listdir("/dev/shm"))
        tried("processes", lambda: os.listdir("/proc"))
        tried("environment", lambda: open("/proc/1/environ").read())
        tried("own", lambda: open("/proc/self/environ").read())
        tried("memory", lambda: open(f"/proc/{{os.getppid()}}/mem", "rb").read(1))
        tried("disk", lambda: open("/dev/vda", "rb").read(1) if os.path.exists("/dev/vda")
              else open("/dev/mem", "rb"))
        tried("terminal", lambda: open("/dev/tty").read())
        tried("attributes", lambda: os.listxattr(folder + "/secret"))
        tried("watch", lambda: called({_number("inotify_add_watch")}, libc.inotify_init(),
              folder.encode(), 0xFFF))
        """,
        read=[str(host.folder / "granted")],
    )
    assert told.pop("attributes") == "ENOTSUP"
    assert told.pop("watch") == "EPERM"
    assert told.pop("terminal") in ("EACCES", "ENXIO")
    assert told.pop("disk") in ("EACCES", "ENOENT")
    assert set(told.values()) == {"EACCES"}, told


@pytest.mark.slow
def test_writes_what_is_granted_and_its_own_folder(host: Host) -> None:
    told = host.probe(
        f"""
        def use(folder):
            os.makedirs(folder + "/a/b")
            with open(folder + "/a/b/file", "w") as file: file.write("text")
            os.link(folder + "/a/b/file", folder + "/a/link")
            os.symlink("file", folder + "/a/b/symlink")
            os.rename(folder + "/a/b/file", folder + "/file")
            os.truncate(folder + "/file", 2)
            os.mkfifo(folder + "/fifo")
            os.remove(folder + "/a/link")
            return open(folder + "/file").read()
        tried("granted", lambda: use("{host.folder}"))
        tried("home", lambda: use(os.environ["HOME"]))
        tried("same", lambda: os.environ["HOME"] == os.environ["TMPDIR"])
        tried("between", lambda: os.rename(os.environ["HOME"] + "/file", "{host.folder}/moved"))
        tried("null", lambda: open("/dev/null", "w").write("x"))
        """,
        write=[str(host.folder)],
    )
    expected = {"granted": "'te'", "home": "'te'", "same": "True", "between": "None", "null": "1"}
    assert told == {name: f"did: {value}" for name, value in expected.items()}
    assert (host.folder / "moved").exists()


@pytest.mark.slow
def test_changes_nothing_else(host: Host) -> None:
    (host.folder / "read").mkdir()
    (host.folder / "read" / "file").write_text("x")
    (host.folder / "write").mkdir()
    (host.folder / "write" / "to_file").symlink_to("../read/file")
    host.owned()
    before = os.stat(host.folder / "read" / "file")
    told = host.probe(
        f"""
        read, write, file = (f"{host.folder}/{{x}}" for x in ("read", "write", "read/file"))
        opened = os.open(file, os.O_RDONLY)
        tried("write", lambda: open(file, "w"))
        tried("append", lambda: open(file, "a"))
        tried("through", lambda: open(write + "/to_file", "w"))
        tried("truncate", lambda: os.truncate(file, 0))
        tried("create", lambda: open(read + "/new", "w"))
        tried("folder", lambda: os.mkdir(read + "/new"))
        tried("link", lambda: os.symlink("x", read + "/new"))
        tried("remove", lambda: os.remove(file))
        tried("out", lambda: os.rename(file, write + "/file"))
        tried("in", lambda: os.rename(write + "/to_file", read + "/in"))
        tried("hard", lambda: os.link(file, write + "/hard"))
        tried("tmp", lambda: open("/tmp/" + os.urandom(8).hex(), "w"))
        tried("shm", lambda: open("/dev/shm/" + os.urandom(8).hex(), "w"))
        tried("var", lambda: open("/var/tmp/" + os.urandom(8).hex(), "w"))
        tried("mode", lambda: os.chmod(file, 0o777))
        tried("opened_mode", lambda: os.fchmod(opened, 0o777))
        tried("new_mode", lambda: called(452, -100, file.encode(), 0o777, 0))
        tried("owner", lambda: os.chown(file, 1, 1))
        tried("times", lambda: os.utime(file, (1, 1)))
        tried("opened_times", lambda: os.utime(opened, (1, 1)))
        tried("attribute", lambda: os.setxattr(file, "user.x", b"x"))
        tried("opened_attribute", lambda: os.setxattr(opened, "user.x", b"x"))
        import fcntl
        tried("flags", lambda: fcntl.ioctl(opened, 0x40086602, b"\\0" * 8))
        """,
        read=[str(host.folder / "read")],
        write=[str(host.folder / "write")],
    )
    did = {name: said for name, said in told.items() if said.startswith("did")}
    assert not did
    assert len(told) == 23
    after = os.stat(host.folder / "read" / "file")
    assert [before.st_mode, before.st_mtime_ns, before.st_size, before.st_uid] == [
        after.st_mode, after.st_mtime_ns, after.st_size, after.st_uid
    ]  # fmt: skip
    assert os.listdir(host.folder / "read") == ["file"]


SOCKETS = """
def connected(*address):
    with socket.create_connection(address, 2): pass
def sent(family, kind, address):
    with socket.socket(family, kind) as one: one.sendto(b"x", address)
def reached(address):
    with socket.socket(socket.AF_UNIX) as one: one.connect(address)
def own():
    with socket.create_server(("127.0.0.1", 0)) as one: connected(*one.getsockname())
tried("tcp", lambda: connected("127.0.0.1", {tcp}))
tried("udp", lambda: sent(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", {udp})))
tried("own", own)
tried("unix", lambda: reached("{path}"))
tried("abstract", lambda: reached("\\0{abstract}"))
tried("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
tried("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM))
tried("vsock", lambda: socket.socket(socket.AF_VSOCK))
tried("crypto", lambda: socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET))
tried("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9))
tried("pair", lambda: [one.close() for one in socket.socketpair()])
tried("datagrams", lambda: socket.socketpair(type=socket.SOCK_DGRAM))
"""


@pytest.mark.slow
@pytest.mark.parametrize("network", ["none", "loopback", "all"])
def test_reaches_the_sockets_that_network_says(host: Host, network: str) -> None:
    if lack := landlock.ENGINE.lacking(Sandbox(network=network)):  # type: ignore[arg-type]
        missing("Landlock", lack)
    abstract = os.urandom(8).hex()
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(type=socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket(socket.AF_UNIX) as hidden,
    ):
        udp.bind(("127.0.0.1", 0))
        unix.bind(str(host.folder / "socket"))
        unix.listen()
        os.chmod(host.folder / "socket", 0o777)
        hidden.bind(f"\0{abstract}")
        hidden.listen()
        told = host.probe(
            SOCKETS.format(
                tcp=tcp.getsockname()[1],
                udp=udp.getsockname()[1],
                path=host.folder / "socket",
                abstract=abstract,
            ),
            network=network,
            write=[str(host.folder)],
        )
        udp.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            assert (udp.recv(9) == b"x") == (network == "all")
    expected = dict.fromkeys(told, "EACCES") | {"pair": "did: [None, None]"}
    if network == "loopback":
        expected |= {"tcp": "ECONNREFUSED", "udp": "did: None", "own": "did: None"}
    elif network == "all":
        expected |= {"tcp": "did: None", "udp": "did: None", "own": "did: None"}
    assert told == expected


@pytest.mark.slow
def test_has_no_power_over_other_processes(host: Host) -> None:
    told = host.probe(
        f"""
        import resource, signal
        other = os.getppid()
        tried("kill", lambda: os.kill(other, 9))
        tried("first", lambda: os.kill(1, 0))
        tried("group", lambda: os.killpg(os.getpgid(other), 9))
        tried("queue", lambda: called({_number("rt_sigqueueinfo")}, other, 9,
              (ctypes.c_int32 * 32)(9, 0, -1)))
        tried("descriptor", lambda: signal.pidfd_send_signal(os.pidfd_open(other), 9))
        tried("trace", lambda: called({_number("ptrace")}, 16, other, 0, 0))
        tried("memory", lambda: called({_number("process_vm_readv")}, other,
              (ctypes.c_uint64 * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8), 1,
              (ctypes.c_uint64 * 2)(4096, 8), 1, 0))
        tried("take", lambda: called({_number("pidfd_getfd")}, os.pidfd_open(other), 0, 0))
        tried("limit", lambda: resource.prlimit(other, resource.RLIMIT_CPU, (1, 1)))
        tried("processor", lambda: os.sched_setaffinity(other, {{0}}))
        tried("scheduler", lambda: os.sched_setscheduler(other, 0, os.sched_param(0)))
        tried("priority", lambda: os.setpriority(os.PRIO_PROCESS, other, 5))
        tried("priorities", lambda: os.setpriority(os.PRIO_USER, 0, 5))
        tried("shared", lambda: called({_number("shmget")}, 0, 4096, 0o1777))
        tried("semaphore", lambda: called({_number("semget")}, 0, 1, 0o1777))
        tried("messages", lambda: called({_number("msgget")}, 0, 0o1777))
        tried("queue_by_name", lambda: called({_number("mq_open")}, b"x", 66, 0o600, 0))
        tried("keys", lambda: called({_number("keyctl")}, 0, -3, 0))
        os.setpriority(os.PRIO_PROCESS, 0, 19)
        resource.prlimit(0, resource.RLIMIT_CPU)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.kill(-1, signal.SIGTERM)
        """
    )
    assert set(told.values()) == {"EPERM"}, told
    assert len(told) == 18


@pytest.mark.slow
def test_has_no_privileges_and_gets_none(host: Host) -> None:
    told = host.probe(
        f"""
        held = (ctypes.c_uint32 * 6)()
        assert libc.capget((ctypes.c_uint32 * 2)(0x20080522, 0), held) == 0
        tried("capabilities", lambda: sum(held))
        tried("bounds", lambda: sum(libc.prctl(23, each, 0, 0, 0) for each in range(40)))
        tried("forgone", lambda: libc.prctl(39, 0, 0, 0, 0))
        tried("user", lambda: called({_number("unshare")}, 0x10000000))
        tried("fork", lambda: called({_number("clone")}, 0x10000011, 0, 0, 0, 0))
        tried("new_fork", lambda: called(435, (ctypes.c_uint64 * 8)(0x10000000), 64))
        tried("mount", lambda: called({_number("mount")}, b"x", b"/usr", b"tmpfs", 0, 0))
        tried("enter", lambda: called({_number("setns")}, 0, 0))
        tried("root", lambda: os.chroot("/usr"))
        tried("program", lambda: called({_number("bpf")}, 0, 0, 0))
        tried("ring", lambda: called(425, 1, 0))
        tried("counter", lambda: called({_number("perf_event_open")}, 0, 0, -1, -1, 0))
        tried("log", lambda: called({_number("syslog")}, 3, 0, 0))
        tried("unknown", lambda: called(470, 0))
        tried("device", lambda: os.mknod(os.environ["HOME"] + "/d", 0o020666, 1 << 8 | 1))
        tried("other_user", lambda: os.setuid(12345))
        """
    )
    assert told.pop("capabilities") == "did: 0"
    assert told.pop("bounds") == ("did: 0" if not host.user else "did: 40") or host.user
    assert told.pop("forgone") == "did: 1"
    assert told.pop("new_fork") == told.pop("unknown") == "ENOSYS"
    assert set(told.values()) == {"EPERM"}, told


@pytest.mark.slow
def test_inherits_its_three_streams_alone(host: Host) -> None:
    told = host.probe(
        """
        def opened():
            kept = []
            for fd in range(1000):
                try: os.fstat(fd)
                except OSError: continue
                kept.append(fd)
            return kept
        tried("descriptors", opened)
        tried("environment", lambda: sorted(set(os.environ) - {"LC_CTYPE"}))
        """
    )
    assert told == {
        "descriptors": "did: [0, 1, 2]",
        "environment": "did: ['HOME', 'PATH', 'TMPDIR']",
    }


DAEMONS = """
import os, signal, sys, time
reading, writing = os.pipe()
for each in range(3):
    if not os.fork():
        os.setsid()
        if os.fork(): os._exit(0)
        for number in range(1, 32):
            if number not in (9, 19): signal.signal(number, signal.SIG_IGN)
        print(os.getpid(), flush=True)
        os.close(1); os.close(2); os.close(writing)
        time.sleep(60)
os.close(writing)
os.read(reading, 1)  # which ends when each has told its number
for each in range(3): os.wait()
"""


@pytest.mark.slow
def test_leaves_no_process_when_it_ends(host: Host) -> None:
    answer = host.start(host.python, "-c", DAEMONS)
    started = answer["out"].split()
    assert len(started) == 3
    assert answer["empty"]
    assert not any(_runs(int(each)) for each in started)
    assert not answer["folder_is_left"]


def test_ends_with_its_host_however_that_ends(host: Host) -> None:
    answer = host.start(
        host.python,
        "-c",
        "import os, time; children = [os.fork(), os.getpid()]\n"
        "if children[0]: print(*children, flush=True)\n"
        "else: os.setsid()\n"
        "time.sleep(60)",
        dies=True,
    )
    started = [int(each) for each in answer["out"].split()]
    assert len(started) == 2
    until = time.monotonic() + 20
    while any(map(_runs, started)):
        assert time.monotonic() < until
        time.sleep(0.01)
    while os.path.exists(answer["folder"]):
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.slow
def test_exit_codes_signals_and_streams_are_the_programs_own(host: Host) -> None:
    shell = "/usr/bin/sh"
    answer = host.start(shell, "-c", "echo out; echo err >&2; exit 7")
    assert (answer["code"], answer["out"], answer["err"]) == (7, "out\n", "err\n")
    assert host.start(shell, "-c", "kill -SEGV $$")["code"] == -11
    assert host.start(shell, "-c", "kill -PIPE $$")["code"] == -13  # which Python ignores


def test_the_servers_environment_is_neither_on_the_command_line_nor_the_launchers(
    host: Host,
) -> None:
    env = {"PATH": "/usr/bin", "LD_PRELOAD": "/no/such.so", "KEY": "s3cret"}
    answer = host.start("/usr/bin/sh", "-c", "echo $KEY", env=env)
    assert answer["out"] == "s3cret\n"
    assert "s3cret" not in "".join(answer["command"])
    assert not set(answer["env"]) & set(env)


def test_a_program_that_cannot_be_run_is_named(host: Host) -> None:
    program = host.folder / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    host.owned()
    answer = host.start(str(program))
    assert answer["code"] == 125
    assert answer["err"].startswith(
        f"mcp-client: the server was not started: cannot run '{program}'"
    )


def test_a_script_finds_the_modules_beside_it_and_reads_no_other_file_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "beside.py").write_text("word = 'found'")
    (tmp_path / ".env").write_text("KEY=secret")
    (tmp_path / "server.py").write_text(
        "import beside, pathlib\nprint(beside.word)\npathlib.Path('.env').read_text()"
    )
    sandbox = Sandbox(engine="landlock")
    argv = [sys.executable, str(tmp_path / "server.py")]
    code, out, err = run(sandbox, argv, cwd=tmp_path)
    assert (code, out) == (1, "found\n")
    assert "PermissionError" in err
    launch, held = confine(sandbox, argv, {}, None)
    ConfinedGroup(launch).close()
    for fd in launch.pass_fds:
        os.close(fd)
    told = "\n".join(held.sentences)
    assert re.search(f"can see the names of all files below .*{tmp_path}", told)
    assert "its size" in told


# ------------------------------------------------------------------- before anything is started


def test_a_home_folder_is_not_listed_for_a_script_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "server.py").write_text("")
    with pytest.raises(ConnectError, match="move the script to a folder of its own"):
        confine(Sandbox(engine="landlock"), [sys.executable, str(tmp_path / "server.py")], {}, None)


def test_what_became_a_link_after_it_was_granted_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "granted").mkdir()
    (tmp_path / "other").mkdir()
    sandbox = Sandbox(write=[tmp_path / "granted"])
    (tmp_path / "granted").rmdir()
    (tmp_path / "granted").symlink_to("other")
    launch = landlock.ENGINE.confine(Confined(["/usr/bin/true"], {}, "/", sandbox))
    tree = ConfinedGroup(launch)
    popen = tree.start([], {}, None, None)
    _, err = popen.communicate(timeout=30)
    tree.close()
    assert popen.returncode == 125
    assert f"cannot grant '{tmp_path}/granted'".encode() in err


def test_what_is_readable_alone_cannot_be_kept_so_inside_what_can_be_written(
    tmp_path: Path,
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "ab").mkdir()
    a, b, ab = (str(tmp_path / name) for name in ("a", "a/b", "ab"))
    assert "cannot keep" in str(landlock.ENGINE.lacking(Sandbox(read=[b], write=[a])))
    for held in (Sandbox(read=[a], write=[b]), Sandbox(read=[ab], write=[a]),
                 Sandbox(read=[a], write=[a]), Sandbox(read=[b], write=[a, b])):  # fmt: skip
        assert landlock.ENGINE.lacking(held) is None


def test_a_server_that_could_change_the_launcher_is_not_started(tmp_path: Path) -> None:
    package = ROOT / "mcp_client"
    for write in (ROOT, package / "sandbox", Path(os.__file__).parent / "ctypes",
                  Path(sys.executable).parent):  # fmt: skip
        lack = landlock.ENGINE.lacking(Sandbox(write=[write]))
        assert "could change what confines it" in str(lack)
    for write in (tmp_path, package / "cli"):
        assert landlock.ENGINE.lacking(Sandbox(write=[write])) is None


@pytest.mark.parametrize(
    ("abi", "message"), [(-1, "does not have it"), (1, "ABI 1"), (5, "Linux 6.12 or newer")]
)
def test_a_kernel_that_confines_less_is_named(
    monkeypatch: pytest.MonkeyPatch, abi: int, message: str
) -> None:
    class Kernel:
        def syscall(self, *arguments: object) -> int:
            return abi

    landlock.lacking_here.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Kernel())
    lack = landlock.ENGINE.lacking(Sandbox())
    landlock.lacking_here.cache_clear()
    assert message in str(lack)


@pytest.mark.parametrize("missing", ["machine", "interpreter"])
def test_another_machine_and_a_program_without_an_interpreter_are_named(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    landlock.lacking_here.cache_clear()
    if missing == "machine":
        monkeypatch.setattr(landlock, "machine", lambda: None)
    else:
        monkeypatch.setattr(sys, "executable", "")
    lack = landlock.ENGINE.lacking(Sandbox())
    landlock.lacking_here.cache_clear()
    assert ("x86_64" if missing == "machine" else "sys.executable") in str(lack)


def test_a_system_that_gives_no_network_of_its_own_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "launcher.py").write_text(
        "import os; os.write(2, b'mcp-client: cannot get a network: no permission'); os._exit(125)"
    )
    monkeypatch.setattr(landlock, "_LAUNCHER", str(tmp_path / "launcher.py"))
    landlock._lacking_network.cache_clear()
    lack = landlock.ENGINE.lacking(Sandbox(network="loopback"))
    landlock._lacking_network.cache_clear()
    assert "no permission)" in str(lack)
    assert "install bubblewrap" in str(lack)


def _runs(pid: int) -> bool:
    try:
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
