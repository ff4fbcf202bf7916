"""`specdec profiles import`: a `config.json` of Hugging Face to a profile."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdec_cli.cli import completion
from specdec_cli.cli import options as opt
from specdec_cli.cli.output import destination, note
from specdec_cli.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from specdec_cli.profiles.library import Library
    from specdec_cli.profiles.schema import Model, Profile

KINDS = ("model", "drafter")


def import_profile(
    config: Annotated[
        Path,
        typer.Argument(
            metavar="CONFIG",
            autocompletion=completion.files,
            help="A config.json, or a folder that holds one (hf_quant_config.json too).",
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="The profile's name. Default: --output's, else the model's."),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            metavar="KIND",
            autocompletion=completion.words(*KINDS),
            help="model or drafter. Default: what the file looks like.",
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            metavar="MODEL",
            autocompletion=completion.names("model"),
            help="Drafters: the model that it drafts for; repeat it for several.",
        ),
    ] = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            "--mechanism",
            metavar="M",
            autocompletion=completion.mechanisms,
            help="Drafters: eagle, eagle3, dflash ... Default: as the file says.",
        ),
    ] = None,
    bits_per_weight: Annotated[
        float | None,
        typer.Option("--bits-per-weight", metavar="BITS", help="A GGUF copy: its bytes x 8 / its parameters."),
    ] = None,
    llama_bench: Annotated[
        Path | None,
        typer.Option(
            "--llama-bench",
            metavar="FILE",
            autocompletion=completion.files,
            help="A GGUF copy: output of llama-bench, which holds its width.",
        ),
    ] = None,
    output: opt.Output = None,
    force: opt.Force = False,
    profiles: opt.Profiles = None,
    debug: opt.Debug = False,
) -> None:
    """Turn the config.json of a model or of a draft head into a profile.

    A size that is missing is refused by the name of its key; what had to be assumed stands in the profile and on
    stderr.

    Example: specdec profiles import ./my-model/config.json -o my-model.yaml
    """
    if bits_per_weight is not None and llama_bench is not None:
        raise UsageError("--bits-per-weight and --llama-bench both state the width of the weights; give one")
    name = _name(name, output)
    with destination(output, force) as written:
        from specdec_cli.profiles.library import Library
        from specdec_cli.profiles.writer import to_yaml

        library = Library(profiles or ())
        if _is_drafter(config, kind):
            for option, value in (("--bits-per-weight", bits_per_weight), ("--llama-bench", llama_bench)):
                if value is not None:
                    raise UsageError(f"{option} is about a model; this is a drafter")
            record, assumed = _drafter(library, config, name, target, mechanism)
        else:
            for option, given in (("--target", target), ("--mechanism", mechanism)):
                if given:
                    raise UsageError(f"{option} is about a drafter; --kind drafter imports one")
            record, assumed = _model(library, config, name, bits_per_weight, llama_bench)
        written.write(to_yaml(record))
        for text in assumed:
            note(f"note [assumed]: {text}")
        if written.file is not None:
            note(f"{written.file.name}: profile {record.name}; `specdec profiles show {output}` shows it")


def _name(name: str | None, output: str | None) -> str | None:
    """The name asked for, which a file's name must equal."""
    stem = Path(output).stem if output and output != "-" else None
    if name is not None and stem is not None and name != stem:
        raise UsageError(f"--name {name} and --output {output} differ: a profile's file is named as it is")
    from specdec_cli.profiles.names import check_name

    said = stem if name is None else name
    if said is not None:
        check_name(said, "--name" if name is not None else "--output")
    return said


def _is_drafter(config: Path, kind: str | None) -> bool:
    if kind is not None:
        if kind not in KINDS:
            raise UsageError(f"--kind {kind!r} is not imported; {did_you_mean(kind, KINDS) or 'model or drafter'}")
        return kind == "drafter"
    from specdec_cli.profiles.hf_config import config_file
    from specdec_cli.profiles.hf_drafter import is_draft
    from specdec_cli.profiles.hf_reader import read_json

    return is_draft(read_json(config_file(config)))


def _model(
    library: Library, config: Path, name: str | None, bits: float | None, bench: Path | None
) -> tuple[Profile, list[str]]:
    from specdec_cli.profiles.on_the_fly import import_model

    model: Model = import_model(config, library.known_model, name=name).record
    said_by = "--bits-per-weight"
    if bench is not None:
        from specdec_cli.engines.read.gguf_width import bits_per_weight

        bits, said_by = bits_per_weight(bench), f"llama-bench, {bench.name}"
    if bits is not None:
        from specdec_cli.profiles.gguf import as_gguf

        model = as_gguf(model, bits, said_by)
    return model, model.assumptions


def _drafter(
    library: Library, config: Path, name: str | None, targets: list[str] | None, mechanism: str | None
) -> tuple[Profile, list[str]]:
    from typing import get_args

    from specdec_cli.profiles.hf_drafter import read_drafter
    from specdec_cli.profiles.on_the_fly import check_import
    from specdec_cli.profiles.schema import Mechanism

    known = get_args(Mechanism)
    if mechanism is not None and mechanism not in known:
        raise UsageError(
            f"--mechanism {mechanism!r} is not known; {did_you_mean(mechanism, known) or ', '.join(known)}"
        )
    if not targets:
        raise UsageError("--target MODEL is needed: a drafter's config.json does not say which model it drafts for")
    names = [library.model(one).record.name for one in targets]
    drafter = read_drafter(config, name=name, targets=names, mechanism=mechanism)  # type: ignore[arg-type]
    check_import(drafter, config)
    return drafter, drafter.notes
