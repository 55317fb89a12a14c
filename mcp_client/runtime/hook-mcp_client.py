"""The files that PyInstaller cannot find: modules imported by name, and the files of the desk."""

from PyInstaller.utils.hooks import collect_data_files, collect_submodules

datas: list[tuple[str, str]] = collect_data_files("mcp_client")
hiddenimports: list[str] = [
    *collect_submodules("mcp_client"),
    "anyio._backends._asyncio",
    "httpx",
    "httpx_sse",
    "jsonschema",
]
