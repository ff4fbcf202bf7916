"""The kinds of profiles: the record behind each, and the folder that holds its files."""

from __future__ import annotations

from typing import NamedTuple

from specdec_cli.profiles.calibration import Calibration
from specdec_cli.profiles.measurement import Measurement
from specdec_cli.profiles.schema import AcceptanceProfile, Drafter, Engine, Hardware, Model, Profile


class Kind(NamedTuple):
    """One kind of profile."""

    record: type[Profile]
    folder: str
    """Under a folder of profiles."""


KINDS: dict[str, Kind] = {
    "hardware": Kind(Hardware, "hardware"),
    "model": Kind(Model, "models"),
    "drafter": Kind(Drafter, "drafters"),
    "acceptance": Kind(AcceptanceProfile, "acceptance"),
    "engine": Kind(Engine, "engines"),
    "measurement": Kind(Measurement, "measurements"),
    "calibration": Kind(Calibration, "calibrations"),
}

RECORDS: dict[str, type[Profile]] = {name: kind.record for name, kind in KINDS.items()}
KIND_FOLDERS: dict[str, str] = {name: kind.folder for name, kind in KINDS.items()}
