# SPDX-License-Identifier: LGPL-3.0
"""Replay of Flux job eventlogs: which epilog action held which rank, until when, at what cost."""

__version__ = "0.1.0"
