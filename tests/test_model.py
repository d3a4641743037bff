# SPDX-License-Identifier: LGPL-3.0
"""The check of the Spin model finds what is wrong: in the model, in a rule, or in the machine.

The model's own run, which takes minutes, is `make model`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

MODEL = Path(__file__).resolve().parent.parent / "model"
SMALL = "-DRELOAD=1 -DPARTIAL=0"


def check(folder: Path, *args: str, **env: str) -> subprocess.CompletedProcess:
    """Run folder's check."""
    return subprocess.run(
        ["/bin/sh", str(folder / "check"), *args],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=600,
    )


def changed(folder: Path, head: str) -> Path:
    """A copy of the model, begun with these lines for the preprocessor."""
    shutil.copytree(MODEL, folder)
    model = folder / "handoff.pml"
    model.write_text(head + "\n" + model.read_text())
    return folder


def test_each_rule_is_taken_out() -> None:
    """A switch that no run uses, or a run with a switch that is not there, would prove nothing."""
    switch = r"BUG_[A-Z_]+"
    in_model = set(re.findall(rf"(?:ifdef|ifndef|defined \()\s*({switch})", model_text()))
    in_check = set(re.findall(rf"-D({switch})", (MODEL / "check").read_text()))
    assert len(in_model) > 20
    assert in_model == in_check


def test_each_property_can_be_violated() -> None:
    """Each text of MUST() is what some run ends with: none is true for want of trying."""
    texts = set(re.findall(r"MUST \((?:.|\n)*?, \"(.*?)\"\)", model_text()))
    wanted = set(re.findall(r"^\t([^:\n]+):-D", (MODEL / "check").read_text(), re.M)) - {"holds"}
    assert wanted == texts


def model_text() -> str:
    """The model."""
    return (MODEL / "handoff.pml").read_text()


def test_spin_is_missing(tmp_path: Path) -> None:
    """One line says what is missing, and the way out."""
    (tmp_path / "dirname").symlink_to(shutil.which("dirname") or "/usr/bin/dirname")
    run = check(MODEL, PATH=str(tmp_path))
    assert run.returncode == 2
    assert run.stderr == "model/check: spin is missing: install the Debian package spin\n"
    assert run.stdout == ""


if shutil.which("spin"):

    def test_a_configuration_holds() -> None:
        """It is said to, with the states that were seen."""
        run = check(MODEL, SMALL)
        assert run.returncode == 0, run.stdout + run.stderr
        assert re.fullmatch(rf"ok +\d{{3,}}  holds +{SMALL}.*\n", run.stdout)

    def test_a_fault_is_found(tmp_path: Path) -> None:
        """A configuration that does not hold fails, with the reason."""
        run = check(changed(tmp_path / "a model", "#define BUG_EXEC"), SMALL)
        assert run.returncode == 1
        assert re.match(r"WRONG +\d+  SSD under an action +", run.stdout)

    @pytest.mark.parametrize("rule", ["BUG_HELD", "BUG_FINAL"])
    def test_a_rule_is_not_missed(tmp_path: Path, rule: str) -> None:
        """A rule that can be taken out without being caught fails."""
        run = check(changed(tmp_path / "a model", f"#undef {rule}"), rule)
        assert run.returncode == 1
        assert re.match(r"WRONG +\d+  holds +", run.stdout)

    def test_a_model_that_is_no_model(tmp_path: Path) -> None:
        """A syntax error is no success."""
        run = check(changed(tmp_path / "a model", "inline"), SMALL)
        assert run.returncode == 1
        assert re.match(r"WRONG +0  no result: ", run.stdout)

    def test_no_such_configuration() -> None:
        """A text that picks nothing is refused."""
        run = check(MODEL, "-DNONSENSE")
        assert run.returncode == 2
        assert "no configuration has" in run.stderr
