"""Extensions of the protocol, each declared and in files of its own.

::

    extension.py       declares the host program and its extensions to a server
    apps.py            MCP Apps: views of tools
    ui_resource.py     the view of a tool as its server sends it
    skills.py          the skills of a server: listed, compared with pins, loaded after approval
    skill.py           a server's entry of a skill, and the loaded skill
    front_matter.py    the YAML at the head of a SKILL.md
    tasks.py           the tasks of one session
    task_run.py        waits for a task
    task_state.py      a server's report of a task
    handshake_task.py  tasks of revision 2025-11-25
"""

from ..runtime.lazy import lazy as _lazy

__getattr__, __dir__, __all__ = _lazy(
    __name__,
    {
        "extension": ["ClientInfo", "Extension"],
        "apps": ["App", "Apps"],
        "ui_resource": ["UiResource"],
        "skill": ["Skill"],
        "tasks": ["Task"],
    },
)
