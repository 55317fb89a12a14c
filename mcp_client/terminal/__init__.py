"""A person at the terminal: their yes or no to a call, and their answers to a server's questions.

All that is shown is laid out by ``layout``, so that no server can draw on the screen, hide a text
or write a line that looks like one of ours.
"""

from .asking import ask_on_terminal
from .form import elicit_on_terminal

__all__ = ["ask_on_terminal", "elicit_on_terminal"]
