"""One text for equal values, and a place for whatever JSON cannot express."""

from __future__ import annotations

import copy
import json
import pickle
from collections import OrderedDict, UserDict
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.protocol.canonical_json import (
    FrozenObject,
    NotJson,
    canonical,
    frozen,
    plain,
    sha256,
)

values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Angle(float):
    pass


def reordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reordered(item) for key, item in reversed(value.items())}
    return [reordered(item) for item in value] if isinstance(value, list) else value


@given(values)
def test_the_order_of_keys_does_not_count(value: Any) -> None:
    assert canonical(value) == canonical(reordered(value))


@given(values)
def test_a_canonical_text_is_the_value_and_its_own_canonical_form(value: Any) -> None:
    text = canonical(value)
    assert json.loads(text) == value
    assert canonical(json.loads(text)) == text
    text.encode()


def test_the_text_has_no_spaces_and_no_needless_escapes() -> None:
    assert canonical({"b": [1, 2.5, None, True], "a": "é\n/"}) == (
        '{"a":"é\\n/","b":[1,2.5,null,true]}'
    )


def test_the_order_of_items_counts() -> None:
    assert canonical([1, 2]) != canonical([2, 1])


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ((1, 2), [1, 2]),
        (Colour.RED, "red"),
        ({Colour.RED: 1}, {"red": 1}),
        (Level.HIGH, 3),
        (Angle(1.5), 1.5),
        (OrderedDict(b=1, a=2), {"a": 2, "b": 1}),
        (UserDict(a=1), {"a": 1}),
        (MappingProxyType({"a": (1,)}), {"a": [1]}),
        (frozen({"a": [{"b": 1}]}), {"a": [{"b": 1}]}),
    ],
)
def test_what_is_plainly_meant_as_json_is_taken(value: Any, meant: Any) -> None:
    assert plain(value) == meant
    assert canonical(value) == canonical(meant)
    assert type(plain(value)) is type(meant)


def test_a_plain_copy_shares_nothing_with_the_value() -> None:
    value: dict[str, Any] = {"a": [{"b": 1}]}
    copied = plain(value)
    value["a"][0]["b"] = 2
    value["a"].append(3)
    assert copied == {"a": [{"b": 1}]}


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        (float("nan"), "", "nan is not a number"),
        ({"a": [1, float("inf")]}, "/a/1", "inf is not a number"),
        ({"a": {"b": float("-inf")}}, "/a/b", "-inf is not a number"),
        ({1, 2}, "", "set is not a type"),
        ({"a": [0, {"b": {1}}]}, "/a/1/b", "set is not a type"),
        ({"a": b"x"}, "/a", "bytes is not a type"),
        ({"a": object()}, "/a", "object is not a type"),
        ({"a": 1j}, "/a", "complex is not a type"),
        ({1: 2}, "", "the key 1 is not a string"),
        ({"a": {None: 2}}, "/a", "the key None is not a string"),
        ({"a": [{"b": 1, (1,): 2}]}, "/a/0", "is not a string"),
        ({"a": {"\ud800": 1}}, "/a", "lone surrogate"),
        ({"a": "\ud800"}, "/a", "lone surrogate"),
        (["ok", "x\udfff"], "/1", "lone surrogate"),
        ({"a/b": {"c~d": {1}}}, "/a~1b/c~0d", "set"),
        ({"a/b": {"c~d": float("nan")}}, "/a~1b/c~0d", "nan"),
        ({"n": 10**5000}, "", "digits"),
    ],
)
def test_what_json_cannot_express_is_refused_with_its_place(
    value: Any, path: str, reason: str
) -> None:
    with pytest.raises(NotJson) as caught:
        canonical(value)
    assert caught.value.path == path
    assert reason in caught.value.reason
    assert (path or "the value") in str(caught.value)


def test_a_value_within_itself_is_refused() -> None:
    around: list[Any] = []
    around.append({"again": around})
    with pytest.raises(NotJson, match="within itself"):
        canonical(around)


@pytest.mark.parametrize(("levels", "fits"), [(257, True), (258, False), (100_000, False)])
def test_a_value_may_be_deep_up_to_a_bound(levels: int, fits: bool) -> None:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    if fits:
        assert canonical(value) == "[" * levels + "]" * levels
    else:
        with pytest.raises(NotJson, match="nested deeper"):
            canonical(value)


# ------------------------------------------------------------------- frozen

ARGUMENTS: dict[str, Any] = {"a": {"b": [1, {"c": 2}]}, "d": "x"}


@pytest.mark.parametrize(
    "change",
    [
        lambda o: o.__setitem__("a", 1),
        lambda o: o.__delitem__("a"),
        lambda o: o.__ior__({"a": 1}),
        lambda o: o.clear(),
        lambda o: o.pop("a"),
        lambda o: o.popitem(),
        lambda o: o.setdefault("z", 1),
        lambda o: o.update(a=1),
        lambda o: setattr(o, "extra", 1),
    ],
)
def test_a_frozen_object_refuses_every_change_at_every_depth(change: Any) -> None:
    whole = frozen(ARGUMENTS)
    for part in (whole, whole["a"], whole["a"]["b"][1]):
        before = json.dumps(part)
        with pytest.raises((TypeError, AttributeError)):
            change(part)
        assert json.dumps(part) == before


def test_frozen_arrays_are_tuples_that_are_equal_to_lists() -> None:
    array: Any = frozen(ARGUMENTS)["a"]["b"]
    assert type(array).__mro__[1] is tuple
    assert array == (1, {"c": 2})
    assert array == [1, {"c": 2}]
    assert [1, {"c": 2}] == array  # noqa: SIM300 - either way round
    assert not array != [1, {"c": 2}]  # noqa: SIM202 - the other operator
    assert array != [1]
    assert array != "1"
    assert hash(frozen([1, ["a"]])) == hash((1, ("a",)))


@given(values)
def test_a_frozen_value_is_equal_to_what_it_was_made_of(value: Any) -> None:
    whole = frozen(value)
    assert whole == value
    assert value == whole
    assert not whole != value  # noqa: SIM202


@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o)), plain],
    ids=["copy", "deepcopy", "pickle", "plain"],
)
def test_a_copy_of_a_frozen_array_is_a_list(duplicate: Any) -> None:
    mine = duplicate(frozen([1, [2]]))
    assert type(mine) is list
    mine[1].append(3)
    assert mine == [1, [2, 3]]


@given(values)
def test_a_frozen_value_is_still_json_and_equal_in_meaning(value: Any) -> None:
    assert canonical(frozen(value)) == canonical(value)


@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o)), plain],
    ids=["copy", "deepcopy", "pickle", "plain"],
)
def test_a_copy_of_a_frozen_object_is_plain_and_free_to_change(duplicate: Any) -> None:
    whole = frozen(ARGUMENTS)
    mine = duplicate(whole)
    assert type(mine) is dict
    mine["a"]["b"].append(3)
    mine["new"] = 1
    assert canonical(whole) == canonical(ARGUMENTS)
    assert isinstance(whole, FrozenObject)


def test_a_hash_may_be_taken_of_text_a_server_sent_with_a_lone_surrogate() -> None:
    assert sha256("\ud800") != sha256("\ud801")
