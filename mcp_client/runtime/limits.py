"""The time limits of a call, the size limits on what a server may send, and what both defend.

Every wait and every size is limited, finite by default, by one field each. **What is defended**, by
the field that is the limit, its default, and a test under ``tests/`` that shows it::

    Timeouts.connect                30 s        hostile/test_negotiation.py::test_a_server_that_answers_nothing_ends_with_the_connect_clock
    Timeouts.idle                   60 s        hostile/test_http.py::test_comments_without_end_are_stopped_by_the_clock
    Timeouts.total                  600 s       connection/test_deadlines.py::test_silence_ends_a_request_and_progress_extends_it_for_a_bounded_time
    Timeouts.approval               3,600 s     hostile/test_questions.py::test_a_hanging_handler_is_given_up_after_the_approval_timeout
    Timeouts.close                  2 s         hostile/test_process.py::test_a_server_that_ignores_sigterm_is_killed_within_the_bound
    Timeouts.validation             1 s         session/test_validated_calls.py::test_a_runaway_pattern_ends_with_its_budget_and_the_result_is_kept
    Timeouts.ping                   None        connection/test_keep_alive.py::test_a_missed_one_is_logged_ends_the_calls_and_connects_again
    Timeouts.script                 300 s       code/test_bounds.py::test_a_script_that_computes_or_waits_for_too_long_ends_there
    Limits.message_bytes            32 MiB      hostile/test_frames.py::test_an_answer_that_is_too_long_fails_its_call_and_no_other
    Limits.depth                    128         hostile/test_http.py::test_a_deep_answer_is_refused_before_it_is_parsed
    Limits.pages                    1,000       catalog/test_tools.py::test_an_incomplete_list_is_an_error_and_never_a_short_list
    Limits.tools                    20,000      hostile/test_lists.py::test_more_tools_than_the_cap_is_an_error
    Limits.entries                  20,000      catalog/test_resources.py::test_caps_on_how_many_there_may_be_have_a_knob
    Limits.watched                  256         catalog/test_watch.py::test_there_is_a_cap_on_how_many_are_watched
    Limits.list_bytes               64 MiB      hostile/test_resources.py::test_a_list_that_is_too_large_is_an_error
    Limits.notices                  256         hostile/test_questions.py::test_a_flood_of_progress_is_queued_up_to_a_limit_and_the_last_one_is_delivered
    Limits.rounds                   8           hostile/test_frames.py::test_a_server_that_asks_back_for_ever_is_stopped
    Limits.questions                16          hostile/test_questions.py::test_of_a_flood_of_requests_a_few_reach_the_handler_and_the_rest_are_refused
    Limits.questions_per_minute     60          handlers/test_question_checks.py::test_the_questions_of_all_calls_within_a_minute_are_bounded
    Limits.questions_per_call       32          handlers/test_question_checks.py::test_too_many_questions_in_the_rounds_of_one_call_end_it
    Limits.log_lines                1,000       handlers/test_server_log.py::test_a_flood_of_log_lines_is_cut_each_second_and_counted
    Limits.stderr_bytes             64 KiB      hostile/test_process.py::test_a_flood_on_standard_error_blocks_nothing_and_is_bounded
    Limits.restarts                 3           hostile/test_process.py::test_a_server_that_keeps_dying_is_given_up
    Limits.schema_bytes             1 MiB       validation/test_checker.py::test_each_cap_has_its_knob
    Limits.schema_depth             64          validation/test_checker.py::test_each_cap_has_its_knob
    Limits.subschemas               5,000       validation/test_checker.py::test_each_cap_has_its_knob
    Limits.references               1,000       validation/test_checker.py::test_each_cap_has_its_knob
    Limits.pattern_chars            2,000       validation/test_checker.py::test_each_cap_has_its_knob
    Limits.enum_values              10,000      validation/test_checker.py::test_each_cap_has_its_knob
    Limits.view_bytes               16 MiB      extensions/test_ui_resource.py::test_the_limit_is_that_of_the_session
    Limits.view_requests_per_minute 600         extensions/test_apps.py::test_requests_of_a_view_are_limited_within_a_minute
    Limits.model_calls              128         adapters/test_run.py::test_a_response_with_too_many_calls_has_some_made_and_an_answer_for_each
    Limits.pending                  1,000       approval/test_queue.py::test_beyond_the_cap_a_call_is_refused_and_those_that_wait_are_not
    Limits.skill_files              512         extensions/test_skills.py::test_the_limits_are_the_hosts_to_set
    Limits.skill_bytes              16 MiB      extensions/test_skills.py::test_what_is_read_of_a_dynamic_skill_is_bounded_in_all
    Limits.script_calls             100         code/test_bounds.py::test_a_script_cannot_catch_that_it_made_too_many_calls
    Limits.script_memory            64 MiB      code/test_bounds.py::test_a_script_that_takes_too_much_memory_ends_there
    Limits.script_output            100,000     code/test_bounds.py::test_a_script_that_prints_without_end_ends_there

Without a field, because no host should want another value::

    a compressed body            unpacked up to message_bytes   hostile/test_http.py::test_a_compressed_bomb_stops_at_the_cap_and_not_in_memory
    headers without end          100 KiB                        hostile/test_http.py::test_headers_without_end_are_refused
    redirects                    within the origin, a few       transports/test_http.py::test_a_redirect_without_end_ends
    requests to agree            4                              fuzz/test_fuzz.py::test_no_bytes_break_a_promise
    memory of a schema check     1 GiB, in its own process      hostile/test_schemas.py::test_a_worker_that_wants_too_much_memory_gives_up_and_not_the_host
    answers a server never reads 1 MiB                          hostile/test_process.py::test_answers_to_a_server_that_does_not_read_are_dropped_at_a_cap
    an entry of a tool search    40,000 characters              adapters/test_search.py::test_a_tool_that_is_too_large_for_an_answer_is_named_without_its_schema
    text on a terminal           spelled out behind marks       hostile/test_terminal.py::test_whatever_they_write_stays_behind_the_marks
    what a batch file is given   no word cmd.exe would obey     runtime/test_windows.py::test_a_word_that_cmd_might_take_for_a_command_is_refused
    polls of a task              50 ms apart, or more           extensions/test_waiting_for_tasks.py::test_a_strange_interval_makes_no_busy_loop
    the id of a task             in no log, error or record     extensions/test_waiting_for_tasks.py::test_the_id_of_a_task_is_nowhere
    all of it at once            a soak of faults by a seed     soak/test_soak.py::test_faults_of_every_kind_at_once_break_no_promise

**What is not defended.** A stdio server runs with the rights of its user: it is not in a sandbox,
may read files, use the network, and leave the process group on purpose (``setsid``; on Windows it
cannot leave its job). What a tool's result says may mislead a model: texts are bounded and marked,
not judged. A server that is trusted has its annotations believed. Those who can write the files of
this user can change what is remembered, pinned and recorded, unless the audit log has a key that is
kept elsewhere. The limits are of one session: a host of a thousand servers may hold a thousand
times as much. Secrets are recognized by the names of arguments, by ``writeOnly`` and by their look,
which finds many and not all. CPU that a server costs is bounded for one message, one schema and one
list, not over time. What holds on Windows was tried under Wine only: see ``windows_job``.
"""
# ruff: noqa: E501 - the names of tests are long

