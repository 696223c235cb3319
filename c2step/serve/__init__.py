"""The report's pages, live, for one browser on this machine.

`server` speaks HTTP and lets nobody in without the token; `pages` answers from a capture, `desk` from a
session that a prompt shows at the same time.
"""

from .server import Server

__all__ = ["Server"]
