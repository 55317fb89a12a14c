"""Where what outlasts a session is kept: in memory, in a folder, in a database.

```python
state = FileState("state/")                      # or PostgresState("postgresql:///agents")
connect(server, state=state)                     # decisions, pins, tokens and the audit
ApprovalQueue(decisions=state.decisions)         # one of them alone
```

To keep it elsewhere, derive a class from ``State`` with the four methods of ``FileState`` that read
and change objects, and hold it to ``tests/state/contract.py``.
"""

from .given import state_of
from .state import FileState, MemoryState, State

__all__ = ["FileState", "MemoryState", "State", "state_of"]
