"""Names of jobs, kept as letters and found by a table of hashes."""

import random

import pytest

from tidemill.model.job_names import JobNames


def test_names_and_users_are_those_of_lists_and_a_dictionary():
    """Added one by one and many at once, names are read, found and missed as in a dictionary."""
    chance = random.Random(3)
    names, listed, users, numbers = JobNames(), list[str](), list[str](), dict[str, int]()
    for block in range(60):
        new = [f"job-{block}-{chance.choice(['', 'é', '工', 'x' * 40])}-{i}" for i in range(block)]
        by = [chance.choice(["ana", "bo", ""]) for _ in new]
        if block % 3:
            names.extend(new, by)
        else:
            for name, user in zip(new, by, strict=True):
                names.append(name, user)
        numbers |= {name: len(listed) + i for i, name in enumerate(new)}
        listed += new
        users += by
    assert names == listed
    assert names.users == users
    assert names[:] == listed
    assert names[-1] == listed[-1]
    assert [names[j] for j in range(len(names))] == listed
    assert dict(names.numbers) == numbers
    assert "nobody" not in names.numbers
    assert names.numbers.get("nobody") is None
    assert not names.has_any({f"other {i}" for i in range(500)})
    assert names.has_any({*(f"other {i}" for i in range(500)), listed[1000]})
    with pytest.raises(IndexError):
        names[len(listed)]


def test_more_names_than_are_handled_at_once():
    """Tables grow under ten thousand names that come together, and all are found."""
    listed = [f"{i:x}" for i in range(10_000)]
    names = JobNames(listed, [""] * len(listed))
    assert all(names.numbers[name] == j for j, name in enumerate(listed))
    assert [*names] == listed
    assert len([*names.chunks()]) == 3


def test_a_copy_is_its_own():
    """What is added to a copy, or forgotten in it, is not so in the original."""
    names = JobNames(["a", "b"], ["ana", ""])
    copy = names.copy()
    copy.forget("a")
    assert "a" not in copy.numbers
    copy.extend(["a", "c"], ["bo", "cy"])
    assert (copy.numbers["a"], copy.numbers["c"], copy[0]) == (2, 3, "a")
    assert copy.users == ["ana", "", "bo", "cy"]
    assert ([*names], [*names.users], names.numbers["a"]) == (["a", "b"], ["ana", ""], 0)
    assert "c" not in names.numbers


def test_a_letter_is_found_in_any_name():
    """Among those put away, and among the last."""
    listed = [f"n{i}" for i in range(9_000)]
    names = JobNames(listed, [""] * 9_000)
    assert [names.hold(letter) for letter in "n-"] == [True, False]
    names.append("last-one", "")
    assert names.hold("-")
    listed[4_500] = "a-b"
    assert JobNames(listed, [""] * 9_000).hold("-")
    assert not JobNames().hold("-")


def test_a_name_that_was_forgotten_is_of_the_next_job_that_has_it():
    """Also when both are put away together, or long after the first was."""
    names = JobNames(["early"], [""])
    names.extend([f"a{i}" for i in range(5_000)], [""] * 5_000)
    for name in ("early", "a4999"):
        names.forget(name)
        assert name not in names.numbers
        names.append(name, "")
    names.extend([f"b{i}" for i in range(5_000)], [""] * 5_000)
    assert (names.numbers["early"], names.numbers["a4999"]) == (5_001, 5_002)
    assert (names[0], names[5_000]) == ("early", "a4999")
