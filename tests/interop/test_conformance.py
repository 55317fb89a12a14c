"""The official conformance suite, in its strict mode: one scenario a run, the exit code counted."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import mcp_client
from tests.interop import peers

if not hasattr(mcp_client, "HttpServer"):
    pytest.skip(
        "the conformance suite speaks HTTP only, and mcp_client has no HTTP transport yet",
        allow_module_level=True,
    )

pytestmark = pytest.mark.interop

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 300

SCENARIOS = [
    ("initialize", "2025-06-18"),
    ("initialize", "2025-11-25"),
    ("tools_call", "2025-06-18"),
    ("tools_call", "2025-11-25"),
    ("tools_call", "2026-07-28"),
    ("sse-retry", "2025-11-25"),
    ("request-metadata", "2026-07-28"),
    ("http-standard-headers", "2026-07-28"),
    ("http-custom-headers", "2026-07-28"),
    ("http-invalid-tool-headers", "2026-07-28"),
    ("elicitation-sep1034-client-defaults", "2025-11-25"),
    ("sep-2322-client-request-state", "2026-07-28"),
    ("json-schema-ref-no-deref", "2026-07-28"),
    ("json-schema-2020-12-preservation", "2025-11-25"),
    ("json-schema-2020-12-preservation", "2026-07-28"),
    *(
        (f"sep-2640-client-{name}", revision)
        for name in ("no-prefetch", "verify-digest", "verify-size", "verify-frontmatter")
        for revision in ("2025-11-25", "2026-07-28")
    ),
]

_IN_BOTH = [
    "metadata-default",
    "metadata-var1",
    "metadata-var2",
    "metadata-var3",
    "basic-cimd",
    "scope-from-www-authenticate",
    "scope-from-scopes-supported",
    "scope-omitted-when-undefined",
    "scope-step-up",
    "scope-retry-limit",
    "pre-registration",
    "client-credentials-basic",
    "client-credentials-jwt",
    "enterprise-managed-authorization",
    "wif-jwt-bearer",
    "dpop",
    "dpop-nonce",
]
_IN_THREE = [
    "token-endpoint-auth-basic",
    "token-endpoint-auth-post",
    "token-endpoint-auth-none",
]
_IN_THE_NEWEST = [
    "resource-mismatch",
    "offline-access-scope",
    "offline-access-not-supported",
    "authorization-server-migration",
    "iss-supported",
    "iss-not-advertised",
    "iss-supported-missing",
    "iss-wrong-issuer",
    "iss-unexpected",
    "iss-normalized",
    "metadata-issuer-mismatch",
]
_OLD = ["2025-03-26-oauth-metadata-backcompat", "2025-03-26-oauth-endpoint-fallback"]

SCENARIOS += [
    (f"auth/{name}", revision)
    for names, revisions in [
        (_IN_BOTH, ["2025-11-25", "2026-07-28"]),
        (_IN_THREE, ["2025-06-18", "2025-11-25", "2026-07-28"]),
        (_IN_THE_NEWEST, ["2026-07-28"]),
        (_OLD, ["2025-03-26", "2025-11-25"]),
    ]
    for name in names
    for revision in revisions
]


@pytest.mark.parametrize(("scenario", "revision"), SCENARIOS)
def test_the_official_suite_finds_no_fault(scenario: str, revision: str) -> None:
    command = shlex.join([sys.executable, "tests/interop/conformance_client.py"])
    words = ["client", "--scenario", scenario, "--spec-version", revision, "--force"]
    done = subprocess.run(
        [*peers.conformance(), *words, "--command", command],
        cwd=ROOT,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]


def _environment() -> dict[str, str]:
    """The suite's own Node first on PATH, and no proxy between it and us."""
    path = os.pathsep.join([str(peers.node().parent), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "NO_PROXY": "localhost,127.0.0.1"}
