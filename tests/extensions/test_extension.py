"""Declaring extensions, and what a server that declares or needs one means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcp_client import (
    ConfigError,
    Host,
    MemoryServer,
    ServerConfig,
    ServerError,
    allow_all,
    connect,
)
from mcp_client.errors import MissingCapability, NegotiationError, ProtocolViolation
from mcp_client.extensions import Apps, ClientInfo, Extension
from mcp_client.protocol.capabilities import (
    Additions,
    ClientDeclaration,
    Implementation,
    ServerFacts,
    declared_extensions,
)
from mcp_client.protocol.era import Complete, ExtensionResult, Malformed, StatelessEra
from mcp_client.testing import JsonRpcError
from tests.support.asking import LATEST, REVISIONS, Asking

pytestmark = pytest.mark.one_backend

X = Extension("com.example/x", {"k": 1, "deep": [{"a": None}]})


def client_declaring(extensions: Any) -> ClientInfo:
    return ClientInfo("tests", "1", extensions=extensions)


async def declared(revision: str, **options: Any) -> Any:
    """The extensions that are declared to a server of this revision."""
    server = Asking(revision)
    async with connect(MemoryServer(server), approval=allow_all, **options) as session:
        await session.list_tools()
    return server.declared.get("extensions")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_an_extension_is_declared_with_its_settings_in_either_era(revision: str) -> None:
    found = await declared(revision, client_info=client_declaring([X]))
    assert found["com.example/x"] == {"k": 1, "deep": [{"a": None}]}


@pytest.mark.parametrize("revision", REVISIONS)
async def test_none_declares_no_extension_at_all(revision: str) -> None:
    assert await declared(revision, client_info=client_declaring(None)) is None


async def test_a_host_declares_its_extensions_to_all_servers() -> None:
    servers = {"a": Asking(LATEST), "b": Asking(LATEST)}
    transports = {name: MemoryServer(server) for name, server in servers.items()}
    async with Host(transports, approval=allow_all, client_info=client_declaring([X])) as host:
        await host.list_tools()
    for server in servers.values():
        assert "com.example/x" in server.declared["extensions"]


@pytest.mark.parametrize(
    "id",
    [
        "x",
        "",
        "/x",
        "com.example/",
        "com.example/-x",
        "com.example/x-",
        "1com/x",
        "com..example/x",
        "com.example/x/y",
        "com.example/x\n",
        "com.exam ple/x",
        7,
        None,
    ],
)
def test_an_identifier_that_breaks_the_grammar_is_refused_at_once(id: Any) -> None:
    with pytest.raises(ConfigError, match=r"com\.example/x"):
        Extension(id)


@pytest.mark.parametrize("id", ["com.example/x", "a/b", "io.x-y.z9/A_b.c-d", "example/9"])
def test_an_identifier_within_the_grammar_is_taken(id: str) -> None:
    assert Extension(id).settings == {}


@pytest.mark.parametrize("settings", [[], "{}", None, {"a": {1}}, {"a": float("nan")}, {1: 2}])
def test_settings_that_are_not_a_json_object_are_refused_at_once(settings: Any) -> None:
    with pytest.raises(ConfigError, match=r"com\.example/x"):
        Extension("com.example/x", settings)


def test_settings_are_a_copy_that_cannot_be_changed() -> None:
    settings = {"k": {"deep": [1]}}
    extension = Extension("com.example/x", settings)
    settings["k"]["deep"].append(2)
    assert extension.settings == {"k": {"deep": [1]}}
    assert Apps().settings == {"mimeTypes": ["text/html;profile=mcp-app"]}
    changed: Any = extension.settings
    with pytest.raises(TypeError):
        changed.update(a=1)
    with pytest.raises(TypeError):
        changed["k"].clear()
    assert hash(extension) == hash(Extension("com.example/x", {"k": {"deep": [1]}}))


@pytest.mark.parametrize(
    "extensions",
    ["com.example/x", {"com.example/x": {}}, 7, ["com.example/x"], [X, X], [None]],
)
def test_what_is_not_a_list_of_different_extensions_is_refused_at_once(extensions: Any) -> None:
    with pytest.raises(ConfigError, match="extensions="):
        client_declaring(extensions)


@pytest.mark.parametrize("wrong", [{"name": 5}, {"version": None}, {"title": 1}])
def test_a_wrong_description_of_the_host_is_refused_where_it_is_written(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"^ClientInfo\((name|version|title)="):
        ClientInfo(**{"name": "my-app", "version": "1.0", **wrong})


async def test_a_server_of_a_host_may_be_informed_of_other_extensions() -> None:
    servers = {"a": Asking(LATEST), "b": Asking(LATEST)}
    own = ServerConfig(MemoryServer(servers["a"]), client_info=client_declaring([X]))
    app = ClientInfo("my-app", "1.0", title="My app", raw={"websiteUrl": "https://a.example"})
    configs: dict[str, Any] = {"a": own, "b": MemoryServer(servers["b"])}
    async with Host(configs, approval=allow_all, client_info=app) as host:
        await host.list_tools()
        declared = {name: one._setup.client for name, one in host.sessions.items()}
    assert "com.example/x" in servers["a"].declared["extensions"]
    assert "com.example/x" not in servers["b"].declared["extensions"]
    assert declared["b"].info.to_wire() == {
        "name": "my-app",
        "version": "1.0",
        "title": "My app",
        "websiteUrl": "https://a.example",
    }


# ----------------------------------------------------------------- what the server declares


class Declaring(Asking):
    extensions: Any = None

    async def __call__(self, message: dict[str, Any], send: Callable[[Any], None]) -> Any:
        response = await super().__call__(message, send)
        if message.get("method") in ("server/discover", "initialize") and response is not (
            NotImplemented
        ):
            response["capabilities"]["extensions"] = self.extensions
        return response


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_session_states_what_its_server_declares(revision: str) -> None:
    server = Declaring(revision)
    server.extensions = {"com.example/y": {"n": [1]}, "com.example/z": {}, "com.example/bad": 1}
    async with connect(MemoryServer(server), approval=allow_all) as session:
        assert session.extensions == {"com.example/y": {"n": [1]}, "com.example/z": {}}
        with pytest.raises(TypeError):
            session.extensions["com.example/y"]["n"] = 2  # type: ignore[index]
        with pytest.raises(TypeError):
            session.extensions["com.example/q"] = {}  # type: ignore[index]


@pytest.mark.parametrize("extensions", [None, [], "x", 7, {"a/b": None}])
def test_what_is_not_a_map_of_settings_declares_nothing(extensions: Any) -> None:
    assert declared_extensions({"extensions": extensions}) == {}
    assert declared_extensions({}) == {}


# ----------------------------------------------------------------- what the server needs


class Needing(Asking):
    needs: Any = None

    def round(self, params: dict[str, Any]) -> Any:
        raise JsonRpcError(-32021, "missing", self.needs)


@pytest.mark.parametrize(
    ("required", "advice"),
    [
        ({"extensions": {"com.example/x": {}}}, r"extensions=\[Extension\('com.example/x'\)\]"),
        ({"elicitation": {"url": {}}}, r"Handlers\(elicitation=\.\.\.\)"),
        ({"sampling": {}, "roots": {}}, r"Handlers\(sampling=.*Handlers\(roots="),
        ({"magic\n": {}}, "which this client does not have"),
        ({}, "nothing that it names"),
    ],
)
async def test_a_missing_capability_is_named_with_the_option_that_declares_it(
    required: dict[str, Any], advice: str
) -> None:
    server = Needing(LATEST)
    server.needs = {"requiredCapabilities": required}
    async with connect(MemoryServer(server), approval=allow_all) as session:
        with pytest.raises(MissingCapability, match=advice) as caught:
            await session.call_tool("ask")
    assert isinstance(caught.value, ServerError)
    assert (caught.value.code, caught.value.required) == (-32021, required)
    assert caught.value.data == server.needs
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [None, [], {"requiredCapabilities": 7}])
async def test_a_missing_capability_without_a_name_is_still_one(data: Any) -> None:
    server = Needing(LATEST)
    server.needs = data
    async with connect(MemoryServer(server), approval=allow_all) as session:
        with pytest.raises(MissingCapability, match="does not state what") as caught:
            await session.call_tool("ask")
    assert caught.value.required == {}


async def test_a_server_that_needs_a_capability_to_be_discovered_names_which() -> None:
    def server(message: dict[str, Any]) -> Any:
        needs: Any = {"requiredCapabilities": {"extensions": {"com.example/x": {}}}}
        raise JsonRpcError(-32021, "missing", needs)

    with pytest.raises(NegotiationError, match=r"Extension\('com.example/x'\)"):
        async with connect(MemoryServer(server)):
            pass


# ----------------------------------------------------------------- what an extension adds

ADDED = Additions(results={"later": frozenset({"tools/call"})}, named_by={"later/get": "laterId"})


def era(additions: Additions) -> StatelessEra:
    client = ClientDeclaration(Implementation("c", "1"), {}, additions)
    return StatelessEra(LATEST, ServerFacts(None, {}, None), client)


def test_a_result_type_that_an_extension_adds_is_for_its_methods_only() -> None:
    result = {"resultType": "later", "laterId": "7"}
    assert era(ADDED).read(result, "tools/call") == ExtensionResult("later", result)
    assert era(ADDED).read({}, "tools/call") == Complete({})
    for method in ("prompts/get", "later/get", ""):
        with pytest.raises(Malformed, match="may have"):
            era(ADDED).read(result, method)
    with pytest.raises(Malformed, match="does not have"):
        era(Additions()).read(result, "tools/call")


@pytest.mark.parametrize("name", ["plain", "ä b", ""])
def test_a_method_that_an_extension_adds_is_named_by_its_own_parameter(name: str) -> None:
    headers = era(ADDED).headers("later/get", {"laterId": name, "name": "no"})
    assert headers["Mcp-Method"] == "later/get"
    assert headers["Mcp-Name"] in (name, "=?base64?w6QgYg==?=")
    assert "Mcp-Name" not in era(Additions()).headers("later/get", {"laterId": name})
    assert "Mcp-Name" not in era(ADDED).headers("later/get", {})


def test_an_extension_of_the_stateless_era_is_not_declared_in_the_other() -> None:
    client = ClientDeclaration(Implementation("c", "1"), {"roots": {}})
    client = client.with_extensions({"a/new": {}, "a/any": {"k": (1,)}})
    client = ClientDeclaration(
        client.info, client.capabilities, Additions(stateless_only=frozenset({"a/new"}))
    )
    assert client.declared_in(LATEST)["extensions"] == {"a/new": {}, "a/any": {"k": [1]}}
    assert client.declared_in("2025-11-25")["extensions"] == {"a/any": {"k": [1]}}


async def test_a_result_type_that_was_not_declared_breaks_the_protocol() -> None:
    class Later(Asking):
        def round(self, params: dict[str, Any]) -> Any:
            return {"resultType": "later", "laterId": "7"}

    async with connect(MemoryServer(Later(LATEST)), approval=allow_all) as session:
        with pytest.raises(ProtocolViolation, match="later"):
            await session.call_tool("ask")
