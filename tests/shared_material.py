"""Where the shared material (models and cases with known answers) is: C2STEP_SHARED, or ../shared by the checkout."""

import os
from typing import Optional

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def shared_dir() -> Optional[str]:
    """The folder, or None where there is none."""
    folder = os.environ.get("C2STEP_SHARED") or os.path.join(os.path.dirname(CHECKOUT), "shared")
    return folder if os.path.isdir(folder) else None
