"""Commands about the session and the prompt itself."""

from typing import List, Optional

from ...render import table
from ..context import Context
from ..registry import Command, Kind, Result, command
from ..types import CommandName

FOOTER = (
    "A prefix that fits one command is enough; an empty line repeats the last step.",
    "`help COMMAND` tells all about one; `;` separates commands.",
)


@command(aliases=("h", "?"))
def help(context: Context, command: Optional[CommandName] = None) -> str:
    """List the commands, or tell all about one."""
    table_of_commands = context.interpreter.table
    if command is not None:
        return manual(table_of_commands.find(command))
    rows = [(", ".join((item.name,) + item.aliases), item.summary) for item in table_of_commands.commands]
    return "\n".join(table(rows) + ["", *FOOTER])


def manual(item: Command) -> str:
    """The manual of a command: usage, docstring, arguments."""
    lines = [item.usage + ("   (%s)" % ", ".join(item.aliases) if item.aliases else ""), "", item.help]
    rows = _argument_rows(item)
    return "\n".join(lines + ([""] + table(rows, indent="  ") if rows else []))


def _argument_rows(item: Command) -> List[List[str]]:
    return [
        [p.option + " " + p.type.label if p.kind is Kind.OPTION else p.type.label, _about(p.type.about, p.default)]
        for p in item.parameters
        if p.kind is not Kind.FLAG
    ]


def _about(about: str, default: object) -> str:
    return about if default is None else "%s (default %s)" % (about, default)


@command()
def notes(context: Context) -> str:
    """Show what was changed so that Caffe2 takes the model and its inputs, and why."""
    return "\n".join([*context.session.model.notes, *context.session.notes]) or "nothing was changed"


@command(aliases=("q", "exit"))
def quit(context: Context) -> Result:
    """End the session (also Ctrl-D)."""
    return Result("", stop=True)
