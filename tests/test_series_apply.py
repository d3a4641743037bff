# SPDX-License-Identifier: LGPL-3.0
"""scripts/series apply, and what it refuses: all or nothing, on the branch or nowhere."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

from patchset import branch as branches
from patchset import series as series_file
from patchset.refusal import Refusal
from patchset.repo import Repo, open_repo
from series_clone import (
    BRANCH,
    ENV,
    commit,
    git,
    make_branch,
    make_clone,
    make_upstream,
    ok,
    refused,
    series,
    snapshot,
    state,
    write,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(upstream, project with a series, clone with the branch it came from); to be copied."""
    folder = tmp_path_factory.mktemp("a path with a space")
    upstream = make_upstream(folder / "up stream")
    clone = make_clone(upstream, folder / "clone")
    make_branch(clone)
    project = folder / "project"
    project.mkdir()
    ok(series(project, "refresh", clone))
    return upstream, project, clone


@pytest.fixture
def clone(made, tmp_path):
    """A clone with v0.88.0 checked out."""
    return make_clone(made[0], tmp_path / "a clone")


@pytest.fixture
def project(made, tmp_path):
    """A project with a series, to be changed."""
    return shutil.copytree(made[1], tmp_path / "project", symlinks=True)


def test_apply_makes_the_same_trees_and_checks_them_out(made, clone):
    said = ok(series(made[1], "apply", clone))
    assert said.count("\n") == 1 and "3 patches, 4 new files" in said
    assert git(clone, "symbolic-ref", "HEAD") == f"refs/heads/{BRANCH}"
    for back in range(4):
        for form in ("%T", "%an %ae %at %ad %B"):
            args = ("log", "-1", f"--format={form}", f"{BRANCH}~{back}")
            assert git(clone, *args) == git(made[2], *args)
    assert snapshot(clone) == snapshot(made[2])
    assert git(clone, "status", "--porcelain", "--ignored") == ""
    assert git(clone, "log", "--format=%cn %ct", "-1") == "A Committer 1700000000"


def test_apply_twice_gives_the_same_ids_and_deleting_the_branch_undoes_it(made, clone):
    before = state(clone)
    ok(series(made[1], "apply", clone))
    first = git(clone, "rev-parse", BRANCH)
    git(clone, "checkout", "--quiet", "--detach", "v0.88.0")
    git(clone, "branch", "-D", BRANCH)
    assert state(clone) == before
    ok(series(made[1], "apply", clone))
    assert git(clone, "rev-parse", BRANCH) == first


def test_a_committer_is_found_where_git_knows_none(made, clone, tmp_path):
    bare = {"GIT_COMMITTER_NAME": "", "GIT_COMMITTER_EMAIL": "", "HOME": str(tmp_path)}
    ok(series(made[1], "apply", clone, env=bare))
    assert git(clone, "log", "-1", "--format=%cn <%ce>") == "An Author <author@example.org>"


def test_settings_and_hooks_of_the_user_change_nothing(made, clone, tmp_path):
    settings = {
        "apply.whitespace": "fix",
        "color.ui": "always",
        "commit.gpgSign": "true",
        "core.quotePath": "true",
        "core.whitespace": "tab-in-indent",
        "diff.algorithm": "histogram",
        "diff.context": "9",
        "diff.external": "/bin/false",
        "diff.mnemonicPrefix": "true",
        "diff.noprefix": "true",
        "i18n.commitEncoding": "latin1",
        "status.relativePaths": "true",
        "status.short": "true",
    }
    for key, value in settings.items():
        git(clone, "config", key, value)
    for name in ("post-checkout", "reference-transaction"):
        write(clone, {f".git/hooks/{name}*": "#!/bin/sh\nexit 1\n"})
    foreign = {"GIT_DIR": str(tmp_path), "GIT_INDEX_FILE": str(tmp_path / "index")}
    ok(series(made[1], "apply", clone, env=foreign))
    assert git(clone, "rev-parse", f"{BRANCH}^{{tree}}") == git(made[2], "rev-parse", "HEAD^{tree}")
    project = shutil.copytree(made[1], tmp_path / "project", symlinks=True)
    assert " 0 files changed" in ok(series(project, "refresh", clone, env=foreign))
    ok(series(made[1], "export", clone, tmp_path / "out"))
    assert (tmp_path / "out/0001-job-manager-add-new.c.patch").read_text().count("--- a/src/") == 1


def test_from_a_subfolder_and_by_a_link(made, clone, tmp_path):
    (tmp_path / "link").symlink_to(clone)
    ok(series(made[1], "apply", tmp_path / "link/src"))
    assert "holds the series" in ok(series(made[1], "verify", clone / "t"))


