# SPDX-License-Identifier: LGPL-3.0
"""How many examples a property test of the ledger takes."""

import os


def examples(count: int) -> int:
    """Return ``count``, or the share of it that LEDGER_EXAMPLES asks for (0.25, 10).

    The sanitized run, which is slow, takes fewer; a long search takes more.
    """
    return max(1, int(count * float(os.environ.get("LEDGER_EXAMPLES", "1"))))
