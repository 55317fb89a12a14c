# Written by `python -m tests.room_stubs` from the table in __init__.py: do not edit.

from .decision import Allow as Allow
from .decision import ApprovalHook as ApprovalHook
from .decision import Deny as Deny
from .decision import Policy as Policy
from .decision import Remember as Remember
from .decision import allow_all as allow_all
from .decision import deny_all as deny_all
from .decision import quick as quick
from .decisions import Decision as Decision
from .decisions import Decisions as Decisions
from .managed_policy import ManagedPolicy as ManagedPolicy
from .queue import ApprovalQueue as ApprovalQueue
from .queue import PendingApproval as PendingApproval
from .queue_parts import one_at_a_time as one_at_a_time
from .request import ApprovalRequest as ApprovalRequest
from .request import Fact as Fact
from .rules import Rule as Rule
from .rules import Rules as Rules
from .sampling_request import SamplingRequest as SamplingRequest
from .script import Script as Script
from .skill_request import SkillRequest as SkillRequest
from .start_request import StartRequest as StartRequest
from .terminal import ask_on_terminal as ask_on_terminal
from .tool_call import ToolCall as ToolCall