def test_head_may_have_commits_of_its_own(made, clone):
    own = commit(clone, "local change", {"README.md": "ours\n"})
    ok(series(made[1], "apply", clone))
    assert git(clone, "rev-parse", f"{BRANCH}~3") == own
    assert "holds the series" in ok(series(made[1], "verify", clone))
    assert "applied (3 of 3)" in ok(series(made[1], "status", clone))


@pytest.mark.parametrize("start", ["v0.64.0", "v0.67.0", "master"])
def test_the_base_is_found_by_its_tag(made, clone, start):
    git(clone, "checkout", "--quiet", start)
    ok(series(made[1], "apply", clone))
    expected = (
        "v0.89.0" if start == "master" else "v0.88.0"
    )  # master: the touched files are the same
    assert git(clone, "rev-parse", f"{BRANCH}~3") == git(
        clone, "rev-parse", f"{expected}^{{commit}}"
    )


def test_wrong_base(made, clone):
    git(clone, "checkout", "--quiet", "--detach", "v0.64.0")
    git(clone, "remote", "remove", "origin")
    git(clone, "branch", "-D", "master")
    for tag in ("v0.65.0", "v0.66.0", "v0.67.0", "v0.88.0", "v0.89.0"):
        git(clone, "tag", "-d", tag)
    git(clone, "reflog", "expire", "--expire=now", "--all")
    git(clone, "gc", "--quiet", "--prune=now")
    before = state(clone)
    line = refused(series(made[1], "apply", clone))
    assert "wrong base" in line and "src/main.c is not as in v0.88.0" in line
    assert "fetch --tags" in line
    assert state(clone) == before


def test_dirty_tree(made, clone):
    for change in ("changed", None):
        path = clone / "README.md"
        path.write_text(change) if change else path.unlink()
        before = state(clone)
        line = refused(series(made[1], "apply", clone))
        assert (
            "work tree not clean (README.md changed)" in line and "commit, finish or stash" in line
        )
        assert state(clone) == before


def test_staged_change(made, clone):
    write(clone, {"new file": "x"})
    git(clone, "add", "new file")
    assert "(new file changed)" in refused(series(made[1], "apply", clone))


def test_rebase_under_way(made, clone):
    git(clone, "checkout", "--quiet", "-b", "side")
    commit(clone, "side", {"README.md": "side\n"})
    git(clone, "-c", "sequence.editor=sed -i s/pick/edit/", "rebase", "--quiet", "-i", "HEAD~1")
    assert "(rebase under way)" in refused(series(made[1], "apply", clone))


def test_untracked_files_of_the_user_stay(made, clone):
    write(clone, {"notes": "mine\n", ".git/info/exclude": "ignored\nsrc/new.c\n", "ignored": "x"})
    ok(series(made[1], "apply", clone))
    assert (clone / "notes").read_text() == "mine\n" and (clone / "ignored").exists()


@pytest.mark.parametrize("name", ["src/new.c", "doc/new page.rst"])
@pytest.mark.parametrize("ignored", [False, True])
def test_an_untracked_file_in_the_way(made, clone, name, ignored):
    write(clone, {name: "mine\n"})
    if ignored:
        write(clone, {".git/info/exclude": f"{name}\n"})
    before = state(clone)
    line = refused(series(made[1], "apply", clone))
    assert f"{name}: untracked" in line and "move it away" in line
    assert state(clone) == before


def test_a_file_in_place_of_a_folder(made, clone):
    write(clone, {"doc": "a file\n"})
    before = state(clone)
    refused(series(made[1], "apply", clone))
    assert state(clone) == before


def test_applied_already(made, clone):
    ok(series(made[1], "apply", clone))
    before = state(clone)
    line = refused(series(made[1], "apply", clone))
    assert "exists, applied (3 of 3)" in line
    assert f"git -C {clone} checkout v0.88.0 && git -C {clone} branch -D {BRANCH}" in line
    assert state(clone) == before


def test_half_applied(made, clone):
    ok(series(made[1], "apply", clone))
    git(clone, "checkout", "--quiet", "--detach", "v0.88.0")
    git(clone, "branch", "--force", BRANCH, f"{BRANCH}~1")
    assert f"{BRANCH}: half applied (2 of 3)" in ok(series(made[1], "status", clone))
    before = state(clone)
    line = refused(series(made[1], "apply", clone))
    assert "exists, half applied (2 of 3)" in line
    assert line.rstrip().endswith(f"begin anew: git -C {clone} branch -D {BRANCH}")
    assert state(clone) == before
    ok(series(made[1], "apply", "--again", clone))
    assert "holds the series" in ok(series(made[1], "verify", clone))


