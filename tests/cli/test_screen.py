"""Tables are whole wherever they are printed."""

import pytest

from tidemill.cli import screen


def test_a_table_is_whole_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]):
    """However long names are: headers and numbers at the end of a line are not cut off."""
    made = screen.table("node group", "GPU type", "is paid", "paid", "not schedulable $/h",
                        right_from=3)  # fmt: skip
    for name in ("x" * 70, "H100 x4 (96 CPUs, 1048576 MiB) (savings plan A-B) (2)"):
        made.add_row(name, "1/2 OF 1G.10GB OF NVIDIA-H100-80GB-HBM3", "while it is there, " * 3,
                     "1,234", "$1,234,567.00")  # fmt: skip
    screen.out().print(made)
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.rstrip().endswith("not schedulable $/h")
    assert sum("$1,234,567.00" in row for row in rows) == 2
    assert "NVIDIA-H100-80GB-HBM3" in "".join(rows)
