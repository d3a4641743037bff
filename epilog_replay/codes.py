# SPDX-License-Identifier: LGPL-3.0
"""The warning codes, and what each of them says of a log."""

BAD_JSON = "bad-json"
CUT_LINE = "cut-line"
MISSING_KEY = "missing-key"
BAD_VALUE = "bad-value"
UNMATCHED_FINISH = "unmatched-finish"
PREMATURE_FREE = "premature-free"
REOPENED = "reopened"
OUT_OF_ORDER = "out-of-order"
NO_SUBMIT = "no-submit"
WRONG_LOG = "wrong-log"
EMPTY = "empty"
RANKS_UNKNOWN = "ranks-unknown"
RANKS_NOT_IN_R = "ranks-not-in-R"
BAD_R = "bad-R"
LOST_CLAIM = "lost-claim"

MEANING = {
    BAD_JSON: "a line is not an event; it was passed over",
    CUT_LINE: "the last line (or the .gz) is cut off; it was passed over",
    MISSING_KEY: "an event lacks a key that RFC 18 or 21 requires",
    BAD_VALUE: "a value can't be what it should be; the text says what was done instead",
    UNMATCHED_FINISH: "a finish for an action that is not outstanding",
    PREMATURE_FREE: "free, partial-free or clean came while an action was open on those ranks,\n"
    "or the action's end rests on an unmatched finish only",
    REOPENED: "an event that belongs before CLEANUP, or before clean; the job stays where it was",
    OUT_OF_ORDER: "time goes backward (the order in the file counts), or a step is missing",
    NO_SUBMIT: "the first event is not submit: the head of the log is missing",
    WRONG_LOG: "not the main eventlog of a job: unusable",
    EMPTY: "no event in it: unusable",
    RANKS_UNKNOWN: "no R was given: ranks are from the alloc annotation, or unknown ('all')",
    RANKS_NOT_IN_R: "an event or an option names ranks that are not the job's",
    BAD_R: "R is not as RFC 20 wants it; the text says whether its ranks are used",
    LOST_CLAIM: "a scheduler-restart exception: the job has no claim on its ranks any more",
}
