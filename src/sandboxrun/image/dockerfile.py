"""The Dockerfile builder: the same recipe, run by the engine on a Debian base image. Pure."""

from __future__ import annotations

import io
import json
import tarfile

from sandboxrun.image.apt_host import HostApt
from sandboxrun.image.recipe import COMMAND, ENVIRONMENT, RELEASE, WORKING_DIR, Recipe

DEFAULT_BASE = f"debian:{RELEASE}-slim"
"""The base where none is named."""
DOCKERFILE = "Dockerfile"
_SOURCE = "recipe"


def render_dockerfile() -> str:
    """Return the Dockerfile. Build arguments: ``BASE``, and ``BUILD``, different for each build.

    A new ``BUILD`` keeps engines from taking last month's packages out of their build cache.
    The second stage starts from nothing, so the image is one layer without what the first stage
    deleted from its base, and its history names no building machine.
    """
    environment = " ".join(f"{name}={value}" for name, value in ENVIRONMENT)
    return f"""\
ARG BASE={DEFAULT_BASE}
FROM ${{BASE}} AS build
ARG BUILD
USER 0:0
COPY {_SOURCE} /.build
RUN ["/bin/sh", "/.build/install.sh"]
RUN /bin/sh /.build/finish.sh && rm -rf /.build

FROM scratch
COPY --from=build / /
ENV {environment}
WORKDIR {WORKING_DIR}
CMD {json.dumps([COMMAND])}
"""


def build_context(recipe: Recipe, host: HostApt) -> bytes:
    """Return the build context, an uncompressed tar that is the same for the same input."""
    files = {DOCKERFILE: render_dockerfile().encode()}
    files |= {f"{_SOURCE}/{name}": content for name, content in recipe.files.items()}
    files |= {f"{_SOURCE}/host/{name}": content for name, content in host.files.items()}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = 0o644
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
