"""The live connection of a session, and one request on it."""
