"""How often the compiled loop comes back to Python: at once in ten jobs it is the loop no more."""

from typing import Any

from tidemill.engine.loop import Loop
from tidemill.twin.backend import Twin
from tidemill.twin.driving.driver import Driver


class CountedTwin(Twin):
    """A twin that remembers who drives it."""

    counted: Driver

    def driver(self, loop: Loop) -> Driver:
        """Who makes many beats at once."""
        self.counted = super().driver(loop)
        return self.counted

    def returns(self, jobs: int) -> dict[str, Any]:
        """How often the loop came back in all, per 1,000 jobs, and by why."""
        codes, answers = self.counted.codes, self.counted.answers
        count = sum(codes.values())
        why = {code.name: times for code, times in codes.items() if times}
        asked = {f"ANSWER {code.name}": times for code, times in answers.items() if times}
        return {
            "returns": count,
            "returns_per_1000_jobs": round(1000 * count / max(1, jobs), 1),
            "why_it_returned": why | asked,
        }
