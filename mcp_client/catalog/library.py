"""The resources and prompts of one session: listed, read, completed, and watched.

Made when the first of these is used: most sessions only call tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ..connection.call_options import ReadOptions, object_of
from ..connection.rpc import Traffic
from ..protocol import notifications as topics
from ..protocol.content import ResourceLink
from ..protocol.prompts import Completion, Prompt
from ..protocol.resources import Resource, ResourceTemplate, ResourceUpdate
from ..runtime.limits import Timeouts
from ..runtime.watch import Watch
from .listed import Listed
from .paged_list import ListSource, PagedEntries
from .prompts import PromptResult, complete, get, prompt_list
from .reading import FetchResult, ReadRequests
from .resources import ResourceResult, linked, read, resource_list, template_list, uri_of
from .subscriptions import Subscriptions
from .watch import ListChanges, ListWatch, ResourceWatch, compared_by

__all__ = ["Library"]

T = TypeVar("T")


class Library:
    """What ``Session`` offers besides tools; its methods of the same names document these."""

    def __init__(
        self,
        requests: ReadRequests,
        source: ListSource,
        subscriptions: Subscriptions,
        origin: str,
    ) -> None:
        """``origin`` marks the links in this session's results."""
        self._requests = requests
        self._subscriptions = subscriptions
        self._origin = origin
        resources = subscriptions.add(topics.RESOURCES)
        self._resources = resource_list(source, resources)
        self._templates = template_list(source, resources)
        self._prompts = prompt_list(source, subscriptions.add(topics.PROMPTS))

    # --------------------------------------------------------------- resources

    async def list_resources(self, refresh: bool) -> Listed[Resource]:
        return await self._all("resources", self._resources, refresh)

    async def list_resource_templates(self, refresh: bool) -> Listed[ResourceTemplate]:
        return await self._all("resources", self._templates, refresh)

    def resource_changes(self) -> Watch[ListChanges[Resource]]:
        return self._changes("resources", self._resources)

    async def read_resource(
        self,
        uri: str,
        options: ReadOptions,
        traffic: Traffic | None = None,
    ) -> ResourceResult:
        self._requests.require("resources")
        uri = uri_of(uri)
        return await read(self._reader(options, traffic), self._requests.server, uri)

    def linked(self, link: ResourceLink) -> str:
        """The URI of a link of this session. Raises ``InvalidArguments``."""
        return linked(link, self._requests.server, self._origin)

    def subscribe_resource(self, uri: str) -> Watch[ResourceUpdate]:
        self._requests.require("resources", "subscribe")
        live = self._requests.connection.ensure_connected
        return ResourceWatch(
            self._subscriptions, uri_of(uri), self._requests.context.limits.watched, live
        )

    # ----------------------------------------------------------------- prompts

    async def list_prompts(self, refresh: bool) -> Listed[Prompt]:
        return await self._all("prompts", self._prompts, refresh)

    def prompt_changes(self) -> Watch[ListChanges[Prompt]]:
        return self._changes("prompts", self._prompts)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None,
        options: ReadOptions,
        traffic: Traffic | None = None,
    ) -> PromptResult:
        self._requests.require("prompts")
        reader, server = self._reader(options, traffic), self._requests.server
        return await get(reader, server, self._origin, name, arguments)

    async def complete(
        self,
        ref: Prompt | ResourceTemplate | Mapping[str, Any],
        argument: Mapping[str, str],
        context: Mapping[str, str] | None,
        timeout: float | Timeouts | None,
    ) -> Completion:
        requests = self._requests
        requests.require("completions")
        timeouts = requests.context.timeouts.for_call(timeout)

        async def ask(method: str, fields: Mapping[str, Any]) -> dict[str, Any]:
            return await requests.ask(method, fields, timeouts)

        return await complete(ask, requests.server, ref, argument, context)

    # ----------------------------------------------------------------- private

    def _reader(self, options: ReadOptions, traffic: Traffic | None) -> FetchResult:
        meta = options.get("meta")
        plain = None if meta is None else object_of("meta", meta)[0]
        return self._requests.reader(options.get("timeout"), plain, traffic)

    def _changes(self, feature: str, listing: PagedEntries[T]) -> Watch[ListChanges[T]]:
        self._requests.require(feature)
        live = self._requests.connection.ensure_connected
        return ListWatch(listing, live, compared_by(listing.kind.key))

    async def _all(self, feature: str, listing: PagedEntries[T], refresh: bool) -> Listed[T]:
        await self._requests.connection.ensure_connected()
        self._requests.require(feature)
        return await listing.all(refresh=refresh)
