"""What is promised of a sandbox is tried from inside: see ``probes.py``, which prints the table."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import pytest

from tests.programs import IN_CI, missing, need
from tests.sandbox import probes
from tests.sandbox.client import SETTINGS, Report
from tests.sandbox.probes import ENGINES, FAULTS, About

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the probes are for Linux"),
    pytest.mark.one_backend,
]
UP_TO_THE_MACHINE = {
    *("read_disk", "make_device", "kernel_log", "kernel_log_by_call", "watch_by_perf", "bpf"),
    *("vsock", "io_uring", "userfaultfd", "socket_by_32_bit_call", "unix_socket_by_32_bit_call"),
    *("mount_in_new_user_namespace", "ptrace", "process_vm_readv", "memory_of_process"),
    *("tcp_to_other_address", "tcp_over_ipv6", "tcp_fast_open", "udp_to_other_address"),
    *("pidfd_getfd", "kcmp", "change_mode_by_descriptor", "names_of_interfaces", "write_sys"),
    *("node_tcp_over_ipv6", "node_tcp_to_other_address", "type_on_terminal", "setuid_program"),
}
"""Its kernel and its own bounds may refuse these to everybody, as in a container."""
CASES = [
    pytest.param(language, user, engine, marks=() if user == "ordinary" else pytest.mark.slow)
    for language in probes.LANGUAGES
    for user in probes.users()
    for engine in ENGINES
]


def attempts(
    language: str, user: str, engines: Sequence[str], settings: Sequence[str]
) -> tuple[Mapping[str, About], list[Report]]:
    trials = probes.trials_of(user, engines, settings, [language])
    if not trials:
        missing("Node" if language == "node" else "a Python that every user can run")
    return probes.catalogue(language, trials[0].command[0]), probes.run(user, trials)


@pytest.mark.slow
@pytest.mark.parametrize("user", probes.users())
@pytest.mark.parametrize("language", probes.LANGUAGES)
def test_each_probe_gets_what_it_wants_without_a_sandbox(language: str, user: str) -> None:
    catalogue, (report,) = attempts(language, user, ["none"], [])
    unable = {
        name: outcome
        for name, outcome in report.outcomes.items()
        if catalogue[name].possible(user) and not outcome.startswith("open")
    }
    assert not unable.keys() - UP_TO_THE_MACHINE, unable


@pytest.mark.slow
@pytest.mark.parametrize(("language", "user", "engine"), CASES)
def test_no_probe_gets_out_of_a_sandbox(language: str, user: str, engine: str) -> None:
    need(engine)
    settings = ["default"]
    faults_are_none(language, user, engine, settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "user", "engine"),
    [case for case in CASES if case.values[:2] != ("node", "root")],
)
def test_a_grant_gives_what_was_asked_for_and_no_more(
    language: str, user: str, engine: str
) -> None:
    need(engine)
    faults_are_none(language, user, engine, [each for each in SETTINGS if each != "default"])


def faults_are_none(language: str, user: str, engine: str, settings: Sequence[str]) -> None:
    catalogue, reports = attempts(language, user, [engine], settings)
    for report in reports:
        if not IN_CI and "cannot start the server in a sandbox" in str(report.problem):
            continue
        assert report.problem is None
        assert not report.left
        verdicts = {name: catalogue[name].verdict(name, report) for name in report.outcomes}
        faults = {
            name: f"{report.setting}: {report.outcomes[name]}"
            for name, verdict in verdicts.items()
            if verdict in FAULTS
        }
        assert not faults
