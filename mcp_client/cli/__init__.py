"""The command ``mcp-client``: tools, resources and prompts of MCP servers from a shell."""
