"""One stream per purpose."""

from tidemill.twin.streams import Streams


def test_order_of_making_does_not_matter():
    """A stream is the same whether it is made first or last."""
    first = Streams(7).of("arrivals").random(4).tolist()
    streams = Streams(7)
    streams.of("faults").random(100)
    assert streams.of("arrivals").random(4).tolist() == first


def test_purposes_numbers_and_seeds_are_told_apart():
    """Another purpose, number or seed is another stream."""
    draws = [
        Streams(7).of("arrivals").random(),
        Streams(7).of("faults").random(),
        Streams(7).of("faults", 1).random(),
        Streams(7).of("faults", 2).random(),
        Streams(8).of("arrivals").random(),
    ]
    assert len(set(draws)) == len(draws)
