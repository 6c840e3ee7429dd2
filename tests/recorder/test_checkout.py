"""The commit of a checkout, read from git's files: a branch, packed, detached, a worktree, none at all."""

from gpudoctor.recorder.checkout import checked_out

COMMIT = "9f2c41d07b1e5a6d3c2b1a09f8e7d6c5b4a39281"


def repository(folder, head, **files):
    git = folder / ".git"
    git.mkdir(parents=True)
    (git / "HEAD").write_text(head)
    for name, text in files.items():
        path = git / name.replace("__", "/").replace("_", "-")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_a_branch_a_packed_branch_and_a_detached_head(tmp_path):
    branch = repository(tmp_path / "a", "ref: refs/heads/main\n", refs__heads__main=COMMIT + "\n")
    below = branch / "deep" / "er"
    below.mkdir(parents=True)
    assert checked_out(branch) == checked_out(below) == COMMIT[:12]
    packed = f"# pack-refs with: peeled\n{'0' * 40} refs/heads/other\n{COMMIT} refs/heads/main\n"
    assert checked_out(repository(tmp_path / "b", "ref: refs/heads/main", packed_refs=packed)) == COMMIT[:12]
    assert checked_out(repository(tmp_path / "c", COMMIT)) == COMMIT[:12]


def test_a_worktree_shares_the_branches_of_its_main_checkout(tmp_path):
    main = repository(tmp_path / "main", "ref: refs/heads/main", refs__heads__topic=COMMIT)
    own = main / ".git" / "worktrees" / "topic"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/topic\n")
    (own / "commondir").write_text("../..\n")
    tree = tmp_path / "topic"
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {own}\n")
    assert checked_out(tree) == COMMIT[:12]


def test_nothing_is_invented(tmp_path):
    assert checked_out(repository(tmp_path / "new", "ref: refs/heads/main\n")) == ""
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / ".git").write_text("gitdir: /nowhere/at/all\n")
    assert checked_out(tmp_path / "odd") in ("", checked_out(tmp_path))
