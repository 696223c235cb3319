"""A sweep: one model over many inputs, each blamed against golden values or just run, and what they come to together.

plan        what is done with each input, as JSON
items       the inputs
measuring   does one input after another
serving, job    the two sides of a process that does
local, cluster  many such processes: here, or on the workers of a Dask scheduler
folder, rows    a row of JSON for each input, on disk
report, result  what the rows come to
"""

from typing import Any, Callable, Optional, Sequence

from .items import Inputs
from .plan import Plan
from .result import Sweep
from .running import run_sweep

__all__ = ["Plan", "Sweep", "run_sweep", "sweep"]


def sweep(
    model: Optional[str] = None,
    inputs: Inputs = (),
    against: str = "",
    directory: Optional[str] = None,
    jobs: Optional[int] = None,
    dask: Optional[str] = None,
    batch: Optional[int] = None,
    tolerance: Sequence[str] = (),
    preprocess: Any = None,
    tell: Callable[[str], None] = lambda text: None,
    progress: Callable[[int, int], None] = lambda done, of: None,
    **options: Any,
) -> Sweep:
    """Blame a model, or take statistics of its blobs where nothing is named to compare it with, over many inputs.

    `inputs` is a path as `c2step sweep --inputs` takes it, or a sequence of paths, arrays, or dicts of arrays.
    `against` names golden values as `c2step blame --against` does, or a folder that has them for each input.
    Rows go into `directory`; what is there already is not done again.  `jobs` processes do the work here, or
    the workers of the Dask scheduler at `dask`.  `batch` entries of the first axis of one .npy or .npz make an
    input.  `tolerance` are rules such as "type:Softmax=1e-2"; further options are those of `Plan`: init_net,
    predict_net, importing, dims, rtol, atol, threads, timeout, max_memory (for all processes together) and so on.

    Raises C2StepError for what no input can get past, such as a model that is refused, or a `directory` that was
    made otherwise; what is wrong with one input is in the report.
    """
    words = preprocess if isinstance(preprocess, (str, type(None))) else preprocess.describe()
    plan = Plan(model=model, against=against, rules=tuple(tolerance), preprocess=words, **options).checked()
    return run_sweep(plan, inputs, directory, jobs, dask, batch, tell, progress)
