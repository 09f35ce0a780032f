"""What the program prints is in the field's words."""

from tests.tidy import printed


def test_printed_text_has_no_house_words():
    """Messages, help, labels and reference texts say what Kubernetes and Slurm people say."""
    wrong = [found for found in printed.found() if (found.path, found.word) not in printed.ALLOWED]
    told = [f"{f.path}:{f.line}: {f.word!r}, say {f.say!r}: {f.text[:80]}" for f in wrong]
    assert not told, "\n".join(told)


def test_counts_agree_with_their_nouns():
    """No number stands right before a plural, for it may be 1: one function writes both."""
    assert not printed.counted()


def test_every_exception_is_used():
    """An allowed house word that is no longer printed is removed from the list."""
    found = {(one.path, one.word) for one in printed.found()}
    assert set(printed.ALLOWED) == found & set(printed.ALLOWED)


def test_texts_of_all_sorts_are_read():
    """Literals, pieces of f-strings, command help and field texts are among what is looked at."""
    texts = "\n".join(text for _, _, text in printed.printed())
    assert "only part of the gang fits" in texts  # a cause
    assert "\nGPU type\n" in texts  # a heading of a table
    assert " never fits: " in texts  # a piece of an f-string
    assert "Where every paid millisecond went" in texts  # the help of a command
    assert "Whether higher priority evicts lower within a team." in texts  # a field of the policy
