# SPDX-License-Identifier: LGPL-3.0
"""The patch set: hooks in flux-core's files, whole files laid over it, and the branch they make."""
