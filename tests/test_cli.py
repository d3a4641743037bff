# SPDX-License-Identifier: LGPL-3.0
"""The command as a user meets it: arguments, output, exit status."""

import gzip
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from replay_log import RELEASED, finish, start, write

PROJECT = Path(__file__).resolve().parents[1]
GOOD = write([*RELEASED, start(101, "a"), finish(150, "a"), (150, "free"), (151, "clean")])
OPEN = write([*RELEASED, start(101, "dws"), (500, "memo", {})])
R = {
    "version": 1,
    "execution": {"R_lite": [{"rank": "5-8", "children": {"core": "0"}}], "nodelist": ["n[1-4]"]},
}


def run(*args, data=b"", env=None):
    """Run the command; return (status, output, errors)."""
    done = subprocess.run(
        [sys.executable, "-m", "epilog_replay", *map(str, args)],
        input=data,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(PROJECT), **(env or {})},
        timeout=60,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def records(*args, **kwargs):
    """Run with --json; return (status, records)."""
    status, output, errors = run("--json", *args, **kwargs)
    assert errors == ""
    return status, [json.loads(text) for text in output.splitlines()]


@pytest.fixture
def folder(tmp_path):
    """A folder with logs, one with an R beside it, one in a folder below, and other files."""
    (tmp_path / "one.eventlog").write_bytes(GOOD)
    (tmp_path / "one.R.json").write_text(json.dumps(R))
    (tmp_path / "two.eventlog.gz").write_bytes(gzip.compress(OPEN))
    (tmp_path / "notes.md").write_text("no log")
    (tmp_path / "dump" / "job.0000.0001.0000.0000").mkdir(parents=True)
    inner = tmp_path / "dump" / "job.0000.0001.0000.0000"
    (inner / "eventlog").write_bytes(GOOD)
    (inner / "R").write_text(json.dumps(R))
    return tmp_path


def test_keys_of_the_record_are_in_the_order_documented(folder):
    status, (found,) = records(folder / "one.eventlog")
    assert status == 0
    keys = (
        "log id ranks nranks bypass lost state t_end actions handoffs held gone holders blocker"
        " held_node_seconds waited_node_seconds what_if warnings"
    )
    assert list(found) == keys.split()
    assert list(found["actions"][0]) == "kind description start end status intervals".split()
    assert list(found["actions"][0]["intervals"][0]) == ["ranks", "start", "end"]
    assert list(found["handoffs"][0]) == ["timestamp", "ranks", "event"]
    readme = (PROJECT / "epilog_replay/README.md").read_text()
    assert all(f"`{key}`" in readme for key in keys.split())


def test_folder_gives_each_log_in_it_by_name(folder):
    status, found = records(folder)
    assert status == 0
    assert [Path(r["log"]).relative_to(folder).parts[0] for r in found] == [
        "one.eventlog",
        "two.eventlog.gz",
        "dump",
    ]
    assert [r["ranks"] for r in found] == ["5-8", "all", "5-8"]
    assert [r["id"] for r in found] == [None, None, "job.0000.0001.0000.0000"]


def test_standard_input(folder):
    status, (found,) = records("-", "--ranks", "0-1", data=OPEN)
    assert (status, found["log"], found["held"]) == (0, "-", "0-1")
    status, (found,) = records("-", data=gzip.compress(GOOD))
    assert (status, found["state"]) == (0, "inactive")


@pytest.mark.parametrize(
    ("name", "jobid"),
    [
        ("ƒ2WAJKWFxWK.eventlog", "ƒ2WAJKWFxWK"),
        ("1234.eventlog.gz", "1234"),
        ("stuck.eventlog", None),
        ("12-a.eventlog", None),
    ],
)
def test_id_is_the_name_of_the_file_if_that_is_one(tmp_path, name, jobid):
    (tmp_path / name).write_bytes(GOOD)
    assert records(tmp_path / name)[1][0]["id"] == jobid