from __future__ import annotations

import math
from collections import deque
from dataclasses import fields, replace

from ..errors import ConfigError
from .frozen import frozen_dataclass

__all__ = ["Limits", "RateLimit", "Timeouts", "seconds_text"]

_MINUTE_SECONDS = 60.0
_IDLE = float("60")
"""An object of its own: it tells the default from 60 seconds that the host has set."""


@frozen_dataclass
class Timeouts:
    """Time limits in seconds. The time a person takes to answer counts only for ``approval``.

    - ``connect``: From starting the server until a revision is agreed.
    - ``idle``: The longest a request may be silent; a progress notification for it restarts this
      timeout. Where it is not set, ``timeout=`` of a call is this, too.
    - ``total``: The longest a request may take, progress or not.
    - ``approval``: The longest the approval hook may take, after which the answer is no; and a
      handler of ``Handlers`` for one question. The other timeouts of a call are paused meanwhile,
      for at most this long in all.
    - ``close``: Each step of ending a server process: closing its input, SIGTERM, SIGKILL.
    - ``validation``: Validating one value in a worker process, which is killed after that.
    - ``ping``: How often a session asks its server for a sign of life; None for never. One that
      does not come within that time, or within ``idle`` if that is shorter, is logged, requests
      under way raise ``ConnectionLost``, and the session connects again. So that a proxy does not
      close an idle connection, give less than it allows; give more than the server may be too busy
      to answer. Over HTTP in 2026-07-28 it has no effect: no connection is kept.
    - ``script``: The longest a script of a model may take, its calls included, without the time
      that people are asked about these. Between two calls it may compute for at most 20 seconds.
    """

    connect: float = 30.0
    idle: float = _IDLE
    total: float = 600.0
    approval: float = 3600.0
    close: float = 2.0
    validation: float = 1.0
    ping: float | None = None
    script: float = 300.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name == "ping" and self.ping is None:
                continue
            _seconds(f"Timeouts({field.name}=...)", getattr(self, field.name))

    def after(self, seconds: float) -> Timeouts:
        """What is left after ``seconds``, which are less than ``total``."""
        return _Part(self, self.total - seconds)

    def for_connecting(self) -> Timeouts:
        """The time limits of a request that is a part of connecting."""
        return _Part(replace(self, idle=math.inf), self.connect, "connect")

    def for_call(self, timeout: float | Timeouts | None) -> Timeouts:
        """The time limits of one call: a number is its ``total``, and ``idle`` where the host has
        set none. It lifts no clock that the host has set."""
        if timeout is None:
            return self
        if isinstance(timeout, Timeouts):
            return timeout
        _seconds("timeout", timeout)
        idle = timeout if self.idle is _IDLE else min(self.idle, timeout)
        return replace(self, idle=idle, total=timeout)

    def expired(self, clock: str) -> tuple[str, float]:
        """Which field is to be raised where the request's "idle" or "total" ``clock`` has run out,
        and what that is now."""
        return clock, self.total if clock == "total" else self.idle


