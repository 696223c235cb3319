"""The commands, a family a file; `all_commands` is the one list of them."""

from ..registry import CommandTable

__all__ = ["all_commands"]


def all_commands() -> CommandTable:
    """Every command of the prompt, in the order that `help` lists them."""
    from . import (
        blobs,
        comparing,
        feeding,
        helping,
        listing,
        moving,
        nesting,
        plotting,
        saving,
        scripting,
        stopping,
        wrapping,
    )

    return CommandTable(
        [
            moving.step,
            moving.next_,
            nesting.finish,
            moving.until,
            moving.continue_,
            moving.run,
            moving.restart,
            moving.back,
            moving.skip,
            listing.list_,
            listing.where,
            nesting.up,
            nesting.down,
            listing.op,
            listing.inputs,
            listing.outputs,
            blobs.blobs,
            blobs.inspect,
            blobs.stats,
            comparing.compare,
            plotting.plot,
            saving.save,
            feeding.feed,
            stopping.break_,
            stopping.tbreak,
            stopping.delete,
            stopping.info,
            wrapping.wrap,
            wrapping.unwrap,
            scripting.source,
            scripting.python,
            helping.notes,
            helping.help,
            helping.quit,
        ]
    )
