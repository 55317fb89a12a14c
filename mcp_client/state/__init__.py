"""States: data that outlasts a session, in memory, in a directory, or in a database.

```python
state = FileState("state/")                      # or PostgresState("postgresql:///agents")
connect(server, state=state)                     # decisions, pins, tokens and the audit
connect(server, state=Decisions("decisions.json"))  # decisions alone
ApprovalQueue(decisions=state.decisions)         # shared with an approval page
```

To store it in another place, derive a class from ``State`` with the four methods of ``FileState``
that read and change objects, and run ``tests/state/contract.py`` on it.

The modules::

    state.py       the protocol ``State``, and the state in memory
    file_state.py  a state in a directory, and the state that ``state=`` means
    calls.py       the journal of calls with an ``idempotency_key``
    lease.py       shows other processes that this one still runs
    postgres.py    a state in a PostgreSQL database, and the encryption of its secrets
    database.py    that database: connections, tables, changes of other processes
"""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(
    __name__,
    {"state": ["State", "MemoryState"], "file_state": ["FileState"], "postgres": ["PostgresState"]},
)