class _Part(Timeouts):
    """Those of one request, which has a part of the time that was allowed."""

    __slots__ = ("_clock", "_whole")

    def __init__(self, whole: Timeouts, seconds: float, clock: str | None = None) -> None:
        """``clock`` names the field of ``whole`` that ``seconds`` is, where it is all of that."""
        values = {each.name: getattr(whole, each.name) for each in fields(whole)}
        values |= {"idle": min(whole.idle, seconds), "total": seconds}
        super().__init__(**values)
        self._whole, self._clock = whole, clock

    def expired(self, clock: str) -> tuple[str, float]:
        if self._clock is not None:
            return self._clock, self.total
        return self._whole.expired(clock)


@frozen_dataclass
class Limits:
    """Limits on what a server may send. What exceeds one is refused with the limit's name and
    never truncated.

    - ``message_bytes``: One message on the wire.
    - ``depth``: Nested arrays and objects in one message.
    - ``pages``: Pages of one list.
    - ``tools``: Tools of one server.
    - ``entries``: Resources of one server; and likewise its resource templates, its prompts, and
      its skills.
    - ``skill_files``: Files of one skill; a skill that has more is not loaded.
    - ``skill_bytes``: All files of one skill together; likewise.
    - ``watched``: Resources subscribed to at once, and updates of one subscription that wait to be
      taken.
    - ``list_bytes``: All pages of one list together.
    - ``notices``: Notifications that may wait unread for one request; the oldest are dropped and
      counted.
    - ``rounds``: Times a server may answer one call with a question.
    - ``questions``: Questions of a server that may be open at once; more are refused. Likewise
      requests of one view.
    - ``questions_per_minute``: Questions of a server that are put to handlers within a minute; more
      are refused.
    - ``questions_per_call``: Questions of a server that are put to handlers during one call; more
      are refused.
    - ``view_bytes``: The document of one view, in UTF-8.
    - ``view_requests_per_minute``: Requests of one view within a minute; more are refused.
    - ``model_calls``: Calls of one response of a model that ``Toolset.run`` makes; the model is told
      that the others were not made.
    - ``pending``: Calls that wait in one ``ApprovalQueue(limits=...)``; more are refused.
    - ``log_lines``: Log notices within a second; more are dropped and counted.
    - ``stderr_bytes``: How much of a server's standard error is kept, of its end above all.
    - ``restarts``: Times a server that died is started again within a minute. In a ``Host``, its
      backoff decides.
    - ``script_calls``: Calls of one script of a model.
    - ``script_memory``: Bytes that one script takes in its process.
    - ``script_output``: Characters that one script prints, and of its last expression.
    - ``schema_bytes``: Characters of one JSON Schema. A tool whose schema exceeds this or one of
      the following caps raises ``InvalidSchema`` when it is called; the list and the other tools
      are untouched.
    - ``schema_depth``: Nested arrays and objects in one schema.
    - ``subschemas``: JSON objects in one schema, which is at least the number of its subschemas.
    - ``references``: ``$ref``, ``$dynamicRef`` and ``$recursiveRef`` in one schema.
    - ``pattern_chars``: One regular expression in a schema.
    - ``enum_values``: Values of one ``enum``, names in one ``required``: items of any one array in
      a schema.
    """

    message_bytes: int = 32 * 1024 * 1024
    depth: int = 128
    pages: int = 1_000
    tools: int = 20_000
    entries: int = 20_000
    skill_files: int = 512
    skill_bytes: int = 16 * 1024 * 1024
    watched: int = 256
    list_bytes: int = 64 * 1024 * 1024
    notices: int = 256
    rounds: int = 8
    questions: int = 16
    questions_per_minute: int = 60
    questions_per_call: int = 32
    view_bytes: int = 16 * 1024 * 1024
    view_requests_per_minute: int = 600
    model_calls: int = 128
    pending: int = 1_000
    log_lines: int = 1_000
    stderr_bytes: int = 64 * 1024
    restarts: int = 3
    schema_bytes: int = 1024 * 1024
    schema_depth: int = 64
    subschemas: int = 5_000
    references: int = 1_000
    pattern_chars: int = 2_000
    enum_values: int = 10_000
    script_calls: int = 100
    script_memory: int = 64 * 1024 * 1024
    script_output: int = 100_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or value < 1:
                raise ConfigError(f"Limits({field.name}={value!r}): give a whole number above 0")


class RateLimit:
    """At most ``most`` events within a minute."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._times: deque[float] = deque()

    def allows(self, now: float, number: int = 1) -> bool:
        """Whether ``number`` more may happen ``now``, in seconds of any clock that goes forward."""
        times = self._times
        while times and now - times[0] >= _MINUTE_SECONDS:
            times.popleft()
        return len(times) + number <= self.most

    def count(self, now: float, number: int = 1) -> None:
        """They have happened."""
        self._times.extend([now] * number)


def seconds_text(seconds: float) -> str:
    """``seconds`` for people, such as "0.5 s": rounded to hundredths, or to two digits."""
    if seconds == math.inf or seconds < 0.1:
        return f"{seconds:.2g} s"
    return f"{seconds:.2f}".rstrip("0").rstrip(".") + " s"


def _seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ConfigError(f"{name} is {value!r}: give seconds above 0 (math.inf for no limit)")
