"""The client the official conformance suite runs: the scenario in the environment, the URL last.

It does what a host would do, and no scenario's own tricks: what is judged is ``mcp_client``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import anyio
import httpx

from mcp_client import (
    ConfigError,
    Handlers,
    HttpServer,
    McpError,
    OAuth,
    Session,
    allow_all,
    connect,
)
from mcp_client.auth import (
    ClientCredentials,
    EnterpriseAuthorization,
    IdentityProvider,
    WorkloadIdentity,
)
from mcp_client.handlers import Accept, ElicitRequest

Scenario: TypeAlias = Callable[[Session], Awaitable[None]]


async def list_tools(session: Session) -> None:
    await session.list_tools()


async def add_numbers(session: Session) -> None:
    await session.list_tools()
    (await session.call_tool("add_numbers", {"a": 5, "b": 3})).raise_for_error()


async def list_and_ping(session: Session) -> None:
    """All there is to do with a server that lists no tools; every request is judged."""
    await session.list_tools()
    await session.ping()


async def reconnect(session: Session) -> None:
    await session.list_tools()
    (await session.call_tool("test_reconnection")).raise_for_error()


async def standard_headers(session: Session) -> None:
    await session.list_tools()
    await session.call_tool("test_headers")
    await session.call_tool("my-hyphenated-tool")
    await session.read_resource((await session.list_resources())[0].uri)
    await session.get_prompt((await session.list_prompts())[0].name)


async def calls_of_the_context(session: Session) -> None:
    await session.list_tools()
    for call in _context()["toolCalls"]:
        await session.call_tool(call["name"], call["arguments"])


async def every_tool_shown(session: Session) -> None:
    for tool in await session.list_tools():
        await session.call_tool(tool.name, _stub(tool.input_schema))


async def echo_a_schema(session: Session) -> None:
    schema = (await session.get_tool("json_schema_2020_12_tool")).input_schema
    await session.call_tool("json_schema_echo", {"schema": schema})


async def call_the_test_tool(session: Session) -> None:
    await session.list_tools()
    (await session.call_tool("test-tool", {})).raise_for_error()


async def answer_with_defaults(session: Session) -> None:
    await session.list_tools()
    (await session.call_tool("test_client_elicitation_defaults")).raise_for_error()


async def answer_in_rounds(session: Session) -> None:
    await session.list_tools()
    for tool in ("echo_state", "unrelated", "no_state", "no_result_type"):
        (await session.call_tool(f"test_mrtr_{tool}")).raise_for_error()


async def list_skills(session: Session) -> None:
    await session.list_skills()


async def load_a_skill(session: Session) -> None:
    skill = await session.load_skill((await session.list_skills())[0])
    for file in skill.files:
        await skill.read(file.path)


def fill_in(request: ElicitRequest) -> Accept:
    """What a person would send who ticks every box and leaves the rest as it is."""
    return Accept({field.name: True for field in request.fields if field.kind == "boolean"})


def no_model(request: object) -> object:
    raise RuntimeError("no scenario asks for a model")


HANDLERS: dict[str, Handlers] = {
    "request-metadata": Handlers(elicitation=fill_in, sampling=no_model, roots=[]),
    "elicitation-sep1034-client-defaults": Handlers(elicitation=fill_in),
    "sep-2322-client-request-state": Handlers(elicitation=fill_in),
}
SCENARIOS: dict[str, Scenario] = {
    "initialize": list_tools,
    "tools_call": add_numbers,
    "sse-retry": reconnect,
    "request-metadata": list_and_ping,
    "http-standard-headers": standard_headers,
    "http-custom-headers": calls_of_the_context,
    "http-invalid-tool-headers": every_tool_shown,
    "json-schema-ref-no-deref": list_tools,
    "json-schema-2020-12-preservation": echo_a_schema,
    "elicitation-sep1034-client-defaults": answer_with_defaults,
    "sep-2322-client-request-state": answer_in_rounds,
    "sep-2640-client-no-prefetch": list_skills,
    "sep-2640-client-verify-digest": load_a_skill,
    "sep-2640-client-verify-size": load_a_skill,
    "sep-2640-client-verify-frontmatter": load_a_skill,
}
AUTH = "auth/"
"""What such a scenario is about comes before the session, which does the same in all of them."""
PINNED = {"tools_call", "json-schema-2020-12-preservation"}
"""Scenarios whose mock agrees to any revision: each run is to speak its own."""


def _context() -> Any:
    return json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))


_STUBS: dict[str, Any] = {
    "string": "us-west1",
    "integer": 1,
    "number": 1,
    "boolean": True,
    "object": {},
    "array": [],
    "null": None,
}


def _stub(schema: dict[str, Any]) -> dict[str, Any]:
    """Arguments for whatever the schema requires."""
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    return {name: _STUBS[properties.get(name, {}).get("type", "string")] for name in required}


# ------------------------------------------------------------------ authorization

REDIRECT = "http://localhost:3000/callback"
DOCUMENT = "https://conformance-test.local/client-metadata.json"


async def person(url: str) -> str:
    """A person with a browser who agrees to everything: follows one redirect by reading it."""
    async with httpx.AsyncClient(trust_env=False, timeout=60) as browser:
        response = await browser.get(url, follow_redirects=False)
    return response.headers["location"]


def oauth(**options: Any) -> httpx.Auth:
    """A person who logs in, as in all scenarios without other instructions."""
    return OAuth(on_url=person, redirect_uri=REDIRECT, client_metadata_url=DOCUMENT, **options)


def pre_registered() -> httpx.Auth:
    context = _context()
    return oauth(
        client_id=context["client_id"],
        client_secret=context["client_secret"],
        issuer=context.get("issuer"),
    )


def signing_machine() -> httpx.Auth:
    context = _context()
    return ClientCredentials(
        context["client_id"],
        private_key=context["private_key_pem"],
        algorithm=context["signing_algorithm"],
    )


def machine() -> httpx.Auth:
    context = _context()
    return ClientCredentials(context["client_id"], client_secret=context["client_secret"])


def enterprise() -> httpx.Auth:
    context = _context()
    provider = IdentityProvider(
        context["idp_token_endpoint"], context["idp_client_id"], context["idp_id_token"]
    )
    return EnterpriseAuthorization(
        provider, context["client_id"], client_secret=context["client_secret"]
    )


def workload() -> httpx.Auth:
    context = _context()
    return WorkloadIdentity(context["client_id"], assertion=context["valid_jwt"])


GRANTS: dict[str, Callable[[], httpx.Auth]] = {
    "auth/client-credentials-basic": machine,
    "auth/client-credentials-jwt": signing_machine,
    "auth/enterprise-managed-authorization": enterprise,
    "auth/pre-registration": pre_registered,
    "auth/wif-jwt-bearer": workload,
}
"""Scenarios with a way to a token of their own."""


def _server(url: str, scenario: str) -> HttpServer:
    if not scenario.startswith(AUTH):
        return HttpServer(url)
    return HttpServer(url, auth=GRANTS.get(scenario, oauth)())


async def _play(server: HttpServer, scenario: str, revision: str) -> None:
    handlers = HANDLERS.get(scenario)
    play = call_the_test_tool if scenario.startswith(AUTH) else SCENARIOS[scenario]
    async with connect(server, approval=allow_all, handlers=handlers, revision=revision) as session:
        await play(session)


def main(words: list[str]) -> int:
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    if not words:
        return _refused("the last argument is the URL of the suite's server, and there is none")
    auth = scenario.startswith(AUTH)
    if scenario not in SCENARIOS and not auth:
        known = ", ".join(SCENARIOS)
        return _refused(
            f"MCP_CONFORMANCE_SCENARIO is {scenario!r}, and this program knows {known}, {AUTH}..."
        )
    revision = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "auto")
    pin = revision if auth or scenario in PINNED else "auto"
    try:
        anyio.run(_play, _server(words[-1], scenario), scenario, pin)
    except ConfigError as error:
        return _refused(str(error))
    except McpError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def _refused(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
