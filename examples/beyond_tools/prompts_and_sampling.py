"""Get a prompt of a server, and let the server use the host's model after an approval.

``model`` represents your model. Each use of it is approved by the hook ``sampling_approval``, which
sees the prompt that the server wrote.
"""

import sys
from pathlib import Path

import anyio

from mcp_client import Allow, ApprovalRequest, Deny, Handlers, StdioServer, allow_all, connect
from mcp_client.adapters import openai_chat
from mcp_client.approval import SamplingRequest
from mcp_client.errors import Unanswered
from mcp_client.handlers import SamplingResult

CAFE = StdioServer(sys.executable, [str(Path(__file__).parents[1] / "servers" / "cafe.py")])


def texts(request: SamplingRequest) -> list[str]:
    return [str(block) for message in request.messages for block in message.content]


def may_use_the_model(request: ApprovalRequest) -> Allow | Deny:
    assert isinstance(request, SamplingRequest)
    print(f"{request.server} wants {request.max_tokens} tokens for: {texts(request)}")
    return Allow() if request.max_tokens <= 100 else Deny("at most 100 tokens")


def model(request: SamplingRequest) -> SamplingResult:
    return SamplingResult("Chocolate, with a hint of cherry.", "my-model")


async def main() -> None:
    handlers = Handlers(sampling=model, sampling_approval=may_use_the_model)
    async with connect(CAFE, name="cafe", approval=allow_all, handlers=handlers) as session:
        for prompt in await session.list_prompts():
            print(prompt.name, [argument.name for argument in prompt.arguments])
        result = await session.get_prompt("recommend", {"weather": "rain"})
        kit = openai_chat.toolset(await session.list_tools())
        print(kit.prompt(result)[0]["role"], "-", result.messages[0])
        for tokens in (50, 5000):
            try:
                print((await session.call_tool("describe", {"tokens": tokens})).text)
            except Unanswered as error:
                print(error)


anyio.run(main)
