"""What the other sides have in common: functions called by name over a pipe.  No part of c2step."""

import json
import os
import sys
import time
import traceback


def serve(functions):
    """Call functions as lines of JSON ask for them; what else is printed goes to standard error."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        do, arguments = json.loads(line)
        try:
            reply = {"returned": functions[do](**arguments)}
        except Exception:
            reply = {"raised": traceback.format_exc()}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def clock(work):
    """The seconds that `work` takes, and what it returns."""
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found
