"""Teams of a policy file that contradict each other are refused in words, before anything holds."""

from pathlib import Path

import pytest

from tidemill.cli.policy_file import PolicyFile
from tidemill.model.errors import SpecError


@pytest.mark.parametrize(
    ("teams", "words"),
    [
        ([("a", ""), ("b", ""), ("a", "")], "[[team]] 3 (`a`), `name`: the name of row 1 too"),
        ([("a", "b"), ("b", "a")], "a ring: `a` under `b` under `a`"),
        ([("a", "a")], "a ring: `a` under `a`"),
        ([("visoin", ""), ("a", "vision")], "there is no team `vision`"),
        ([("a", "b"), ("b", "")], ""),
    ],
)
def test_teams_that_contradict_each_other_are_refused(
    tmp_path: Path, teams: list[tuple[str, str]], words: str
):
    """One name twice, rings, and teams under nobody; in any order those that agree are taken."""
    path = tmp_path / "policy.toml"
    rows = (f'[[team]]\nname = "{name}"\n' + (f'parent = "{above}"\n' if above else "")
            for name, above in teams)  # fmt: skip
    path.write_text("\n".join(rows))
    if not words:
        assert [queue.name for queue in PolicyFile(path).read().fleet.queues] == ["b", "a"]
        return
    with pytest.raises(SpecError) as refused:
        PolicyFile(path).read()
    assert words in refused.value.message
    assert refused.value.hint
