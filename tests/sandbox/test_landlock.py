"""What Landlock and the filter of system calls hold, tried from inside, as root and as another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from mcp_client import Sandbox

if sys.platform != "linux":
    pytest.skip("Landlock is of Linux", allow_module_level=True)

from mcp_client.sandbox import landlock

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


@pytest.fixture(scope="module", autouse=True)
def there_is_landlock() -> None:
    lack = landlock.ENGINE.lacking(Sandbox())
    if lack is not None:
        if "CI" in os.environ:
            pytest.fail(f"Landlock has to be there in CI: {lack}")
        pytest.skip(f"no sandbox by Landlock here: {lack}")


@pytest.fixture(params=["root", "ordinary"])
def user(request: pytest.FixtureRequest) -> int:
    if request.param == "ordinary":
        return os.getuid() or ORDINARY
    if os.getuid():
        pytest.skip("only root can be root")
    return 0


class Host:
    """Starts programs in sandboxes as ``user``."""

    def __init__(self, user: int, folder: Path) -> None:
        self.folder = folder
        self._as_user: dict[str, Any] = {}
        if user != os.getuid():
            self._as_user = {"user": user, "group": user, "extra_groups": []}
            for each in (folder, *folder.rglob("*")):
                os.chown(each, user, user, follow_symlinks=False)
        self.python = self._usable_python()

    def _usable_python(self) -> str:
        for python in (os.path.realpath(sys.executable), "/usr/bin/python3"):
            try:
                if not self._run(python, "-c", "import mcp_client.sandbox.landlock").returncode:
                    return python
            except OSError:
                continue
        pytest.skip("this user can run no Python of ours, or not read this project")

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
def host(user: int, tmp_path: Path) -> Host:
    for above in tmp_path.parents[:3]:
        if os.stat(above).st_uid == os.getuid() and above != Path("/tmp"):
            above.chmod(0o755)
    return Host(user, tmp_path)


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
