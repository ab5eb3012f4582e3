"""``sandboxrun image``: build the workspace image, list those there are, check any."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Annotated, Any

import anyio
import anyio.to_thread
import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from sandboxrun.config import Settings
from sandboxrun.engine.connect import open_engine
from sandboxrun.engine.protocol import Engine, ImageInfo
from sandboxrun.errors import ImageUnusableError
from sandboxrun.image.build import (
    Builder,
    BuildOrder,
    BuiltImage,
    build_image,
    choose_builder,
    host_facts,
    present_image,
)
from sandboxrun.image.check import ImageReport, evaluate, gather
from sandboxrun.image.dockerfile import DEFAULT_BASE
from sandboxrun.image.look import opened_image
from sandboxrun.image.progress import Progress, Report
from sandboxrun.image.recipe import (
    KIND,
    LABEL_KIND,
    LABEL_PACKAGES,
    LABEL_RECIPE,
    LABEL_VERSION,
    load_recipe,
)
from sandboxrun.image.requirements import Severity
from sandboxrun.interfaces.cli.engine import search_of
from sandboxrun.interfaces.cli.options import EngineOption, JsonOption
from sandboxrun.interfaces.cli.signals import run
from sandboxrun.interfaces.cli.tables import print_table, printable
from sandboxrun.model import labels
from sandboxrun.state.directory import StateDirectory
from sandboxrun.state.owner import Owner

app = typer.Typer(
    name="image",
    help="Build, list and check the images that commands run in.",
    no_args_is_help=True,
)

_WORK_DIRECTORY = "image-build"
_MB = 1_000_000
_DETAIL_COLUMNS = 48
_SHORT_ID = 12


@app.command("build")
def build_command(
    builder: Annotated[
        Builder | None, typer.Option(help="Default: debootstrap as root on Debian.")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Default: the image runs use.")] = None,
    base: Annotated[str, typer.Option(help="Base of the Dockerfile builder.")] = DEFAULT_BASE,
    if_missing: Annotated[
        bool, typer.Option("--if-missing", help="Do nothing if this recipe's image is there.")
    ] = False,
    engine: EngineOption = None,
    as_json: JsonOption = False,
) -> None:
    """Build the workspace image, in about a minute, from Debian packages.

    Build it again now and then: it brings Debian's security updates.
    """
    settings = Settings.read(engine=engine)
    order = BuildOrder(
        recipe=load_recipe(),
        tag=settings.image if tag is None else tag,
        builder=choose_builder(host_facts()) if builder is None else builder,
        work_dir=settings.state_dir / _WORK_DIRECTORY,
        base=base,
        proxies=settings.proxies,
    )
    built = run(partial(_build, settings, order, if_missing=if_missing))
    row = _built_row(built)
    if as_json:
        typer.echo(json.dumps(row))
        return
    how = "was there already" if built.builder is None else f"built in {built.seconds:.0f} s"
    typer.echo(f"{printable(built.tag)} {how}: {built.info.id}, {row['size_mb']} MB")


@app.command("list")
def list_command(engine: EngineOption = None, as_json: JsonOption = False) -> None:
    """List the workspace images the engine has; `current` is made by this version's recipe."""
    rows = run(_listed, Settings.read(engine=engine))
    if as_json:
        typer.echo(json.dumps(rows))
        return
    print_table(
        ("TAGS", "IMAGE", "CREATED", "MB", "VERSION", "CURRENT"),
        (
            (
                " ".join(row["tags"]),
                row["image"].removeprefix("sha256:")[:_SHORT_ID],
                row["created"].partition(".")[0],
                str(row["size_mb"]),
                row["version"],
                "yes" if row["current"] else "no",
            )
            for row in rows
        ),
    )


