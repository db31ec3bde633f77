"""What schemathesis loads beside the contract: names of things that exist.

Told by the environment: SOTTOVOCE_FUZZ_KNOWN, a JSON object of parameters, each with its values.
"""

import json
import os
from typing import Any

import schemathesis

known: dict[str, list[str]] = json.loads(os.environ["SOTTOVOCE_FUZZ_KNOWN"])
STRANGERS = 3
"""One well-formed name in so many is left as it was generated."""


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    if case.meta is not None and not case.meta.generation.mode.is_positive:
        return
    for given in (case.path_parameters, case.query):
        for name in given or ():
            drawn = sum(str(given[name]).encode("utf-8", "replace"))
            # Only the server can make a cursor.
            if name in known and (name == "cursor" or drawn % STRANGERS):
                given[name] = known[name][drawn % len(known[name])]
