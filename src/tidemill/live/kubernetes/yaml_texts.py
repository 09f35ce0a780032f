"""What `kubectl get … -o yaml` prints, and what support bundles (must-gather) hold, as JSON.

Reading YAML takes some fifty times as long as JSON, so a long file is refused with the command that
writes JSON.
"""

import re
from pathlib import Path

import msgspec

from tidemill.live.kubernetes.texts import FileText
from tidemill.model.errors import SpecError

MOST_BYTES = 256 << 20
_LOOKED_AT = 1 << 16
_BEGINS = re.compile(rb"(?:---[^\n]*\n|#[^\n]*\n|[^\S\n]*\n)*(?:apiVersion|kind|items|metadata):")
_BETWEEN = re.compile(rb"^---[^\n]*$", re.MULTILINE)
_AS_JSON = "write it as JSON: kubectl get nodes,pods -A -o json > cluster.json"


def is_yaml(text: FileText) -> bool:
    """Whether a file is YAML of objects."""
    return _BEGINS.match(text.read(0, min(text.size, _LOOKED_AT))) is not None


def as_json(text: FileText, path: Path) -> FileText:
    """The same objects in JSON, one after the other."""
    if text.size > MOST_BYTES:
        raise SpecError(f"`{path}` is more than {MOST_BYTES >> 20} MiB of YAML", hint=_AS_JSON)
    whole = text.read(0, text.size)
    return FileText(b"\n".join(_document(one, path) for one in _BETWEEN.split(whole)))


def _document(text: bytes, path: Path) -> bytes:
    try:
        told = msgspec.yaml.decode(text)
    except msgspec.DecodeError as error:
        words = str(error).split("\n", 1)[0]
        raise SpecError(f"`{path}` is YAML that cannot be read: {words}", hint=_AS_JSON) from error
    return b"" if told is None else msgspec.json.encode(told)
