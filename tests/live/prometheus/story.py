"""Two hours of a small cluster as exporters saw them, with what goes wrong in real ones."""

from tests.rigs.prometheus.series import BEGIN_S, Recorded, dcgm, steady

BEGIN_MS = BEGIN_S * 1000
MINUTE_MS = 60_000
END_MS = BEGIN_MS + 120 * MINUTE_MS
MIB = 1 << 20


def at(minutes: float) -> int:
    """Milliseconds since 1970 of so many minutes after the beginning."""
    return round(BEGIN_MS + minutes * MINUTE_MS)


def whole() -> list[Recorded]:
    """Every series of the story."""
    return [
        *_whole_node(), *_labelled(), *_slurm(), *_gaps(), *_errors(), *_others(), *_cluster(),
    ]  # fmt: skip


def _whole_node() -> list[Recorded]:
    """n1: eight GPUs, all of one job; busy by 1001 and, differently, by 203."""
    found = list[Recorded]()
    for gpu in range(8):
        told = dcgm("n1", gpu)
        found += [
            Recorded("DCGM_FI_PROF_GR_ENGINE_ACTIVE", told, steady(0.80 + 0.01 * gpu, 0, 7200)),
            Recorded("DCGM_FI_DEV_GPU_UTIL", told, steady(100, 0, 7200)),
            Recorded("DCGM_FI_PROF_SM_ACTIVE", told, steady(0.5, 0, 7200)),
            Recorded("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", told, steady(0.25, 0, 7200)),
            Recorded("DCGM_FI_PROF_DRAM_ACTIVE", told, steady(0.125, 0, 7200)),
            Recorded("DCGM_FI_DEV_FB_USED", told, steady(60_000, 0, 7200)),
            Recorded("DCGM_FI_DEV_FB_FREE", told, steady(20_000, 0, 7200)),
            Recorded("DCGM_FI_DEV_POWER_USAGE", told, steady(500 + gpu, 0, 7200)),
        ]
    return found


def _labelled() -> list[Recorded]:
    """n2: pods by label, once plainly and once behind `honor_labels: false`; 203 only."""
    plain = dcgm("n2", 0, namespace="ml", pod="train-abc", container="main")
    own = {"namespace": "monitoring", "pod": "dcgm-exporter-x1", "container": "exporter"}
    held = {"exported_namespace": "ml", "exported_pod": "bert-0", "exported_container": "main"}
    behind, free = dcgm("n2", 1, **own, **held), dcgm("n2", 2, **own)
    return [
        Recorded("DCGM_FI_DEV_GPU_UTIL", plain, steady(40, 600, 3600)),
        Recorded("DCGM_FI_DEV_GPU_UTIL", behind, steady(60, 600, 3600)),
        Recorded("DCGM_FI_DEV_GPU_UTIL", free, steady(0, 0, 7200)),
    ]


def _slurm() -> list[Recorded]:
    """n3: GPUs by number, of two jobs; DCGM's own order is the other way round. And `hpc_job`."""
    found = list[Recorded]()
    for minor in range(4):
        told = dcgm("n3.cluster.example", 3 - minor, device=f"nvidia{minor}")
        busy = 0.9 if minor < 2 else 0.1
        found.append(Recorded("DCGM_FI_PROF_GR_ENGINE_ACTIVE", told, steady(busy, 0, 7200)))
    told = dcgm("n4", 0, hpc_job="4711")
    found.append(Recorded("DCGM_FI_PROF_GR_ENGINE_ACTIVE", told, steady(0.3, 0, 3600)))
    return found


