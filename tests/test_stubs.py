"""``mcp_client.stubs``: typed Python for a server's tools."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import (
    ConfigError,
    Deny,
    Host,
    MemoryServer,
    StdioServer,
    Tool,
    ToolCall,
    ToolFailed,
    allow_all,
    connect,
)
from mcp_client import sync as blocking
from mcp_client.catalog.schema_types import SchemaTypes
from mcp_client.errors import NotSent, ToolChanged
from mcp_client.runtime.python_source import Names
from mcp_client.stubs import generate
from tests.support.properties import examples
from tests.support.timing import grows_linearly

ROOT = Path(__file__).parents[1]
WEATHER = StdioServer(sys.executable, [str(ROOT / "examples" / "servers" / "weather.py")])
HOSTILE = [
    '"""\nimport os\n"""',
    "'''",
    '"',
    "\\",
    "\\" * 79 + '"""',
    "a" * 78 + "\\u",
    "\\N{BULLET}",
    "{evil}",
    "%s",
    "# comment",
    "\u202eevil\u2066",
    "\x00\x1b[2J",
    "\ud83d\ude00 emoji",
    "\U0001f600",
    "\udc00",
    "line\rline\x0cline\u2028line",
    "class",
    "self",
    "__init__",
    "_call",
    "list",
    "Any",
    "UNSET",
    "",
    "1",
    "\uff41\uff42",
    "x" * 300,
    "\t- a list\n\n    indented   \n",
]
NAMES = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=12), st.from_regex(r"[a-zA-Z_.-]+"))


def test_a_type_is_written_down_to_its_twenty_fourth_level() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(24):
        deep = {"type": "object", "additionalProperties": deep}
    deeper = {"type": "object", "additionalProperties": deep}
    types = SchemaTypes()
    assert str(types.type_of(deep, {}, ("Deep",))) == "dict[str, " * 24 + "str" + "]" * 24
    assert not types.cut
    assert str(types.type_of(deeper, {}, ("Deeper",))) == "dict[str, " * 25 + "Any" + "]" * 25
    assert types.cut


def test_a_name_without_a_letter_that_python_takes_is_a_name_all_the_same() -> None:
    names = Names({"Taken"})
    types = [names.type(text) for text in ("天気", "", "3d box", "taken")]
    assert types == ["Value", "Value_2", "T3dBox", "Taken_2"]
    variables = [names.variable(text) for text in ("天気", "--", "3d", "class", "aB")]
    assert variables == ["value", "value_2", "arg_3d", "class_", "a_b"]


def test_the_name_of_a_class_is_made_of_whole_words_and_numbered_only_where_none_is_free() -> None:
    names = Names([])
    paths = [
        ("weather", "get_forecast", "Result"),
        ("production_weather", "get_long_range_forecast", "Result"),
        ("production_weather", "get_long_range_forecast", "Result", "hourly"),
        ("production_weather", "get_long_range_forecast", "Result", "hourly"),
        ("w", "the_very_long_name_of_one_member_of_it_all"),
        ("w", "x" * 40),
    ]
    assert [names.type(*path) for path in paths] == [
        "WeatherGetForecastResult",
        "GetLongRangeForecastResult",
        "GetLongRangeForecastResultHourly",
        "ResultHourly",
        "TheVeryLongNameOfOneMemberOfIt",
        "W" + "X" + "x" * 30,
    ]


def test_the_name_of_a_method_is_the_whole_name_of_its_tool() -> None:
    names = ["get_long_range_forecast_of_the_day", "get_long_range_forecast_of_the_week", "x" * 128]
    text = generate([tool(name, {"type": "object"}) for name in names])
    for name in (*names[:2], "x" * 64):
        assert text.count(f" def {name}(\n") == 2


def test_what_is_imported_is_what_is_used_whatever_a_server_wrote() -> None:
    words = ["Any", "UNSET", "Literal", "-> ToolResult:", "TypedDict", "Union"]
    output = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    properties = {word: {"enum": ["Any", "Union[", "NotRequired"]} for word in words}
    schema = {"type": "object", "properties": properties, "required": words}
    text = generate([tool("t", schema, description=" ".join(words), outputSchema=output)])
    assert "from typing import Literal, TypedDict\n" in text
    assert "from mcp_client.stubs import Stub, SyncStub\n" in text
    assert "from mcp_client import ToolResult" not in text
    anything = generate([tool("t", {"type": "object", "properties": {"a": {}}})])
    assert "from mcp_client.stubs import UNSET, Stub, SyncStub\n" in anything


