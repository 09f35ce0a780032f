"""A month of a thousand GPUs from Prometheus: samples per second, and memory.

Answers come from a tiny server in a process of its own, which has them ready (one hour, with the
times of each hour written in), so that what is measured is the reader and not Prometheus: asked,
decoded, divided into minutes, kept in a folder, then joined to jobs as windows.
"""

import json
import multiprocessing
import resource
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qs, urlsplit

import polars as pl

from bench.spine import reference_per_cpu_s
from tidemill.live.prometheus import fetching, joining, store
from tidemill.live.prometheus.client import Client
from tidemill.live.prometheus.minutes import HOUR_MS
from tidemill.live.prometheus.store import HourFolder

BEGIN_MS = 1_790_000_000_000 // HOUR_MS * HOUR_MS
METRICS = ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_DEV_POWER_USAGE")
PER_NODE = 8
EVERY_S = 30


def run(gpus: int = 1000, days: int = 30) -> dict[str, Any]:
    """Fetch all of it, then join it to jobs that hold whole nodes for six hours each."""
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there, gpus))
    server.start()
    try:
        with TemporaryDirectory() as folder:
            return _measure(f"http://127.0.0.1:{here.recv()}", Path(folder), gpus, days)
    finally:
        server.terminate()
        server.join()


def _measure(url: str, path: Path, gpus: int, days: int) -> dict[str, Any]:
    end_ms, folder = BEGIN_MS + days * 24 * HOUR_MS, HourFolder(path / "activity")
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    with Client(url) as client:
        hours = fetching.fetch(client, folder, BEGIN_MS, end_ms)
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    samples = sum(one.samples for one in folder.about.hours.values())
    assert samples == gpus * days * 24 * 3600 // EVERY_S * len(METRICS), "none is lost"
    reading_mib = _peak_mib()
    begun_s = time.perf_counter()
    found = joining.join(
        store.kept(folder, BEGIN_MS, end_ms), joining.Whose(attempts(gpus, days))
    ).measured()
    size = sum(file.stat().st_size for file in folder.path.iterdir())
    return {
        "reference_per_cpu_s": round(reference_per_cpu_s()),
        "gpus": gpus,
        "hours": hours,
        "samples": samples,
        "samples_per_s": round(samples / wall_s),
        "samples_per_cpu_s": round(samples / cpu_s),
        "wall_s": round(wall_s, 1),
        "peak_mib_reading": reading_mib,
        "folder_bytes": size,
        "windows": len(found),
        "join_s": round(time.perf_counter() - begun_s, 1),
        "peak_mib": _peak_mib(),
    }


def _peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def attempts(gpus: int, days: int) -> pl.DataFrame:
    """A job on each node every six hours."""
    rows = [
        (f"{node}-{turn}", BEGIN_MS + turn * 6 * HOUR_MS, BEGIN_MS + (turn + 1) * 6 * HOUR_MS,
         PER_NODE, [f"n{node}"])
        for node in range(gpus // PER_NODE)
        for turn in range(4 * days)
    ]  # fmt: skip
    names = ["job", "start_ms", "end_ms", "gpus", "nodes"]
    return pl.DataFrame(rows, schema=names, orient="row")


def serve(told: Connection, gpus: int) -> None:
    """Answer as Prometheus does; tells the port."""
    labels = [
        {"Hostname": f"n{g // PER_NODE}", "gpu": str(g % PER_NODE), "UUID": f"GPU-{g:032x}",
         "device": f"nvidia{g % PER_NODE}", "modelName": "NVIDIA H100 80GB HBM3",
         "instance": f"n{g // PER_NODE}:9400", "job": "dcgm"}
        for g in range(gpus)
    ]  # fmt: skip

    def answer(metric: str, start_s: int) -> bytes:
        times = [f"[{start_s + EVERY_S * i}.781" for i in range(3600 // EVERY_S)]
        curves = [",".join(f'{at},"0.{(i * 7919 + k) % 1000:03d}"]' for i, at in enumerate(times))
                  for k in range(97)]  # fmt: skip
        rows = (
            f'{{"metric":{json.dumps({"__name__": metric, **one})},"values":[{curves[g % 97]}]}}'
            for g, one in enumerate(labels)
        )
        return _matrix(",".join(rows)).encode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            asked = {key: value[0] for key, value in parse_qs(parts.query).items()}
            query = asked.get("query", "")
            metric = query.partition("[")[0]
            if parts.path.endswith("/values"):
                body = json.dumps({"status": "success", "data": METRICS}).encode()
            elif parts.path.endswith("/series"):
                body = b'{"status":"success","data":[]}'
            elif query == "time()":
                now = time.time()
                body = (f'{{"status":"success","data":{{"resultType":"scalar","result":'
                        f'[{now},"{now}"]}}}}').encode()  # fmt: skip
            elif metric in METRICS:
                body = answer(metric, int(float(asked["time"])) // 3600 * 3600)
            else:
                body = _matrix("").encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.send(server.server_port)
    server.serve_forever()


def _matrix(rows: str) -> str:
    return f'{{"status":"success","data":{{"resultType":"matrix","result":[{rows}]}}}}'
