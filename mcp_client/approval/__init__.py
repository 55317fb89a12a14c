"""The gate that every tool call passes, and what decides there."""
