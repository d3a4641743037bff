# SPDX-License-Identifier: LGPL-3.0
"""``python3 -m epilog_replay`` is the command ``flux-epilog-replay``."""

import sys

from epilog_replay.cli import main

sys.exit(main())
