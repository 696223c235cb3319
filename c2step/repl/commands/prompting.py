"""Commands about the prompt: its log, aliases."""

from typing import Optional

from ...render import quote, table
from ..context import Context
from ..registry import command
from ..types import FilePath, Rest


@command()
def log(context: Context, file: Optional[FilePath] = None) -> str:
    """Append all that is typed and said to a file from now on; `log off` ends that.

    For one command there are `> FILE`, `>> FILE` and `| COMMAND` behind it: stats | grep conv
    """
    if file == "off":
        context.log_to(None)
    elif file is not None:
        context.log_to(file)
    return "logging to %s" % quote(context.log_path) if context.log_path else "nothing is logged"


@command()
def alias(context: Context, text: Optional[Rest] = None) -> str:
    """Give commands a name of your own, or list those names.

    alias ll = list all       for this session
    alias ll =                takes it away

    Lines `NAME = COMMANDS` in the file `aliases` of the configuration folder ($XDG_CONFIG_HOME/c2step, by
    default ~/.config/c2step) are there from the start.
    """
    aliases = context.interpreter.aliases
    if text:
        aliases.define(text)
    return "\n".join(table([[name, "= " + commands] for name, commands in sorted(aliases.all.items())])) or "no aliases"
