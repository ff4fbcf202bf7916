"""Folders of profiles that contradict each other: names in a circle, names that shadow, names that lead nowhere."""

from __future__ import annotations

from pathlib import Path

from builders import (
    toy_acceptance,
    toy_calibration,
    toy_drafter,
    toy_engine,
    toy_hardware,
    toy_measurement,
    toy_model,
    write_library,
    write_yaml,
)

Command = tuple[str, ...]
TOYS: Command = ("--hardware", "toy-chip", "--model", "toy-model", "--engine", "toy-engine")
SWEEP: Command = ("sweep", *TOYS, "--batches", "1,4")
PLAIN: Command = (*SWEEP, "--drafter", "none")
MEASURED: Command = (*SWEEP, "--drafter", "toy-model-eagle3", "--acceptance", "toy-model-eagle3-chat")


def _draft_model(name: str, model: str) -> dict[str, object]:
    return toy_drafter(name, mechanism="draft_model", model=model, default=True)


LIBRARIES: dict[str, tuple[list[dict[str, object]], Command, tuple[int, ...]]] = {
    "a target that drafts for itself": (
        [_draft_model("self-made", "toy-model")],
        (*SWEEP, "--drafter", "self-made", "--acceptance-rate", "0.5"),
        (0,),
    ),
    "a draft model that is nowhere": (
        [_draft_model("lost", "nowhere")],
        (*SWEEP, "--drafter", "lost", "--acceptance-rate", "0.5"),
        (3,),
    ),
    "a drafter whose target is a drafter": (
        [toy_drafter("a", target="b"), toy_drafter("b", target="a")],
        (*SWEEP, "--drafter", "a", "--acceptance-rate", "0.5"),
        (3,),
    ),
    "a drafter whose target is itself": (
        [toy_drafter("a", target="a")],
        (*SWEEP, "--drafter", "a", "--acceptance-rate", "0.5"),
        (3,),
    ),
    "a quantised copy of itself": (
        [toy_model(quantised_from="toy-model"), toy_drafter(default=True), toy_acceptance(default=True)],
        SWEEP,
        (0,),
    ),
    "quantised copies in a circle": (
        [toy_model(quantised_from="other"), toy_model("other", quantised_from="toy-model")],
        PLAIN,
        (0,),
    ),
    "a copy of a model that is nowhere": ([toy_model(quantised_from="nowhere")], PLAIN, (0,)),
    "two models of one alias": (
        [toy_model("a", aliases=["x/y"]), toy_model("b", aliases=["X/Y"])],
        ("sweep", *TOYS[:2], "--model", "x/y", *TOYS[4:]),
        (3,),
    ),
    "an alias that is another's name": ([toy_model("other", aliases=["toy-model"])], PLAIN, (0,)),
    "an alias with an escape code": (
        [toy_model("other", aliases=["\x1b[2J"])],
        ("profiles", "list", "--kind", "model"),
        (0,),
    ),
    "two acceptances marked default": (
        [toy_drafter(default=True), toy_acceptance("a", default=True), toy_acceptance("b", default=True)],
        SWEEP,
        (3,),
    ),
    "two drafters marked default": ([toy_drafter("a", default=True), toy_drafter("b", default=True)], SWEEP, (3,)),
    "acceptance of another drafter": ([toy_drafter(), toy_acceptance(drafter="nobody")], MEASURED, (0,)),
    "acceptance of another target": ([toy_drafter(), toy_acceptance(target="nobody")], MEASURED, (0,)),
    "a shipped model's name on a chip": (
        [toy_hardware("llama-3.1-8b")],
        ("sweep", "--hardware", "llama-3.1-8b", *TOYS[2:], "--drafter", "none"),
        (0,),
    ),
    "a shipped chip's name on a model": (
        [toy_model("h100-sxm")],
        ("sweep", *TOYS[:2], "--model", "h100-sxm", *TOYS[4:], "--drafter", "none"),
        (0,),
    ),
    "a mechanism's name on a drafter": (
        [toy_drafter("mtp", default=True)],
        (*SWEEP, "--drafter", "mtp", "--acceptance-rate", "0.5"),
        (0,),
    ),
    "an engine whose kernels are nowhere": ([toy_engine(kernels="nowhere")], PLAIN, (0, 3)),
    "a measurement of what is nowhere": ([toy_measurement()], ("validate", "toy-report"), (3,)),
    "a calibration of another model": (
        [toy_drafter(), toy_calibration()],
        (*SWEEP[:3], "--model", "llama-3.1-8b", "--calibration", "toy-machine"),
        (2, 3),
    ),
    "a calibration whose drafter is nowhere": ([toy_calibration()], (*SWEEP, "--calibration", "toy-machine"), (2, 3)),
    "a chip whose default engine is nowhere": (
        [toy_hardware("lost", default_engine="nowhere")],
        ("sweep", "--hardware", "lost", "--model", "toy-model", "--drafter", "none"),
        (3,),
    ),
}
"""Profiles added to the toy library, the command, and the exit codes that may be."""


def library(folder: Path, *added: dict[str, object]) -> Path:
    """The toy chip, model and engine, and what is added."""
    return write_library(folder, toy_hardware(), toy_model(), toy_engine(), *added)


def twisted_folders(folder: Path) -> dict[str, Path]:
    """Folders whose entries are not what they seem; each holds the toy library too."""
    found = {}
    for name in ("loop", "parent", "dangling", "folder", "twice", "wrong kind", "huge", "bytes"):
        found[name] = library(folder / name)
    models = {name: path / "models" for name, path in found.items()}
    (models["loop"] / "loop.yaml").symlink_to("loop.yaml")
    (models["parent"] / "up").symlink_to("..", target_is_directory=True)
    (models["dangling"] / "gone.yaml").symlink_to("nowhere.yaml")
    (models["folder"] / "folder.yaml").mkdir()
    write_yaml(models["twice"] / "deeper" / "toy-model.yaml", toy_model())
    write_yaml(models["wrong kind"] / "toy-chip.yaml", toy_hardware())
    (models["huge"] / "huge.yaml").write_bytes(b"# " + b"toy" * 10**7)
    (models["bytes"] / "bytes.yaml").write_bytes(bytes(range(256)))
    return found
