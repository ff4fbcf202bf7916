"""What slows a step down on a kind of device, in words: a CPU has no CUDA graphs to lose."""

from __future__ import annotations

import re
from dataclasses import dataclass

from specdec_cli.profiles.schema import Hardware

_CPU = re.compile(r"\bCPU\b|\bZen ?\d|\bAVX|\bAMX\b|\bSVE\b|\bNEON\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DeviceWords:
    """Causes to look for, as parts of a sentence."""

    graphs: str | None
    """What launches a pass as a whole; None: nothing does."""
    step: str
    """Of a plain step that is longer than expected."""
    entry: str
    """Of the first verified token being dear."""
    slope: str
    """Of every further one being dear."""
    passes: str
    """Of a draft pass that costs more than its kernels."""
    device: str


_CPU_WORDS = DeviceWords(
    graphs=None,
    step="fewer threads than cores, threads or memory on another socket, other programs on the cores",
    entry="the kernels change from matrix-vector to matrix-matrix when more than one token is verified",
    slope="kernels that do not batch (mat-vec), or verification bound by the cores",
    passes="threads that start anew for each pass, or a slow sampler",
    device="CPU",
)
_APPLE_WORDS = DeviceWords(
    graphs=None,
    step="a power limit, memory in use elsewhere, layers on the CPU, a busy host",
    entry="the kernels change from matrix-vector to matrix-matrix when more than one token is verified",
    slope="kernels that do not batch (mat-vec), or verification bound by compute",
    passes="a command buffer encoded anew for each pass, or a sampler on the CPU",
    device="GPU",
)


def device_words(hardware: Hardware) -> DeviceWords:
    """Told by the profile's vendor and architecture."""
    if _CPU.search(hardware.architecture):
        return _CPU_WORDS
    if hardware.vendor == "Apple":
        return _APPLE_WORDS
    graphs = {"NVIDIA": "CUDA graphs", "AMD": "HIP graphs"}.get(hardware.vendor, "recorded graphs")
    return DeviceWords(
        graphs=graphs,
        step="a power or clock limit, layers off the device, a busy host",
        entry=f"the verify pass may run outside {graphs} or on prompt kernels",
        slope="kernels that do not batch (mat-vec), compute-bound verification, or graphs lost",
        passes=f"drafting outside {graphs}, or an eager sampler",
        device="GPU" if hardware.vendor in ("NVIDIA", "AMD") or hardware.architecture.startswith("Xe") else "device",
    )
