# Written by `python -m tests.room_stubs` from the table in __init__.py: do not edit.

from ..catalog.library import PromptResult as PromptResult
from ..catalog.library import ResourceResult as ResourceResult
from ..protocol.content import AudioContent as AudioContent
from ..protocol.content import ContentBlock as ContentBlock
from ..protocol.content import EmbeddedResource as EmbeddedResource
from ..protocol.content import ImageContent as ImageContent
from ..protocol.content import ResourceLink as ResourceLink
from ..protocol.content import TextContent as TextContent
from ..protocol.content import UnknownContent as UnknownContent
from ..protocol.offers import Prompt as Prompt
from ..protocol.offers import Resource as Resource
from ..runtime.safe_text import safe_text as safe_text