def test_R_of_the_options_outweighs_the_one_beside(folder):
    other = folder / "other.json"
    other.write_text(json.dumps(R).replace("5-8", "0-3"))
    assert records("--R", other, folder / "one.eventlog")[1][0]["ranks"] == "0-3"
    assert records("--ranks", "1,3", folder / "one.eventlog")[1][0]["ranks"] == "1,3"


def test_bad_R_is_said_and_not_used(folder):
    (folder / "one.R.json").write_text("{")
    status, (found,) = records(folder / "one.eventlog")
    assert (status, found["ranks"]) == (0, "all")
    assert [w["code"] for w in found["warnings"]] == ["bad-R", "ranks-unknown"]
    assert "one.R.json" in found["warnings"][0]["text"]
    status, (found,) = records("--R", folder / "one.R.json", folder / "one.eventlog", "--strict")
    assert (status, found["warnings"][0]["code"]) == (1, "bad-R")


def test_what_if_outside_R(folder):
    args = ("--what-if", "a=0,5", folder / "one.eventlog")
    status, (found,) = records(*args)
    assert [w["code"] for w in found["warnings"]] == ["ranks-not-in-R"]
    assert found["what_if"]["returned_node_seconds"] == 3 * (150 - 101)


@pytest.mark.parametrize(
    ("data", "strict", "status"),
    [
        (GOOD, False, 0),
        (GOOD, True, 0),
        (GOOD + b"{\n", False, 0),
        (GOOD + b"{\n", True, 1),
        (b"", False, 1),
        (b"junk\n", False, 1),
    ],
)
def test_exit_status(tmp_path, data, strict, status):
    path = tmp_path / "x.eventlog"
    path.write_bytes(data)
    options = ["--strict"] if strict else []
    for form in ([], ["--json"]):
        found, output, errors = run(*form, *options, "--ranks", "0-3", path)
        assert (found, errors) == (status, "")
        assert output


def test_one_bad_log_does_not_stop_the_others(folder):
    status, found = records(folder / "absent", folder, folder / "one.eventlog")
    assert (status, len(found)) == (1, 5)
    assert (found[0]["state"], found[0]["warnings"][0]["code"]) == (None, "wrong-log")
    assert "No such file" in found[0]["warnings"][0]["text"]


def test_folder_without_logs(tmp_path):
    status, (found,) = records(tmp_path)
    assert status == 1
    assert "*.eventlog" in found["warnings"][0]["text"]


def test_gz_that_is_cut_off_or_none(tmp_path):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(GOOD)[:-20])
    status, (found,) = records("--ranks", "0", path)
    assert status == 0
    assert "cut-line" in [w["code"] for w in found["warnings"]]
    path.write_bytes(b"\x1f\x8bjunk")
    status, (found,) = records(path)
    assert (status, found["warnings"][0]["code"]) == (1, "wrong-log")
    path.write_bytes(gzip.compress(GOOD[:100]) + gzip.compress(GOOD[100:]))
    assert records("--ranks", "0", path)[1][0]["warnings"] == []


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "LOG"),
        (["--frobnicate", "x"], "--frobnicate"),
        (["--ranks", "0-", "x"], "--ranks '0-'"),
        (["--ranks", "", "x"], "--ranks"),
        (["--R", "/nonexistent", "x"], "/nonexistent: No such file"),
        (["--R", "a", "--ranks", "0", "x"], "exclude"),
        (["--what-if", "dws", "x"], "DESC=RANKS"),
        (["--what-if", "a=", "--what-if", "a=0", "x"], "twice"),
        (["--plot", "x.pdf", "x"], ".svg or .png"),
        (["-", "-"], "once"),
    ],
)
def test_usage(args, says):
    status, output, errors = run(*args)
    assert (status, output) == (2, "")
    assert errors.startswith("flux-epilog-replay: ") and errors.count("\n") == 1
    assert says in errors


def test_help_names_every_code():
    from epilog_replay import codes

    status, output, errors = run("--help")
    assert (status, errors) == (0, "")
    assert all(f"  {code} " in output for code in codes.MEANING)
    for code in codes.MEANING:
        assert f"`{code}`" in (PROJECT / "epilog_replay/README.md").read_text()