def _gaps() -> list[Recorded]:
    """n5: one GPU silent for 20 minutes, NaN and blank values after that, then two exporters."""
    told = dcgm("n5", 0)
    first = steady(0.4, 0, 1200)
    blanks: list[float | str] = ["NaN", 2.0**47, -1.0] * 4
    strange = [(2400.0 + 30 * i, blanks[i]) for i in range(10)]
    rest = steady(0.4, 2700, 7200)
    twice = dcgm("n5", 0, job="dcgm-again", instance="n5:9401")
    return [
        Recorded("DCGM_FI_PROF_GR_ENGINE_ACTIVE", told, [*first, *strange, *rest]),
        Recorded("DCGM_FI_PROF_GR_ENGINE_ACTIVE", twice, steady(0.4, 3600, 7200, 60)),
    ]


def _errors() -> list[Recorded]:
    """n6: an XID at the very beginning of the second hour, and energy with a reset."""
    told = dcgm("n6", 0)
    energy = [(s, 1000.0 * 200 * (s if s < 1800 else s - 1800)) for s, _ in steady(0, 0, 7200)]
    return [
        Recorded("DCGM_FI_DEV_XID_ERRORS", told, [*steady(0, 0, 3600), *steady(79, 3600, 7200)]),
        Recorded("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", told, energy),
    ]


def _others() -> list[Recorded]:
    """n7 and n8: the names and units of dcgm-exporter 4.9 and of nvidia_gpu_exporter."""
    new = {"hostname": "n7", "gpu": "0", "uuid": "GPU-n7-0", "device": "nvidia0",
           "instance": "n7:9400"}  # fmt: skip
    smi = {"uuid": "GPU-n8-0", "instance": "n8:9835", "minor_number": "0"}
    return [
        Recorded("DCGM_FI_DEV_GPU_UTIL_RATIO", new, steady(0.7, 0, 7200)),
        Recorded("DCGM_FI_DEV_FB_USED_BYTES", new, steady(30_000 * MIB, 0, 7200)),
        Recorded("DCGM_FI_DEV_FB_CAPACITY_BYTES", new, steady(80_000 * MIB, 0, 7200)),
        Recorded("nvidia_smi_utilization_gpu_ratio", smi, steady(0.2, 0, 7200, 15)),
        Recorded("nvidia_smi_memory_used_bytes", smi, steady(10_000 * MIB, 0, 7200, 15)),
        Recorded("nvidia_smi_memory_total_bytes", smi, steady(40_000 * MIB, 0, 7200, 15)),
        Recorded("nvidia_smi_power_draw_watts", smi, steady(90, 0, 7200, 15)),
    ]


def _cluster() -> list[Recorded]:
    """kube-state-metrics for a pod that only its owner names, and CPUs of n1 that wait for I/O."""
    pod = {"namespace": "ml", "pod": "bert-0", "owner_kind": "StatefulSet", "owner_name": "bert",
           "instance": "ksm:8080"}  # fmt: skip
    found = [Recorded("kube_pod_owner", pod, steady(1, 600, 3600))]
    for cpu, share in ((0, 0.2), (1, 0.4)):
        waited = [(s, share * s) for s, _ in steady(0, 0, 7200)]
        told = {"cpu": str(cpu), "mode": "iowait", "instance": "n1:9100"}
        found.append(Recorded("node_cpu_seconds_total", told, waited, is_counter=True))
    return found


EXAMPLE_S = 1_793_602_800
"""2 November 2026, 08:00 in Berlin: the day of ``examples/history``."""


def example() -> list[Recorded]:
    """Twelve hours of the nodes of ``examples/history``, scraped every two minutes."""
    first = EXAMPLE_S - BEGIN_S
    found = list[Recorded]()
    for node, busy in (("g1", 60), ("g2", 60), ("g3", 25)):
        for gpu in range(8):
            told = dcgm(node, gpu)
            for metric, value in (
                ("DCGM_FI_DEV_GPU_UTIL", busy),
                ("DCGM_FI_PROF_DRAM_ACTIVE", busy / 400),
                ("DCGM_FI_DEV_FB_USED", 300 * busy),
                ("DCGM_FI_DEV_FB_FREE", 80_000 - 300 * busy),
            ):
                found.append(Recorded(metric, told, steady(value, first, first + 12 * 3600, 120)))
    return found
