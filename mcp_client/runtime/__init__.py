"""What the rest stands on, and what knows nothing of MCP."""
