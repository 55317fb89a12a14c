"""Schemas of functions by the official SDK and by ``FakeServer``, compared.

Runs in the environment of the SDK. Prints one line for each function whose schemas differ.
"""

# mypy: ignore-errors
# ruff: noqa: B006, B008, N803, UP006, UP007, UP035, UP045

import dataclasses
import datetime
import enum
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, List, Literal, NewType, Optional, Union

from mcp.server.mcpserver.utilities.func_metadata import func_metadata
from pydantic import BaseModel, Field
from typing_extensions import NotRequired, TypedDict

from mcp_client.testing.annotations import input_schema, output_schema

UserId = NewType("UserId", int)


class Colour(enum.Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Point:
    """A point."""

    x: int
    y: float = 0.5
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Node:
    value: int
    children: "list[Node]"


class Found(TypedDict):
    """What was found."""

    path: str
    line: NotRequired[Annotated[int, Field(ge=1)]]


class Partial(TypedDict, total=False):
    path: str


class Model(BaseModel):
    """A model."""

    point: Point
    next: "Model | None" = None


class Plain:
    x: int = 3
    y: str | None = None


class Nothing:
    pass


def text(path: str, limit: int = 10, query: Optional[str] = None) -> str: ...
def choices(mode: Literal["r", "w"], one: Literal[1], mix: Literal["a", 1, None] = "a"): ...
def lists(a: list[int], b: list, c: set[str], d: frozenset[int], e: List[str]) -> list[int]: ...
def tuples(a: tuple[int, str], b: tuple[int, ...], c: tuple) -> tuple[int, str]: ...
def dicts(a: dict[str, int], b: dict, c: dict[str, Any]) -> dict[str, Point]: ...
def abstract(a: Sequence[int], b: Mapping[str, int], c: Iterable[str]) -> dict[int, str]: ...
def classes(p: Point, n: Node, t: Found, q: Partial, c: Colour, e: Level, m: Model) -> Point: ...
def defaults(
    p: Point = Point(1), c: Colour = Colour.RED, n: list[int] = [1], s: set[int] = {1}
): ...
def bare(a, b=1, *, c: Any, d: object, e: Any = None) -> dict[str, Any]: ...
def fields(
    a: Annotated[int, "not a description"],
    b: Annotated[str, Field(description="B", min_length=1, pattern="^b")] = "b",
    c: Annotated[int | None, Field(ge=1, lt=5)] = 3,
    d: int = Field(4, description="D"),
    e: list[Annotated[int, Field(gt=0)]] = Field(default_factory=list, max_length=3),
    f: Annotated[Point, Field(description="a point")] = Field(),
    g: int = Field(title="Gee", examples=[1]),
) -> Annotated[int, Field(description="how many")]: ...
def unions(
    a: int | str | None, b: Union[list[int], None] = None, c: bytes = b"x"
) -> int | None: ...
def optional(p: Point | None, q: Point | Found, r: list[Point | None]) -> Optional[Point]: ...
def times(a: datetime.datetime, b: datetime.date, c: datetime.time) -> list[datetime.date]: ...
def others(a: uuid.UUID, b: Path, c: UserId, model_dump: int = 2, URL: str = "") -> uuid.UUID: ...
def nothing() -> None: ...
def number() -> float: ...
def boolean() -> bool: ...
def data() -> bytes: ...
def one_of() -> Literal["a"]: ...
def typed() -> Found: ...
def partial() -> Partial: ...
def several() -> list[Found]: ...
def recursive() -> Node: ...
def model() -> Model: ...
def models() -> list[Model]: ...
def plain() -> Plain: ...
def unknown() -> Nothing: ...
def anything() -> Any: ...
def an_object() -> object: ...
def untyped_dict() -> dict: ...
def untyped_list() -> list: ...
def day() -> datetime.date: ...
def colour() -> Colour: ...
def colours() -> list[Colour]: ...


FUNCTIONS = [
    each for each in list(globals().values()) if getattr(each, "__module__", "") == __name__
]
for function in (each for each in FUNCTIONS if not isinstance(each, type)):
    if isinstance(function, NewType):
        continue
    official = func_metadata(function)
    wanted = official.arg_model.model_json_schema(by_alias=True), official.output_schema
    made = input_schema(function, "tool")[0], output_schema(function, "tool")[0]
    for want, got in zip(wanted, made, strict=True):
        if want != got:
            print(f"{function.__name__}: {json.dumps(got)} instead of {json.dumps(want)}")
print("compared")
