"""Keeps a volume type for each backend.

    types.py BACKEND...

A type bears the name of its backend and leads to it. One that is there keeps whatever a person gave
it beside that; a type whose backend is gone stays, because volumes may have it.
"""
import sys

from oslo_config import cfg

from cinder import context, db, objects, rpc  # noqa: F401  (options of the database are registered)
from cinder.common import config  # noqa: F401
from cinder.volume import volume_types

KEY = "volume_backend_name"


def keep(ctxt, known, backend):
    there = known.get(backend)
    if there is None:
        volume_types.create(ctxt, backend, {KEY: backend}, description=f"Volumes of the backend {backend}")
        print(f"volume type {backend} was made")
    elif there["extra_specs"].get(KEY) != backend:
        db.volume_type_extra_specs_update_or_create(ctxt, there["id"], {KEY: backend})
        print(f"volume type {backend} leads to its backend again")


def main():
    cfg.CONF(["--config-file", "/etc/cinder/cinder.conf"], project="cinder", prog="types.py")
    objects.register_all()
    ctxt = context.get_admin_context()
    known = volume_types.get_all_types(ctxt)
    for backend in sys.argv[1:]:
        keep(ctxt, known, backend)


main()
