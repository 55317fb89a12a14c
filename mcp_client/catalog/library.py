"""What a session keeps of a server besides its tools: resources, templates, prompts.

Made when somebody first wants any of it; most sessions call tools, and never pay for the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..protocol import notifications as notices
from ..runtime.limits import Limits
from .paged_list import FetchPage, Kind, PagedCache
from .prompts import PROMPTS, complete, get, prompt_list
from .resources import (
    RESOURCES,
    TEMPLATES,
    linked,
    meta_of,
    read,
    resource_list,
    template_list,
    uri_of,
)
from .subscriptions import Subscriptions
from .watch import ListWatch, ResourceWatch, compared_by

__all__ = ["Library", "complete", "get", "linked", "meta_of", "read", "uri_of"]


class Library:
    """``kept`` is what all lists of the session have in common."""

    def __init__(
        self,
        server: str,
        limits: Limits,
        fetching: Callable[[Kind], FetchPage],
        now: Callable[[], float],
        kept: dict[str, Any],
        subscriptions: Subscriptions,
    ) -> None:
        both = server, limits
        self.resources = resource_list(*both, fetching(RESOURCES), now, **kept)
        self.templates = template_list(*both, fetching(TEMPLATES), now, **kept)
        self.prompts = prompt_list(*both, fetching(PROMPTS), now, **kept)
        self._limits = limits
        self._subscriptions = subscriptions
        self._news = {
            id(self.resources): subscriptions.add(
                notices.RESOURCES, (self.resources, self.templates)
            ),
            id(self.prompts): subscriptions.add(notices.PROMPTS, (self.prompts,)),
        }

    def changes(self, listing: PagedCache[Any], latest: Any) -> ListWatch[Any]:
        news = self._news[id(listing)]
        return ListWatch(news, listing, latest, compared_by(listing.kind.key))

    def watch(self, uri: str, live: Any) -> ResourceWatch:
        return ResourceWatch(self._subscriptions, uri_of(uri), self._limits.watched, live)
