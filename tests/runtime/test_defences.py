"""Each limit has a test that shows it, and the docstring of ``runtime/limits.py`` is true."""
# ruff: noqa: E501 - the names of tests are long

from __future__ import annotations

import ast
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from mcp_client.runtime import limits
from mcp_client.runtime.limits import Limits, Timeouts

TESTS = Path(__file__).parents[1]
PAGE = limits.__doc__ or ""
TESTED_BY = {
    "Timeouts.connect": "hostile/test_negotiation.py::test_a_server_that_answers_nothing_ends_with_the_connect_clock",
    "Timeouts.idle": "hostile/test_http.py::test_comments_without_end_are_stopped_by_the_clock",
    "Timeouts.total": "connection/test_deadlines.py::test_silence_ends_a_request_and_progress_extends_it_for_a_bounded_time",
    "Timeouts.approval": "hostile/test_questions.py::test_a_hanging_handler_is_given_up_after_the_approval_timeout",
    "Timeouts.close": "hostile/test_process.py::test_a_server_that_ignores_sigterm_is_killed_within_the_bound",
    "Timeouts.validation": "session/test_validated_calls.py::test_a_runaway_pattern_ends_with_its_budget_and_the_result_is_left",
    "Timeouts.ping": "connection/test_keep_alive.py::test_a_missed_one_is_logged_ends_the_calls_and_connects_again",
    "Timeouts.gather": "host/test_host.py::test_a_host_waits_for_slow_servers_as_long_as_it_is_set_to",
    "Timeouts.script": "code/test_bounds.py::test_a_script_that_computes_or_waits_for_too_long_ends_there",
    "Limits.message_bytes": "hostile/test_frames.py::test_a_response_that_is_too_long_fails_its_call_and_no_other",
    "Limits.depth": "hostile/test_http.py::test_a_deep_response_is_refused_before_it_is_parsed",
    "Limits.pages": "catalog/test_tools.py::test_an_incomplete_list_is_an_error_and_never_a_short_list",
    "Limits.tools": "hostile/test_lists.py::test_more_tools_than_the_cap_is_an_error",
    "Limits.entries": "catalog/test_resources.py::test_caps_on_how_many_there_may_be_have_a_knob",
    "Limits.watched": "catalog/test_watch.py::test_there_is_a_cap_on_how_many_are_watched",
    "Limits.list_bytes": "hostile/test_resources.py::test_a_list_that_is_too_large_is_an_error",
    "Limits.in_flight": "connection/test_turns.py::test_more_calls_wait_their_turn_in_order",
    "Limits.notices": "hostile/test_questions.py::test_a_flood_of_progress_is_queued_up_to_a_limit_and_the_last_one_is_delivered",
    "Limits.rounds": "hostile/test_frames.py::test_a_server_that_asks_back_forever_is_stopped",
    "Limits.logins": "session/test_changed_definition.py::test_a_call_that_is_asked_to_log_in_again_and_again_is_given_up",
    "Limits.questions": "hostile/test_questions.py::test_of_a_flood_of_requests_a_few_reach_the_handler_and_the_rest_are_refused",
    "Limits.questions_per_minute": "handlers/test_question_checks.py::test_the_questions_of_all_calls_within_a_minute_are_bounded",
    "Limits.questions_per_call": "handlers/test_question_checks.py::test_too_many_questions_in_the_rounds_of_one_call_end_it",
    "Limits.log_lines": "handlers/test_server_log.py::test_a_flood_of_log_lines_is_cut_each_second_and_counted",
    "Limits.stderr_bytes": "hostile/test_process.py::test_a_flood_on_standard_error_blocks_nothing_and_is_bounded",
    "Limits.restarts": "hostile/test_process.py::test_a_server_that_keeps_dying_is_given_up",
    "Limits.schema_bytes": "validation/test_checker.py::test_each_cap_has_its_knob",
    "Limits.schema_depth": "validation/test_checker.py::test_each_cap_has_its_knob",
    "Limits.subschemas": "validation/test_checker.py::test_each_cap_has_its_knob",
    "Limits.references": "validation/test_checker.py::test_each_cap_has_its_knob",
    "Limits.pattern_chars": "validation/test_checker.py::test_each_cap_has_its_knob",
    "Limits.enum_values": "validation/test_checker.py::test_each_cap_has_its_knob",
    "Limits.view_bytes": "extensions/test_ui_resource.py::test_the_limit_is_that_of_the_session",
    "Limits.view_requests_per_minute": "extensions/test_apps.py::test_requests_of_a_view_are_limited_within_a_minute",
    "Limits.model_calls": "adapters/test_run.py::test_a_response_with_too_many_calls_has_some_made_and_a_response_for_each",
    "Limits.pending": "approval/test_queue.py::test_beyond_the_cap_a_call_is_refused_and_those_that_wait_are_not",
    "Limits.skill_files": "extensions/test_skills.py::test_the_limits_are_the_hosts_to_set",
    "Limits.skill_bytes": "extensions/test_skills.py::test_what_is_read_of_a_dynamic_skill_is_bounded_in_all",
    "Limits.script_calls": "code/test_bounds.py::test_a_script_cannot_catch_that_it_made_too_many_calls",
    "Limits.script_memory": "code/test_bounds.py::test_a_script_that_takes_too_much_memory_ends_there",
    "Limits.script_output": "code/test_bounds.py::test_a_script_that_prints_without_end_ends_there",
    "a compressed body": "hostile/test_http.py::test_a_compressed_bomb_stops_at_the_cap_and_not_in_memory",
    "headers without end": "hostile/test_http.py::test_headers_without_end_are_refused",
    "redirects": "transports/test_http.py::test_a_redirect_without_end_ends",
    "requests to agree": "fuzz/test_fuzz.py::test_no_bytes_break_a_promise",
    "memory of a schema check": "hostile/test_schemas.py::test_a_worker_that_wants_too_much_memory_gives_up_and_not_the_host",
    "answers a server never reads": "hostile/test_process.py::test_answers_to_a_server_that_does_not_read_are_dropped_at_a_cap",
    "an entry of a tool search": "adapters/test_search.py::test_a_tool_that_is_too_large_for_a_response_is_named_without_its_schema",
    "text on a terminal": "hostile/test_terminal.py::test_whatever_they_write_stays_behind_the_marks",
    "what a batch file is given": "processes/test_windows.py::test_a_word_that_cmd_might_take_for_a_command_is_refused",
    "polls of a task": "extensions/test_waiting_for_tasks.py::test_a_strange_interval_makes_no_busy_loop",
    "the id of a task": "extensions/test_waiting_for_tasks.py::test_the_id_of_a_task_is_nowhere",
    "all of it at once": "soak/test_soak.py::test_faults_of_every_kind_at_once_break_no_promise",
}
"""The test of each limit: of each field, and of those that the docstring lists without one."""


@cache
def _tests_of(path: str) -> set[str]:
    tree = ast.parse((TESTS / path).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def test_each_limit_has_a_test_and_each_limit_without_a_field_is_in_the_docstring() -> None:
    of_fields = {
        f"{kind.__name__}.{one.name}" for kind in (Limits, Timeouts) for one in fields(kind)
    }
    assert of_fields <= {*TESTED_BY}
    listed = {line[4:].partition("  ")[0] for line in PAGE.splitlines() if line[:4] == "    "}
    assert {*TESTED_BY} - of_fields == listed


def test_a_stdio_server_is_called_unconfined_only_without_a_sandbox() -> None:
    assert "not in a sandbox" not in PAGE
    assert "without ``sandbox=`` runs with the rights of its user" in PAGE


@pytest.mark.slow
def test_the_test_of_each_limit_exists() -> None:
    named = [place.split("::") for place in TESTED_BY.values()]
    missing = [f"{path}::{name}" for path, name in named if name not in _tests_of(path)]
    assert not missing, missing
