"""What an importer may be told: that which a trace does not say."""

from typing import Annotated

from msgspec import Meta, Struct

from tidemill.model.measures import ONE_PPM
from tidemill.model.rows import MAX_DEVICES


class Options(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Zero stands for: as published, else a sensible value."""

    accelerators: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    """Size of the fleet; 0: as published, or just enough for the load."""
    per_node: Annotated[int, Meta(ge=0, le=MAX_DEVICES)] = 0
    kind: str = "GPU"
    usd_micro_per_hour: Annotated[int, Meta(ge=0)] = 2_000_000
    nodes: str = ""
    """Another file, where a format keeps its nodes apart."""
    rows_at_most: Annotated[int, Meta(ge=1, le=20_000_000)] = 5_000_000
    skip_broken: bool = False
    work_ppm: Annotated[int, Meta(ge=1, le=1_000_000_000)] = ONE_PPM
    """Recorded run times are multiplied by this; one and a half percent more is 1,015,000."""

    @property
    def node_devices(self) -> int:
        """Accelerators of a node."""
        return self.per_node or 8


AS_PUBLISHED = Options()
