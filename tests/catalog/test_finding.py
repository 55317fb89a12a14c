"""What a finding is: a kind for programs, a sentence for people."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import pytest

from mcp_client import ConfigError, Finding

pytestmark = pytest.mark.one_backend


def test_a_finding_is_a_kind_and_a_sentence() -> None:
    found = Finding("look_alike", "its name can be taken for 'a'", "a")
    assert (found.kind, found.text, found.about) == ("look_alike", str(found), "a")
    assert f"{found}" == "its name can be taken for 'a'"
    assert found.to_json() == {"kind": "look_alike", "text": found.text, "about": "a"}
    assert Finding.from_json(found.to_json()) == found
    assert pickle.loads(pickle.dumps(found)) == copy.deepcopy(found) == found
    assert Finding("skill", "x").to_json() == {"kind": "skill", "text": "x"}
    assert Finding.from_json({"kind": "skill", "text": "x"}) == Finding("skill", "x")


def test_a_note_stays_one_wherever_it_goes() -> None:
    found = Finding("long_text", "one of its texts has 9000 characters", note=True)
    assert found.at("tool 'a'").note
    assert found.to_json() == {"kind": "long_text", "text": found.text, "note": True}
    assert Finding.from_json(found.to_json()) == found
    with pytest.raises(ConfigError, match="True or False"):
        Finding("skill", "x", note="yes")  # type: ignore[arg-type]


def test_what_is_known_is_reported_by_kind_and_value_and_not_by_the_sentence() -> None:
    one, reworded = Finding("odd_name", "an odd name", "a"), Finding("odd_name", "strange", "a")
    assert one.known_as == reworded.known_as
    assert one.known_as != Finding("odd_name", "an odd name", "b").known_as


@pytest.mark.parametrize("kind", ["drifted", "", None, 7, "\x1b[2J", ["skill"]])
def test_a_kind_that_is_not_one_of_the_list_is_an_error_that_gives_the_list(kind: Any) -> None:
    with pytest.raises(ConfigError, match=r"of the kind .*: give one of hidden_text, ") as caught:
        Finding(kind, "x")
    assert "\x1b" not in str(caught.value)
    with pytest.raises(ValueError, match="a finding needs"):
        Finding.from_json({"kind": kind, "text": "x"})


@pytest.mark.parametrize("value", [None, 7, [], {}, {"kind": "skill"}, {"text": "x"}, "skill"])
def test_json_that_is_not_a_finding_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="a finding needs"):
        Finding.from_json(value)


def test_every_kind_is_documented_where_a_user_looks_for_it() -> None:
    documented = re.findall(r"^ *- ``(\w+)``: ", Finding.__doc__ or "", re.MULTILINE)
    assert tuple(documented) == Finding.KINDS
    assert len(set(documented)) == len(documented)