def test_many_names_that_are_alike_cost_time_linear_in_their_number() -> None:
    def naming(count: int) -> Callable[[], Any]:
        names = Names([])

        def name() -> None:
            for _ in range(count):
                names.variable("alike")

        return name

    assert grows_linearly(naming, 250, 32)


def schemas() -> st.SearchStrategy[Any]:
    leaves = st.one_of(
        st.sampled_from([{}, True, False, None, 7, {"$ref": "#/$defs/a"}, {"$ref": "#"}]),
        st.sampled_from(["string", "integer", "number", "boolean", "null", "array", 5]).map(
            lambda kind: {"type": kind}
        ),
        st.lists(st.one_of(NAMES, st.integers(), st.booleans(), st.none(), st.floats())).map(
            lambda values: {"enum": values}
        ),
        NAMES.map(lambda value: {"const": value}),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4).map(lambda some: {"anyOf": some}),
            st.lists(inner, max_size=4).map(lambda some: {"oneOf": some}),
            inner.map(lambda one: {"type": "array", "items": one}),
            inner.map(lambda one: {"allOf": [one]}),
            inner.map(lambda one: {"type": "object", "additionalProperties": one}),
            st.builds(
                lambda properties, required, types, defs: {
                    "type": types,
                    "properties": properties,
                    "required": required,
                    "$defs": defs,
                },
                st.dictionaries(NAMES, inner, max_size=4),
                st.lists(NAMES, max_size=3),
                st.sampled_from(["object", ["object", "null"]]),
                st.dictionaries(st.just("a"), inner, max_size=1),
            ),
        ),
        max_leaves=12,
    )


def tool(
    name: str = "t",
    schema: Any = None,
    *,
    server: str = "demo",
    description: Any = None,
    **more: Any,
) -> Tool:
    definition = {"name": name, "inputSchema": schema or {"type": "object"}, **more}
    if description is not None:
        definition["description"] = description
    return Tool(name, server, False, definition)


def tools() -> st.SearchStrategy[list[Tool]]:
    return st.lists(
        st.builds(
            lambda name, server, schema, output, description: tool(
                name,
                {"type": "object", "properties": {"x": schema}, **schema}
                if isinstance(schema, dict)
                else {"type": "object"},
                server=server,
                description=description,
                **({} if output is None else {"outputSchema": output}),
            ),
            NAMES,
            st.sampled_from(["demo", "other", *HOSTILE]),
            schemas(),
            schemas(),
            NAMES,
        ),
        max_size=4,
    )


def is_only_stubs(text: str) -> None:
    """Fails where the module does anything but define classes of typed calls."""
    for number, node in enumerate(ast.parse(text).body):
        match node:
            case ast.Expr(value=ast.Constant(value=str())) if number == 0:
                pass
            case ast.ImportFrom(module=module):
                assert module in ("__future__", "typing", "mcp_client", "mcp_client.stubs")
            case ast.Assign(value=ast.Call(func=ast.Name(id="TypedDict"), args=[_, fields])):
                assert isinstance(fields, ast.Dict)
                assert all(isinstance(value, ast.Constant) for value in fields.values)
            case ast.ClassDef(bases=[ast.Name(id="TypedDict")], body=body):
                assert all(isinstance(field, ast.AnnAssign) and not field.value for field in body)
            case ast.ClassDef(bases=[ast.Name(id="Stub" | "SyncStub")], body=body):
                assert isinstance(body[1], ast.Assign)
                assert ast.unparse(body[1]).startswith("_server = ")
                assert isinstance(body[1].value, ast.Constant)
                for method in body[2:]:
                    assert isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
                    assert not method.decorator_list
                    calls = [one for one in ast.walk(method) if isinstance(one, ast.Call)]
                    assert {ast.unparse(call.func) for call in calls} <= {
                        "self._call",
                        "self._structured",
                    }
            case _:
                raise AssertionError(ast.unparse(node))


