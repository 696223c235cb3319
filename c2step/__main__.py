"""`python -m c2step` is the command line."""

import sys

from .cli import main

sys.exit(main())
