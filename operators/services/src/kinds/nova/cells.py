"""Keeps Nova's list of cells as it should be.

    cells.py CELL...

The addresses come from the environment: OS_<CELL>_CELL_DATABASE__CONNECTION and
OS_<CELL>_CELL__TRANSPORT_URL of each cell, OS_DATABASE__CONNECTION of cell0. A cell whose address has
changed, with a new password say, is updated; a cell that is gone stays until a person removes it,
because servers may be in it.
"""
import os
import sys

from oslo_utils import uuidutils

from nova import config, context, objects
from nova.objects import cell_mapping


def keep(ctxt, name, uuid, database, transport):
    known = {cell.uuid if name is None else cell.name: cell for cell in objects.CellMappingList.get_all(ctxt)}
    cell = known.get(uuid if name is None else name)
    if cell is None:
        cell = cell_mapping.CellMapping(ctxt, uuid=uuid or uuidutils.generate_uuid(), name=name or "cell0",
                                        database_connection=database, transport_url=transport)
        cell.create()
        print(f"cell {cell.name} was made")
    elif (cell.database_connection, cell.transport_url) != (database, transport):
        cell.database_connection, cell.transport_url = database, transport
        cell.save()
        print(f"cell {cell.name} has a new address")


def main():
    config.parse_args(["cells.py"])
    objects.register_all()
    ctxt = context.get_admin_context()
    keep(ctxt, None, objects.CellMapping.CELL0_UUID, os.environ["OS_DATABASE__CONNECTION"], "none:///")
    for name in sys.argv[1:]:
        group = name.replace("-", "_").upper()
        keep(ctxt, name, None, os.environ[f"OS_{group}_CELL_DATABASE__CONNECTION"],
             os.environ[f"OS_{group}_CELL__TRANSPORT_URL"])


main()