def test_a_branch_of_the_same_name_that_is_something_else(made, clone):
    git(clone, "branch", BRANCH, "v0.64.0")
    before = state(clone)
    assert "exists, differs (" in refused(series(made[1], "apply", clone))
    assert "run refresh, or drop it" in refused(series(made[1], "apply", "--again", clone))
    assert state(clone) == before
    ok(series(made[1], "apply", "--branch", "another/name", clone))
    assert git(clone, "symbolic-ref", "--short", "HEAD") == "another/name"


def test_no_clone_at_all(made, clone, tmp_path):
    assert "no such folder" in refused(series(made[1], "apply", tmp_path / "none"))
    assert "not a git repository" in refused(series(made[1], "apply", made[1]))
    git(clone, "clone", "--quiet", "--bare", str(clone), str(tmp_path / "bare"))
    assert "no work tree" in refused(series(made[1], "apply", tmp_path / "bare"))
    git(tmp_path, "init", "--quiet", "empty")
    assert "HEAD has no commit" in refused(series(made[1], "apply", tmp_path / "empty"))
    assert "not a name for a branch" in refused(series(made[1], "apply", "--branch", "a..b", clone))
    assert "git: not found" in refused(series(made[1], "apply", clone, env={"PATH": str(tmp_path)}))


def test_usage(made):
    assert series(made[1], "apply").returncode == 2
    assert series(made[1], "shake", "x").returncode == 2


def test_sparse_clone_that_lacks_a_blob(made, tmp_path):
    upstream = shutil.copytree(made[0], tmp_path / "upstream")
    blob = git(upstream, "rev-parse", "v0.88.0:t/big.eventlog")
    (upstream / ".git/objects" / blob[:2] / blob[2:]).unlink()
    clone = tmp_path / "clone"
    git(upstream, "clone", "--quiet", "--no-checkout", "--shared", str(upstream), str(clone))
    git(clone, "sparse-checkout", "set", "--no-cone", "/*", "!/t/big.eventlog")
    git(clone, "checkout", "--quiet", "--detach", "v0.88.0")
    project = shutil.copytree(made[1], tmp_path / "project", symlinks=True)
    ok(series(project, "apply", clone))
    assert not (clone / "t/big.eventlog").exists() and (clone / "t/t2290-new.t").exists()
    assert git(clone, "status", "--porcelain") == ""
    assert "3 patches" in ok(series(project, "verify", clone))
    assert " 0 files changed" in ok(series(project, "refresh", clone))
    assert series(project, "port", "--dry-run", clone, "v0.64.0", "master").returncode == 0
    ok(series(project, "export", clone, tmp_path / "out"))
    tree = f"{BRANCH}^{{tree}}"
    assert git(clone, "rev-parse", tree) == git(made[2], "rev-parse", tree)


def test_overlay_edit_goes_to_the_branch_again(project, clone):
    git(project, "init", "--quiet")
    commit(project, "series", {})
    ok(series(project, "apply", clone))
    write(project, {"src/new.c": "int newer;\n"})
    assert "src/new.c: stale" in series(project, "verify", "--tree", clone).stdout
    stamp = (clone / "src/main.c").stat().st_mtime_ns
    before = git(clone, "rev-parse", BRANCH)
    ok(series(project, "apply", "--again", clone))
    assert (clone / "src/new.c").read_text() == "int newer;\n"
    assert (clone / "src/main.c").stat().st_mtime_ns == stamp  # or all of it would be built anew
    assert git(clone, "rev-parse", BRANCH) != before
    assert "holds the series" in ok(series(project, "verify", clone))


def test_again_loses_no_edit_of_the_branch(project, clone):
    git(project, "init", "--quiet")
    commit(project, "series", {})
    ok(series(project, "apply", clone))
    git(clone, "checkout", "--quiet", BRANCH + "~0")
    write(clone, {"doc/new page.rst": "edited on the branch\n"})
    git(clone, "commit", "--quiet", "--all", "--amend", "--no-edit")
    git(clone, "checkout", "--quiet", "-B", BRANCH)
    before = state(clone)
    line = refused(series(project, "apply", "--again", clone))
    assert "doc/new page.rst differs in commit" in line and "run refresh" in line
    assert state(clone) == before


def applied_or_nothing(clone, before, project) -> bool:
    """Whether a clone holds all of the branch; it must be untouched if not."""
    if git(clone, "for-each-ref", f"refs/heads/{BRANCH}"):
        assert "holds the series" in ok(series(project, "verify", clone))
        assert git(clone, "symbolic-ref", "--short", "HEAD") == BRANCH
        assert git(clone, "status", "--porcelain", "--ignored") == ""
        return True
    assert state(clone) == before
    return False


