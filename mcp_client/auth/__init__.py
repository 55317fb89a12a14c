"""OAuth for the HTTP transports: flows as plain generators, driven inside ``httpx.Auth``."""

__all__: list[str] = []
