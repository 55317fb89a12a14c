"""Sessions: connecting, what a host calls, and the life of one tool call."""
