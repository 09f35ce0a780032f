"""Published models, found by the names that people type.

Their figures are those that their authors print in a ``config.json``: ``published_models.csv``,
each with its source. Counts of parameters are not in it: they are computed from the figures
(``models.parameters``), and the tests compare them with what the authors publish; a row whose
authors publish no count says so in its source. Of a model that also sees, only the language model
is there.

Case, separators and an organisation in front do not matter, nor do the words at the end that say
how a model was tuned: ``meta-llama/Llama-3.1-70B-Instruct`` is ``llama-3.1-70b``.
"""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from tidemill.model.errors import SpecError
from tidemill.units import shipped
from tidemill.units.models import Model

ALIASES = {
    "gpt3": "gpt-3-175b", "gpt-3": "gpt-3-175b", "palm": "palm-540b", "mixtral": "mixtral-8x7b",
    "mt-nlg-530b": "megatron-530b", "megatron-1t": "megatron-1008b",
    "gpt-neox": "gpt-neox-20b", "mistral": "mistral-7b", "mistral-nemo": "mistral-nemo-12b",
    "mistral-small": "mistral-small-24b", "mistral-large": "mistral-large-123b",
    "phi-4-14b": "phi-4", "phi-3-mini-3.8b": "phi-3-mini", "phi-3-medium-14b": "phi-3-medium",
    "llama-4-scout-17b-16e": "llama-4-scout", "llama-4-maverick-17b-128e": "llama-4-maverick",
    "llama-4-scout-109b": "llama-4-scout", "llama-4-maverick-400b": "llama-4-maverick",
    "r1": "deepseek-r1", "deepseek-v3-671b": "deepseek-v3", "deepseek-r1-671b": "deepseek-r1",
    "deepseek-v3.1": "deepseek-v3", "qwq-32b": "qwen-2.5-32b", "kimi-k2-1t": "kimi-k2",
    "deepseek-r1-distill-llama-8b": "llama-3.1-8b",
    "deepseek-r1-distill-llama-70b": "llama-3.3-70b",
    "deepseek-r1-distill-qwen-7b": "qwen-2.5-7b", "deepseek-r1-distill-qwen-14b": "qwen-2.5-14b",
    "deepseek-r1-distill-qwen-32b": "qwen-2.5-32b",
}  # fmt: skip
MODELS: tuple[Model, ...] = shipped.rows("published_models.csv", Model)
_TUNED = re.compile(
    r"instruct|chat|it|pt|hf|base|text|thinking|preview|v\d[\d.]*|\d{4}|\d+k"  # how it was tuned
)


class Zoo:
    """Models by key. Rows that come later replace earlier ones of the same key."""

    def __init__(self, models: Iterable[Model] = ()) -> None:
        self.models = {model.key: model for model in (*MODELS, *models)}

    def model(self, name: str) -> Model:
        """The model of this name: ``llama-3-70b``, however it is joined or written."""
        found = self.find(name)
        if found is not None:
            return found
        near = self._near(name)
        raise SpecError(
            f"no model called `{name[:100]}` is known",
            hint=(f"did you mean {', '.join(f'`{key}`' for key in near)}? " if near else "")
            + "see `tidemill unit models`, or give its config.json (as Hugging Face has it), a "
            "TOML file, or --layers, --hidden and --heads",
        )

    def find(self, name: str) -> Model | None:
        """The same, or None."""
        keys = {_joined(model.key): model for model in self.models.values()}
        known = {_joined(alias): keys[_joined(key)] for alias, key in ALIASES.items()} | keys
        return next((known[form] for form in _forms(name) if form in known), None)

    def _near(self, name: str) -> list[str]:
        """Keys that are spelt like this name, the nearest first."""
        *_, shortest = _forms(name)
        by_form = {_joined(key): key for key in self.models}
        return [by_form[form] for form in get_close_matches(shortest, by_form, n=3, cutoff=0.5)]


def parameters_in(name: str) -> int | None:
    """The count that a bare size states (``13b``, ``1.5T``): a model of which only that is known.

    None for anything else.
    """
    stated = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([mbt])", name.strip().lower())
    if stated is None:
        return None
    return round(float(stated[1]) * {"m": 1e6, "b": 1e9, "t": 1e12}[stated[2]]) or None


def _forms(name: str) -> Iterator[str]:
    """The name as typed, then without each word at its end that says how it was tuned."""
    words = re.split(r"[-_ ]+", name.strip().lower().rpartition("/")[2].removeprefix("meta-"))
    yield _joined("-".join(words))
    while len(words) > 1 and _TUNED.fullmatch(words[-1]):
        words.pop()
        yield _joined("-".join(words))


def _joined(name: str) -> str:
    """``Llama3 70B`` and ``llama-3-70b`` are one."""
    return re.sub(r"[-_. ]+", "", name.lower())
