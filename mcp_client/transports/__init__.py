"""How messages travel. A transport knows JSON-RPC; it knows no MCP method."""
