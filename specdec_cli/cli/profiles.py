"""`specdec profiles list` and `specdec profiles show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdec_cli.cli import completion
from specdec_cli.cli import options as opt
from specdec_cli.cli.output import chosen_format, destination, note
from specdec_cli.cli.profiles_check import check
from specdec_cli.cli.profiles_import import import_profile
from specdec_cli.cli.profiles_new import new
from specdec_cli.cli.profiles_schema import schema
from specdec_cli.errors import ProfileError, UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from specdec_cli.profiles.library import Library, Loaded

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="The library of chips, models, drafters, measured acceptance and engines.",
)

KINDS = ("hardware", "model", "drafter", "acceptance", "engine", "measurement", "calibration")
BULKY = "acceptance"
"""Hundreds of profiles: listed where they are asked for."""

Kind = Annotated[
    str | None,
    typer.Option(
        "--kind",
        metavar="KIND",
        autocompletion=completion.kinds,
        help="hardware, model, drafter, acceptance, engine, measurement, calibration. Default: all.",
    ),
]


@app.command("list")
def list_profiles(
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="Only profiles that hold this text, case ignored.")
    ] = None,
    kind: Kind = None,
    vendor: Annotated[
        str | None, typer.Option("--vendor", metavar="V", help="Only chips of this vendor, models of this maker.")
    ] = None,
    format: opt.Format = None,
    output: opt.Output = None,
    force: opt.Force = False,
    profiles: opt.Profiles = None,
    debug: opt.Debug = False,
) -> None:
    """What there is, one table a kind. Measured acceptance is listed where a text or `--kind acceptance` asks for it.

    Example: specdec profiles list h100 --kind hardware
    """
    style = chosen_format(format, output)
    wanted = _kinds(kind)
    with destination(output, force) as target:
        from specdec_cli.profiles.library import Library
        from specdec_cli.report.profile_pages import render_listing
        from specdec_cli.report.profile_records import listing_record

        library = Library(profiles or ())
        found: list[Loaded[Any]] = []
        problems: list[str] = []
        not_listed: dict[str, int] = {}
        for one in wanted:
            if one == BULKY and kind is None and text is None and vendor is None:
                not_listed[one] = len(library.names(one))
                continue
            good, bad = library.every(one)
            found += [profile for profile in good if _matches(profile, text, vendor)]
            problems += [str(error) for error in bad]
        record = listing_record(found, problems=problems, not_listed=not_listed)
        target.write(render_listing(record, style, **target.look()))
        for one, count in not_listed.items():
            note(f"note: {count} {one} profiles are not listed; --kind {one} or a TEXT lists them")
        for problem in problems:
            note(f"warning [profile_invalid]: {problem}")
        if not found:
            note("note: nothing matches")


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME|FILE", autocompletion=completion.names(), help="A profile's name, alias or file."),
    ],
    kind: Kind = None,
    sources: Annotated[
        bool, typer.Option("--sources", help="Name the source of every number, its kind, and when it was checked.")
    ] = False,
    format: opt.TableOrJson = None,
    output: opt.Output = None,
    force: opt.Force = False,
    profiles: opt.Profiles = None,
    debug: opt.Debug = False,
) -> None:
    """One profile whole: the facts, what follows from them, and where it came from.

    Example: specdec profiles show h100-sxm --sources
    """
    style = chosen_format(format, output)
    if style not in ("table", "json"):
        raise UsageError(f"a profile is shown as table or json, not {style}; `specdec profiles list` writes {style}")
    wanted = _kinds(kind)
    with destination(output, force) as target:
        from specdec_cli.profiles.library import Library
        from specdec_cli.report.profile_pages import render_profile
        from specdec_cli.report.profile_records import profile_record

        found = _find(Library(profiles or ()), name, wanted)
        record = profile_record(found[0][1], also_kinds=[one for one, _ in found[1:]])
        target.write(render_profile(record, style, with_sources=sources, **target.look()))
        if len(found) > 1:
            kinds = ", ".join(one for one, _ in found)
            note(f"note: `{name}` names profiles of several kinds ({kinds}); shown: {found[0][0]}, --kind chooses")


def _kinds(kind: str | None) -> tuple[str, ...]:
    if kind is None:
        return KINDS
    if kind in KINDS:
        return (kind,)
    raise UsageError(f"--kind {kind!r} is not known; {did_you_mean(kind, KINDS) or 'known: ' + ', '.join(KINDS)}")


def _matches(profile: Loaded[Any], text: str | None, vendor: str | None) -> bool:
    record = profile.record
    if vendor is not None:
        maker = getattr(record, "vendor", None) or getattr(record, "maker", None)
        if maker is None or vendor.casefold() not in maker.casefold():
            return False
    if text is None:
        return True
    said = (
        [record.name, record.title, *getattr(record, "aliases", []), *getattr(record, "targets", [])]
        + [getattr(record, key, None) or "" for key in ("vendor", "maker", "architecture", "data_set", "mechanism")]
        + [getattr(record, key, None) or "" for key in ("target", "drafter", "measured_by", "family")]
    )
    return any(text.casefold() in one.casefold() for one in said)


def _find(library: Library, name: str, kinds: tuple[str, ...]) -> list[tuple[str, Loaded[Any]]]:
    """The profiles of that name, by kind. Raises ProfileError where there is none."""
    from specdec_cli.profiles.library import load_file

    if name.endswith((".yaml", ".yml")):
        loaded = load_file(name, kinds[0] if len(kinds) == 1 else None)
        return [(loaded.document.data["kind"], loaded)]
    look_up: dict[str, Callable[[str], Loaded[Any]]] = {
        "hardware": library.hardware,
        "model": library.model,
        "drafter": library.drafter,
        "acceptance": library.acceptance,
        "engine": library.engine,
        "measurement": library.measurement,
        "calibration": library.calibration,
    }
    if len(kinds) == 1:
        return [(kinds[0], look_up[kinds[0]](name))]
    named = [one for one in kinds if name in library.names(one)]
    if named:
        return [(one, look_up[one](name)) for one in named]
    found = []
    for one in ("model", "drafter", "engine"):  # the kinds that have aliases
        try:
            found.append((one, look_up[one](name)))
        except ProfileError:
            continue
    if not found:
        known = [candidate for one in kinds for candidate in library.names(one)]
        hint = did_you_mean(name.rsplit("/", 1)[-1], known) or "`specdec profiles list` shows all"
        raise ProfileError(f"unknown profile `{name}`", hint=hint)
    return found


app.command()(check)
app.command("import")(import_profile)
app.command()(new)
app.command()(schema)