def referring(levels: int, name: str, wide: int = 2) -> dict[str, Any]:
    """Each level refers to the next one ``wide`` times, in forms that are written out in place."""
    forms = [
        {"type": "array", "items": {"$ref": "#/$defs/d{}"}},
        {"type": "object", "additionalProperties": {"$ref": "#/$defs/d{}"}},
    ]
    defs: dict[str, Any] = {f"d{levels}": {"enum": [name]}}
    for level in range(levels):
        refers = json.loads(json.dumps(forms[:wide]).replace("{}", str(level + 1)))
        defs[f"d{level}"] = {"anyOf": refers}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs}


@st.composite
def webs(draw: st.DrawFn) -> dict[str, Any]:
    """Schemas of definitions that refer to those after them, themselves, any and the whole."""
    least = draw(st.integers(0, 12))
    last = least + draw(st.integers(1, 30))
    spelled = st.sampled_from(["#/$defs/d{}", "#/$defs/d{}", "#/$defs/d{}/anyOf/0", "#"])

    def referring_to(numbers: Any) -> st.SearchStrategy[Any]:
        return st.builds(lambda text, number: {"$ref": text.format(number)}, spelled, numbers)

    def forms(number: int) -> st.SearchStrategy[Any]:
        following = referring_to(st.integers(min(number + 1, last), min(number + 2, last)))
        one = following | following | referring_to(st.integers(0, last))
        two = st.tuples(following, following).map(
            lambda refs: [
                {"type": "array", "items": refs[0]},
                {"type": "object", "additionalProperties": refs[1]},
            ]
        )
        twice = two.map(lambda some: {"anyOf": some})
        if number == last or number < least:
            return st.just({"enum": ["end"]}) if number == last else twice
        return st.one_of(
            twice,
            st.lists(one, min_size=1, max_size=4).map(lambda some: {"anyOf": some}),
            st.dictionaries(NAMES, one, max_size=3).map(lambda some: {"properties": some}),
            st.just({"enum": ["x" * 60] * 3}),
        )

    first = referring_to(st.just(0))
    defs = {f"d{number}": draw(forms(number)) for number in range(last + 1)}
    return {"type": "object", "properties": {"x": draw(first)}, "$defs": defs}