@pytest.mark.parametrize(
    ("moment", "start"), [("before", "v0.88.0"), ("after", "a branch"), ("interrupt", "v0.64.0")]
)
def test_a_failure_at_any_step_leaves_nothing(made, clone, monkeypatch, moment, start):
    """git fails at call k, before or after it did its work, or the user interrupts it there."""
    for key, value in ENV.items():
        monkeypatch.setenv(key, value)
    if start == "a branch":
        git(clone, "checkout", "--quiet", "-b", "side")
    else:
        git(clone, "checkout", "--quiet", "--detach", start)
    before = state(clone)
    one = series_file.load(made[1])
    run = Repo.run
    calls = 0

    def failing(self, *args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == step and moment == "before":
            raise Refusal("git fails here")
        done = run(self, *args, **kwargs)
        if calls == step:
            raise KeyboardInterrupt if moment == "interrupt" else Refusal("git fails here")
        return done

    monkeypatch.setattr(Repo, "run", failing)
    for step in range(1, 200):
        calls = 0
        try:
            branches.apply(open_repo(clone), one, BRANCH)
        except (Refusal, KeyboardInterrupt) as exc:
            assert "could not take the branch back" not in str(exc)
            assert state(clone) == before, f"after call {step}"
        else:
            break
    assert 20 < step < 200
    assert applied_or_nothing(clone, before, made[1])


@pytest.mark.parametrize("again", [False, True])
def test_again_takes_a_failure_back_to_the_old_branch(project, clone, monkeypatch, again):
    git(project, "init", "--quiet")
    commit(project, "series", {})
    ok(series(project, "apply", clone))
    write(project, {"src/new.c": "int newer;\n"})
    if again:  # from elsewhere
        git(clone, "checkout", "--quiet", "--detach", "v0.64.0")
    before = state(clone)
    run = Repo.run
    failed = []

    def failing(self, *args, **kwargs):
        done = run(self, *args, **kwargs)
        if args[0] == "checkout" and not failed:
            failed.append(args)
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(Repo, "run", failing)
    for key, value in ENV.items():
        monkeypatch.setenv(key, value)
    with pytest.raises(KeyboardInterrupt):
        branches.apply(open_repo(clone), series_file.load(project), BRANCH, again=True)
    assert failed and state(clone) == before


def fake_git(folder, command: str, script: str) -> dict[str, str]:
    """Environment in which git runs a shell script (at the clone, real git is $GIT) in place of the
    first call of a command."""
    write(
        folder,
        {
            "bin/git*": f"""#!/bin/sh
GIT="{shutil.which("git")}"
case " $* " in
*" {command} "*)
    if mkdir "$0.once" 2>/dev/null; then
        {script}
    fi
esac
exec "$GIT" "$@"
"""
        },
    )
    return {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("command", ["write-tree", "checkout"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_between_steps(made, clone, tmp_path, signum, command, moment):
    work = '"$GIT" "$@";' if moment == "after" else ""
    kill = f"{work} kill -{int(signum)} $PPID; sleep 0.1; exit 1"
    before = state(clone)
    done = series(made[1], "apply", clone, env=fake_git(tmp_path, command, kill))
    if signum == signal.SIGKILL:
        assert done.returncode == -signum
    else:
        assert refused(done).endswith("interrupted: run it again\n")
        assert state(clone) == before
    if not applied_or_nothing(clone, before, made[1]):
        ok(series(made[1], "apply", clone))


def test_a_checkout_that_breaks_off_half_way(made, clone, tmp_path):
    """git dies after it wrote some files: those it wrote go again, those it changed come back."""
    script = (
        'cd "$2"; mkdir doc; echo half > "doc/new page.rst"; echo half >> src/main.c; '
        "rm src/list.c; exit 128"
    )
    before = state(clone)
    done = series(made[1], "apply", clone, env=fake_git(tmp_path, "checkout", script))
    assert "git checkout: exit 128" in refused(done)
    assert state(clone) == before


def test_a_branch_that_can_not_be_taken_back(made, clone, tmp_path):
    """git dies in the checkout and in the way back: the line says what to run."""
    env = fake_git(tmp_path, "checkout", 'echo half >> "$2/src/main.c"; rmdir "$0.once"; exit 128')
    line = refused(series(made[1], "apply", clone, env=env))
    assert "could not take the branch back" in line
    assert f"git -C {clone} checkout -f {git(clone, 'rev-parse', 'HEAD')[:12]}" in line


def test_a_clone_that_another_git_has_locked(made, clone):
    before = state(clone)
    write(clone, {".git/index.lock": ""})
    line = refused(series(made[1], "apply", clone))
    assert "git checkout: fatal: Unable to create" in line and "index.lock" in line
    (clone / ".git/index.lock").unlink()
    assert state(clone) == before
