"""The decision in a form."""

from __future__ import annotations

from typing import Any

from ..approval.decision import CHOICES, Allow, Answer, Deny
from ..approval.editor import EditorFailed, arguments_of, draft_of
from ..approval.request import ApprovalRequest
from ..protocol.canonical_json import NotJson
from .http import Refused

__all__ = ["answer_of", "draft_for"]


def answer_of(form: dict[str, list[str]], requests: list[ApprovalRequest]) -> Answer:
    """Return the decision in the form. Raises ``Refused``."""
    reason = form.get("reason", [""])[-1].strip()[:500] or None
    match form.get("answer"):
        case ["deny"]:
            return Deny(reason, source="person") if reason else Deny(source="person")
        case ["allow"]:
            pass
        case _:
            raise Refused(422, "Choose Allow or Deny.")
    name = form.get("remember", ["once"])[-1]
    if not all(name in request.choices() for request in requests):
        raise Refused(422, "How long should the decision be remembered?")
    arguments = _edited(form.get("arguments"), requests)
    if arguments is not None and name != "once":
        raise Refused(422, "Arguments that were edited are for this call only.", field="remember")
    return Allow(arguments, CHOICES[name].remember, reason, source="person")


def _edited(draft: list[str] | None, requests: list[ApprovalRequest]) -> dict[str, Any] | None:
    if not draft:
        return None
    if len(requests) != 1 or len(draft) != 1:
        raise Refused(422, "Arguments are edited one call at a time.")
    (request,) = requests
    try:
        arguments = arguments_of(draft[0])
        same = request.with_arguments(arguments).key == request.key
    except TypeError as error:
        raise Refused(422, f"Not done: {error}.", field="arguments") from None
    except (EditorFailed, NotJson) as error:
        raise Refused(422, f"These arguments cannot be sent: {error}", field="arguments") from None
    return None if same else arguments


def draft_for(request: ApprovalRequest) -> str:
    """Return the text of the request's arguments for the editor."""
    if not request.can_edit:
        raise Refused(404, f"A {request.kind} has no arguments.")
    return draft_of(request.arguments_json)
