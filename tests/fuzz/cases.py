"""Bytes that broke a promise once, by target: each is tried in every run."""

from __future__ import annotations

__all__ = ["CASES"]

CASES: dict[str, tuple[bytes, ...]] = {}