def test_block_of_one_log(folder):
    status, output, errors = run("--what-if", "dws=0", "--ranks", "0-3", folder / "two.eventlog.gz")
    assert (status, errors) == (0, "")
    for text in (
        "ranks 0-3 (4 ranks)",
        "state cleanup",
        "waits for epilog dws on ranks 0-3 since 2023-11-14 22:15:01.000Z (6m39s by",
        "1,596.0",
        "waited 1,600.0 node-seconds",
        "2023-11-14 22:15:01.000Z  1-3",
        "what if: 1,197.0 node-seconds returned, 403.0 waited",
    ):
        assert text in output


def test_lines_and_totals_of_many_logs(folder):
    (folder / "bad.eventlog").write_bytes(b"{\n" + GOOD[:-5])
    status, output, errors = run("--what-if", "dws=", folder)
    assert status == 0
    lines = output.splitlines()
    assert lines[0].split()[:2] == ["log", "state"]
    assert "bad.eventlog" in lines[1] and "bad-json:1 cut-line:13" in lines[1]
    assert "waits for" in lines[0] and "epilog dws on ranks all" in output
    assert any(text.split()[:3] == ["epilog", "a", "3"] for text in lines)
    assert lines[-1].startswith("4 logs, 0 unusable, 2 with warnings")


def test_rule_for_an_action_that_no_log_has(folder):
    status, _, errors = run("--what-if", "nnf=", folder)
    assert status == 0
    assert errors == "flux-epilog-replay: --what-if nnf: no log has such an epilog\n"


def test_text_of_a_log_can_not_upset_the_terminal(tmp_path):
    path = tmp_path / "x.eventlog"
    path.write_bytes(write([*RELEASED, start(101, "a\x1b[31m[bold]\nb"), (102, "memo", {})]))
    for args in ((path,), (path, path)):
        _, output, _ = run("--ranks", "0", *args)
        assert "\x1b" not in output
        assert "a?[31m[bold]?b" in output


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_reader_that_leaves_early(tmp_path, form):
    for index in range(400):
        (tmp_path / f"{index}.eventlog").write_bytes(OPEN)
    command = [sys.executable, "-m", "epilog_replay", *form, str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(PROJECT)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, env=env) as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_progress_is_for_a_terminal_only(tmp_path):
    for index in range(300):
        (tmp_path / f"{index}.eventlog").write_bytes(GOOD)
    assert run("--json", tmp_path)[2] == ""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "epilog_replay", "--json", str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(PROJECT)}
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=follower, env=env, check=True)
    os.close(follower)
    assert b"250 logs read" in os.read(leader, 4096)
    os.close(leader)


def test_plot(folder):
    pytest.importorskip("matplotlib")
    path = folder / "x.svg"
    status, _, errors = run("--plot", path, folder)
    assert (status, errors) == (0, f"flux-epilog-replay: plot written to {path}\n")
    assert path.stat().st_size > 1000
    status, _, errors = run("--plot", folder / "none" / "x.png", folder)
    assert status == 1
    assert errors.count("\n") == 1 and "No such file" in errors
    status, _, errors = run("--plot", path, *[folder] * 3)
    assert status == 2
    assert "8 logs at most" in errors


def test_plot_without_matplotlib(folder):
    (folder / "matplotlib.py").write_text("raise ImportError('gone')")
    env = {"PYTHONPATH": f"{folder}{os.pathsep}{PROJECT}"}
    status, _, errors = run("--plot", folder / "x.png", folder / "one.eventlog", env=env)
    assert status == 1
    assert errors.count("\n") == 1 and "matplotlib" in errors and "pip install" in errors


def test_command_is_installed():
    command = Path(sys.executable).parent / "flux-epilog-replay"
    if not command.exists():
        pytest.skip("the project is not installed in this Python")
    done = subprocess.run([command, "--ranks", "0", "-"], input=GOOD, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
