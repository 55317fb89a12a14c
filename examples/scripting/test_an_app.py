"""Test a program that calls tools, without a network. Run this with pytest or as a program."""

from typing import Any

import anyio

from mcp_client import Session, allow_all, connect
from mcp_client.testing import FakeServer

FILES = {"a.log": 10, "b.log": 9_000, "c.log": 7_000}


async def tidy(session: Session) -> list[str]:
    """Delete the files that are large, and return those that failed: the program under test."""
    sizes = (await session.call_tool("list_files")).structured_content
    large = [name for name, size in sizes.items() if size > 5_000]
    done = [await session.call_tool("delete_file", {"path": name}) for name in large]
    return [name for name, result in zip(large, done, strict=True) if result.is_error]


def list_files() -> dict[str, int]:
    """Return each file's size in bytes."""
    return FILES


def delete_file(path: str) -> str:
    """Delete a file."""
    if path == "c.log":
        raise PermissionError("it is open")
    return f"deleted {path}"


def test_large_files_are_deleted_and_those_in_use_are_left() -> None:
    server = FakeServer({"list_files": list_files, "delete_file": delete_file})

    async def run() -> Any:
        async with connect(server, approval=allow_all) as session:
            return await tidy(session)

    assert anyio.run(run) == ["c.log"]
    assert [call["path"] for name, call in server.calls[1:]] == ["b.log", "c.log"]


if __name__ == "__main__":
    test_large_files_are_deleted_and_those_in_use_are_left()
    print("the program is tested")
