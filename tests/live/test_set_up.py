"""What the set-up of the tests' real servers says, and how it ends."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

SCRIPT = ROOT / "tools" / "kubernetes.sh"


@pytest.mark.parametrize(
    ("asked", "ci", "code"), [(("build",), "", 1), ((), "true", 1), ((), "", 0)]
)
def test_a_kubernetes_that_was_asked_for_and_cannot_be_built_is_a_failure(
    tmp_path: Path, asked: tuple[str, ...], ci: str, code: int
):
    """Without Go and without the package that has it: `build` and CI fail and say why; a plain
    `make test` says what is left out, and goes on.
    """
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here: the script would install it")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "dirname", "sed", "mkdir", "flock", "sort", "head", "openssl", "false"):
        found = shutil.which(name)
        assert found is not None, name
        (tools / name).symlink_to(found)
    env = {"PATH": str(tools), "HOME": str(tmp_path), "PYTHON": "false",
           "TIDEMILL_KUBERNETES": str(tmp_path / "kubernetes")}  # fmt: skip
    done = subprocess.run(
        ["bash", SCRIPT, *asked], env=env | ({"CI": ci} if ci else {}), capture_output=True,
        text=True, check=False, cwd=os.sep,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    if code:
        assert "no Go, and none could be installed; a real Kubernetes was asked for" in done.stderr
        assert "will skip" not in done.stderr
    else:
        assert "the tests with a real Kubernetes will skip" in done.stderr
    assert "hint: " in done.stderr
