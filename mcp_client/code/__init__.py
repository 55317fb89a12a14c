"""Code mode: scripts of a model that call tools, each call through the approval hook."""