@app.command("check")
def check_command(
    image: Annotated[
        str | None, typer.Argument(metavar="IMAGE", help="Tag or id; default: the image runs use.")
    ] = None,
    engine: EngineOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say whether commands can run in IMAGE and what it lacks. Nothing of it is run.

    Exit status: 0 if shell commands can run in it, 125 if not.
    """
    settings = Settings.read(engine=engine)
    reference = settings.image if image is None else image
    report = run(_check, settings, reference)
    if as_json:
        typer.echo(json.dumps({"reference": reference} | report.model_dump(mode="json")))
    else:
        _print_report(reference, report)
    if not report.usable:
        raise typer.Exit(ImageUnusableError.exit_status)


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[Engine]:
    engine = await open_engine(search_of(settings))
    try:
        yield engine
    finally:
        await engine.aclose()


def _look_labels(settings: Settings) -> tuple[tuple[str, str], ...]:
    with StateDirectory.open(settings.state_dir) as directory:
        installation = directory.installation_id
    return (
        (labels.INSTALLATION, installation),
        (labels.ROLE, labels.ROLE_LOOK),
        (labels.OWNER, str(Owner.current())),
    )


async def _build(settings: Settings, order: BuildOrder, *, if_missing: bool) -> BuiltImage:
    async with _opened(settings) as engine:
        if if_missing:
            present = await present_image(engine, order.tag, order.recipe)
            if present is not None:
                return BuiltImage(present, order.tag, None, 0.0)
        with _shown_progress() as report:
            return await build_image(engine, order, report=report)


async def _listed(settings: Settings) -> list[dict[str, Any]]:
    async with _opened(settings) as engine:
        images = await engine.list_images({LABEL_KIND: KIND})
    current = load_recipe().digest
    return [_image_row(info, current) for info in images]


async def _check(settings: Settings, reference: str) -> ImageReport:
    async with _opened(settings) as engine:
        info = await engine.inspect_image(reference)
        if info is None:
            raise ImageUnusableError(f"The engine has no image {printable(reference)}.")
        about = await engine.describe()
        tags = await anyio.to_thread.run_sync(_look_labels, settings)
        async with opened_image(engine, info, labels=tags) as look:
            return evaluate(await gather(info, about.architecture, look))


@contextmanager
def _shown_progress() -> Iterator[Report]:
    """Show progress on stderr: a bar on a terminal, else one line a stage."""
    if not sys.stderr.isatty():
        yield _StageLines()
        return
    columns = (TextColumn("{task.fields[stage]:>8}"), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    detail = TextColumn("{task.fields[detail]}", markup=False)
    with Bar(*columns, detail, console=console, transient=True) as bar:
        task = bar.add_task("image", total=1.0, stage="", detail="")

        def report(progress: Progress) -> None:
            said = printable(progress.detail)[:_DETAIL_COLUMNS]
            bar.update(task, completed=progress.fraction, stage=progress.stage, detail=said)

        yield report


class _StageLines:
    def __init__(self) -> None:
        self._stage: str | None = None

    def __call__(self, progress: Progress) -> None:
        if progress.stage != self._stage:
            self._stage = progress.stage
            sys.stderr.write(f"{progress.stage}: {printable(progress.detail)}\n")


def _built_row(built: BuiltImage) -> dict[str, Any]:
    return {
        "tag": built.tag,
        "builder": built.builder,
        "built": built.builder is not None,
        "seconds": round(built.seconds, 1),
    } | _image_row(built.info, built.info.labels.get(LABEL_RECIPE))


def _image_row(info: ImageInfo, current: str | None) -> dict[str, Any]:
    recipe = info.labels.get(LABEL_RECIPE)
    return {
        "image": info.id,
        "tags": list(info.tags),
        "created": info.created,
        "size_bytes": info.size_bytes,
        "size_mb": round(info.size_bytes / _MB),
        "version": info.labels.get(LABEL_VERSION),
        "packages": info.labels.get(LABEL_PACKAGES),
        "recipe": recipe,
        "current": recipe is not None and recipe == current,
    }


def _print_report(reference: str, report: ImageReport) -> None:
    if report.usable:
        verdict = "usable"
    elif report.exec_form:
        verdict = "usable for programs given with --, not for shell commands"
    else:
        verdict = "not usable"
    typer.echo(f"{printable(reference)} ({report.image}): {verdict}")
    if not report.lacks:
        typer.echo("It lacks nothing.")
    for lack in report.lacks:
        typer.echo(f"  {lack.severity:<8}{printable(lack.detail)}")
        if lack.severity is not Severity.NOTE:
            typer.echo(f"          {printable(lack.advice)}")
