"""Commands about the prompt: its log, aliases."""

from typing import Optional

from ...render import quote, table
from ..budgets import budget_text
from ..context import Context
from ..registry import command
from ..types import Choice, FilePath, Rest, Size


class Resource(Choice):
    """What has a limit."""

    label = "disk|memory"
    choices = ("disk", "memory")
    about = "disk: the blobs that are kept; memory: the worker's"


@command()
def log(context: Context, file: Optional[FilePath] = None) -> str:
    """Append all that is typed and said to a file from now on; `log off` ends that.

    For one command there are `> FILE`, `>> FILE` and `| COMMAND` behind it: stats | grep conv; what COMMAND prints
    is logged too.
    """
    if file == "off":
        context.log_to(None)
    elif file is not None:
        context.log_to(file)
    return "logging to %s" % quote(context.log_path) if context.log_path else "nothing is logged"


@command()
def budget(context: Context, what: Optional[Resource] = None, size: Optional[Size] = None) -> str:
    """Show or change how much disk the kept blobs and how much memory the worker may take.

    budget               what is held of what is allowed
    budget disk 2G       keep up to so many bytes of blobs
    budget memory 4G     what the worker may hold
    """
    if size is not None:
        change = context.session.keep_up_to if what == "disk" else context.session.limit_memory
        change(size)
    return "\n".join(budget_text(context))


@command()
def alias(context: Context, text: Optional[Rest] = None) -> str:
    """Give commands a name of your own, or list those names.

    alias ll = list all       for this session
    alias sw = 'step; where'  several commands, in quotes
    alias ll =                takes it away

    Lines `NAME = COMMANDS` in the file `aliases` of the configuration folder ($XDG_CONFIG_HOME/c2step, by
    default ~/.config/c2step) are there from the start.
    """
    aliases = context.interpreter.aliases
    if text:
        aliases.define(text)
    return "\n".join(table([[name, "= " + commands] for name, commands in sorted(aliases.all.items())])) or "no aliases"
