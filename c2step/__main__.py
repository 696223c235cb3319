"""`python -m c2step` and `c2step` are the command line.

Little is loaded here, so that Ctrl-C ends it without a traceback while the rest loads.
"""

import sys

INTERRUPTED = 130  # ExitStatus.INTERRUPTED, which is not loaded yet


def main() -> int:
    """Run the command line; returns its exit status."""
    try:
        from .cli import main as command_line

        return command_line()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