class TestWhatIsWritten:
    @pytest.mark.slow
    @given(webs())
    @examples(200)
    def test_is_as_long_as_the_schema_many_times_over_and_no_longer(self, web: Any) -> None:
        some = [tool("t", web, outputSchema=web)]
        text = generate(some)
        is_only_stubs(text)
        assert len(text) < 3_000 + 60 * len(json.dumps(web))
        assert generate(some) == text

    @pytest.mark.parametrize("levels", [5, 20, 200])
    def test_names_where_a_schema_was_too_deep_or_too_long_and_writes_any_there(
        self, levels: int
    ) -> None:
        note = "# Any replaces a schema that is too deep or too long to be expressed here."
        plain = {"type": "object", "properties": {"y": {"type": "string"}}}
        text = generate([tool("t", referring(levels, "end")), tool("u", plain)])
        is_only_stubs(text)
        assert len(text) < 20_000
        assert text.count(note) == 2
        alone = generate([tool("t", referring(2, "end"))])
        assert 'dict[str, list[Literal["end"]] | dict[str, Literal["end"]]]' in alone
        assert note not in alone

    def test_of_a_long_line_of_references_is_not_an_exception(self) -> None:
        defs: Any = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5_000)}
        schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs}
        assert "x: Any = UNSET" in generate([tool("t", schema)])

    def test_leaves_no_choice_out_of_a_union(self) -> None:
        many: Any = [{"const": f"c{n}"} for n in range(51)]
        schema = {"type": "object", "properties": {"x": {"anyOf": many}}}
        assert "x: Any = UNSET" in generate([tool("t", schema)])

    @pytest.mark.slow
    @given(tools())
    @examples(300)
    def test_is_stubs_and_nothing_else_whatever_a_server_wrote(self, some: list[Tool]) -> None:
        text = generate(some)
        is_only_stubs(text)
        exec(compile(text, "stubs", "exec"), {"__name__": "stubs"})
        assert generate(some) == text

    @pytest.mark.slow
    @given(st.lists(tools(), min_size=20, max_size=20))
    @examples(20)
    def test_is_formatted_as_by_ruff(self, many: list[list[Tool]]) -> None:
        with tempfile.TemporaryDirectory() as directory:
            for number, some in enumerate(many):
                Path(directory, f"{number}.py").write_text(generate(some))
            words = [sys.executable, "-m", "ruff", "format", "--isolated", "--diff", directory]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout

    @pytest.mark.slow
    def test_passes_mypy_strict(self, tmp_path: Path) -> None:
        files = []
        zoo = [
            tool(text, {"type": "object", "properties": {text: {"enum": [text, 1, None]}}},
                 server=other, description=text,
                 outputSchema={"type": "object", "properties": {text: {"type": "array"}, "b": {
                     "type": ["integer", "null"]}, "c": {"$ref": "#"}}, "required": ["b"]})
            for text, other in zip(HOSTILE, [*HOSTILE[7:], *HOSTILE], strict=False)
        ]  # fmt: skip
        for number, some in enumerate([zoo, zoo[::-1], []]):
            files.append(tmp_path / f"stubs{number}.py")
            files[-1].write_text(generate(some))
        words = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"]
        done = subprocess.run(
            [*words, "--cache-dir", str(tmp_path), *files],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout

    def test_has_a_class_for_each_server_and_world(self) -> None:
        text = generate([tool("a", server="one"), tool("b", server="two"), tool("c", server="one")])
        classes = [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
        assert classes == ["One", "OneSync", "Two", "TwoSync"]

    def test_types_parameters_and_results_by_their_schemas(self) -> None:
        schema = {
            "type": "object",
            "required": ["place", "from"],
            "properties": {
                "unit": {"enum": ["c", "f"]},
                "place": {"type": "string"},
                "from": {"type": ["integer", "null"]},
                "maxDays": {"type": "array", "items": {"type": "number"}},
                "at": {"$ref": "#/$defs/point"},
            },
            "$defs": {
                "point": {
                    "type": "object",
                    "properties": {"x": {"type": "number"}, "next": {"$ref": "#/$defs/point"}},
                    "required": ["x"],
                }
            },
        }
        text = generate([tool("forecast", schema, outputSchema={"type": "array", "items": {}})])
        assert "        place: str,\n        from_: int | None,\n" in text
        assert '        unit: Literal["c", "f"] | Unset = UNSET,\n' in text
        assert "        max_days: list[float] | Unset = UNSET,\n" in text
        assert "        at: DemoPoint | Unset = UNSET,\n    ) -> list[Any]:" in text
        assert "class DemoPoint(TypedDict):\n    x: float\n    next: NotRequired[DemoPoint]" in text
        assert '                "maxDays": max_days,\n' in text

    def test_imports_no_type_that_only_a_description_names(self) -> None:
        schema = {"type": "object", "properties": {"a": {"type": "string"}}}
        described = Tool(
            "go",
            "desk",
            False,
            {"name": "go", "inputSchema": schema, "description": "Any Union of Literal\nand Any."},
        )
        text = generate([described])
        assert "Any Union" in text
        assert "from typing" not in text

    def test_holds_neither_a_path_nor_a_date(self) -> None:
        text = generate([tool("a")])
        assert str(ROOT) not in text
        assert not any(part.isdigit() and len(part) == 4 for part in text.split())


def loaded(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "stubs"}
    exec(compile(text, "stubs", "exec"), names)
    return names


class Server:
    """Answers with the arguments that it got; its description can change."""

    def __init__(self, description: str = "as it was") -> None:
        self.description = description
        self.calls: list[Any] = []

    def __call__(self, message: dict[str, Any]) -> Any:
        if message["method"] == "tools/list":
            schema = {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b-c": {"type": "string"}},
                "required": ["a"],
            }
            return {
                "tools": [{"name": "t", "description": self.description, "inputSchema": schema}]
            }
        if message["method"] == "tools/call":
            arguments = message["params"]["arguments"]
            self.calls.append(arguments)
            text = {"type": "text", "text": json.dumps(arguments)}
            return {"content": [text], "isError": arguments["a"] < 0}
        return NotImplemented


class TestACall:
    async def test_sends_what_was_given_under_the_servers_names(self, anyio_backend: str) -> None:
        server = Server()
        async with connect(MemoryServer(server), name="demo", approval=allow_all) as session:
            stub = loaded(generate(await session.list_tools()))["Demo"](session)
            await stub.t(a=1)
            await stub.t(a=2, b_c="x")
        assert server.calls == [{"a": 1}, {"a": 2, "b-c": "x"}]

    async def test_raises_what_the_tool_reports(self, anyio_backend: str) -> None:
        async with connect(MemoryServer(Server()), name="demo", approval=allow_all) as session:
            stub = loaded(generate(await session.list_tools()))["Demo"](session)
            with pytest.raises(ToolFailed):
                await stub.t(a=-1)

    async def test_returns_structured_content_where_there_is_a_schema(
        self, anyio_backend: str
    ) -> None:
        async with connect(WEATHER, approval=allow_all) as session:
            stub = loaded(generate(await session.list_tools()))["Weather"](session, timeout=30)
            assert (await stub.get_weather(location="Oslo"))["conditions"] == "Partly cloudy"

    async def test_of_a_tool_that_changed_is_refused_before_anybody_is_asked(
        self, anyio_backend: str
    ) -> None:
        asked: list[ToolCall] = []

        def approve(call: ToolCall) -> Deny:
            asked.append(call)
            return Deny("no")

        server = Server("as it is now")
        text = generate([tool("t", server="demo")])
        async with connect(MemoryServer(server), name="demo", approval=approve) as session:
            stub = loaded(text)["Demo"](session, context="ana")
            with pytest.raises(ToolChanged, match="generate it again with 'mcp-client stubs") as e:
                await stub.t()
            assert e.value.found == (await session.get_tool("t")).fingerprint != e.value.expected
        assert (asked, server.calls) == ([], [])

    @pytest.mark.parametrize("is_blocking", [False, True])
    async def test_whose_definition_is_not_received_was_not_sent(
        self, anyio_backend: str, is_blocking: bool
    ) -> None:
        def ends_at_the_list(message: dict[str, Any]) -> Any:
            if message["method"] == "tools/list":
                served.end()
                return None
            return server(message)

        server, served = Server(), MemoryServer(ends_at_the_list)
        classes = loaded(generate([tool("t", server="demo")]))
        refused = pytest.raises(NotSent, match="the call was not sent")
        if is_blocking:
            with blocking.connect(served, name="demo", approval=allow_all) as opened, refused:
                classes["DemoSync"](opened).t()
        else:
            async with connect(served, name="demo", approval=allow_all) as session:
                with refused:
                    await classes["Demo"](session).t()
        assert server.calls == []

    async def test_goes_through_a_host_to_the_server_of_the_stub(self, anyio_backend: str) -> None:
        servers: dict[str, Any] = {"weather": WEATHER, "other": WEATHER}
        async with Host(servers, approval=allow_all) as host:
            tools = await host.list_tools()
            stub = loaded(generate(tools))["Other"](host)
            assert (await stub.get_weather(location="Oslo"))["temperature"] == 22.5
            calls = {name: session.stats.requests for name, session in host.sessions.items()}
        assert calls["other"] > calls["weather"]

    def test_of_another_world_or_kind_of_target_is_refused(self) -> None:
        text = loaded(generate([tool("t", server="demo")]))
        with pytest.raises(ConfigError, match=r"open Session or Host of mcp_client$"):
            text["Demo"]("session")
        with (
            blocking.connect(WEATHER, approval=allow_all) as session,
            pytest.raises(ConfigError, match=r"open Session or Host of mcp_client$"),
        ):
            text["Demo"](session)
        with pytest.raises(ConfigError, match=r"open Session or Host of mcp_client\.sync$"):
            text["DemoSync"](object())

    def test_without_an_event_loop_is_the_same(self) -> None:
        with blocking.connect(WEATHER, approval=allow_all) as session:
            stub = loaded(generate(session.list_tools()))["WeatherSync"](session)
            assert stub.get_weather(location="Oslo")["temperature"] == 22.5
            with pytest.raises(TypeError):
                stub.get_weather("Oslo")

    def test_without_an_event_loop_of_a_tool_that_changed_is_refused(self) -> None:
        with blocking.connect(WEATHER, approval=allow_all) as session:
            stub = loaded(generate([tool("get_weather", server="weather")]))["WeatherSync"](session)
            with pytest.raises(ToolChanged):
                stub.get_weather()
