"""One Hypothesis profile for every run: the same examples each time, so that a failure is a change
of the code.

To look for new examples: HYPOTHESIS_PROFILE=explore make test.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
