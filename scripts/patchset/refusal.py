# SPDX-License-Identifier: LGPL-3.0
"""The one error that a user of scripts/series sees."""

from __future__ import annotations


class Refusal(Exception):
    """One line: what, where, why, and the way out. Nothing was changed."""
