"""Deletes what tests left behind: things with our prefix in their names, and all in projects with it.

Nothing else is touched, so a cloud with users of its own can be tested.
"""
import time

from cloud import ALIASES, PREFIX

# Type, list, key of the list, one, and how its project is called; in the order in which they can go.
KINDS = [
    ("compute", "/servers/detail?all_tenants=1", "servers", "/servers/{id}", "tenant_id"),
    ("network", "/v2.0/floatingips", "floatingips", "/v2.0/floatingips/{id}", "project_id"),
    ("network", "/v2.0/routers", "routers", "/v2.0/routers/{id}", "project_id"),
    ("network", "/v2.0/ports", "ports", "/v2.0/ports/{id}", "project_id"),
    ("network", "/v2.0/networks", "networks", "/v2.0/networks/{id}", "project_id"),
    ("network", "/v2.0/subnetpools", "subnetpools", "/v2.0/subnetpools/{id}", "project_id"),
    ("network", "/v2.0/address-scopes", "address_scopes", "/v2.0/address-scopes/{id}", "project_id"),
    ("network", "/v2.0/security-groups", "security_groups", "/v2.0/security-groups/{id}", "project_id"),
    ("block-storage", "/backups/detail?all_tenants=1", "backups", "/backups/{id}", "os-backup-project-attr:project_id"),
    ("block-storage", "/snapshots/detail?all_tenants=1", "snapshots", "/snapshots/{id}", "os-extended-snapshot-attributes:project_id"),
    ("block-storage", "/volumes/detail?all_tenants=1", "volumes", "/volumes/{id}", "os-vol-tenant-attr:tenant_id"),
    ("block-storage", "/types", "volume_types", "/types/{id}", ""),
    ("image", "/v2/images?limit=1000", "images", "/v2/images/{id}", "owner"),
    ("compute", "/os-server-groups?all_projects=true", "server_groups", "/os-server-groups/{id}", "project_id"),
    ("compute", "/flavors/detail?is_public=None", "flavors", "/flavors/{id}", ""),
    ("compute", "/os-aggregates", "aggregates", "/os-aggregates/{id}", ""),
    ("identity", "/users", "users", "/users/{id}", ""),
    ("identity", "/groups", "groups", "/groups/{id}", ""),
    ("identity", "/projects", "projects", "/projects/{id}", ""),
    ("identity", "/roles", "roles", "/roles/{id}", ""),
    ("identity", "/domains", "domains", "/domains/{id}", ""),
]


def is_ours(thing, project_field, projects):
    named = (thing.get("name") or "").startswith(PREFIX)
    owned = bool(project_field) and thing.get(project_field) in projects
    # Every project has one that goes with it.
    return (named or owned) and thing.get("name") != "default"


def sweep(cloud, keep=()):
    """How many things were found. `keep`: ids of what the run itself still uses."""
    there = {ALIASES.get(kind, kind) for kind in cloud.catalogue}
    projects = cloud("identity", "/projects")["projects"]
    projects = {one["id"] for one in projects if one["name"].startswith(PREFIX)} - set(keep)
    found = 0
    for kind, path, key, one, project_field in KINDS:
        if kind not in there:
            continue
        things = [thing for thing in cloud(kind, path)[key] if thing["id"] not in keep]
        things = [thing for thing in things if is_ours(thing, project_field, projects)]
        for thing in things:
            found += 1
            print(f"left over: {key} {thing['id']} {thing.get('name') or ''}", flush=True)
            remove(cloud, kind, key, one.format(**thing), thing)
        if things and key in ("servers", "volumes", "snapshots", "backups"):
            gone(cloud, kind, path, key, {thing["id"] for thing in things})
    return found


def remove(cloud, kind, key, path, thing):
    if key == "routers":
        ports = cloud(kind, f"/v2.0/ports?device_id={thing['id']}")["ports"]
        for port in ports:
            cloud.send("PUT", kind, f"{path}/remove_router_interface", {"port_id": port["id"]})
    if key == "ports" and thing.get("device_owner", "").startswith("network:"):
        return
    if key == "aggregates":
        for host in thing.get("hosts", []):
            cloud.send("POST", kind, f"{path}/action", {"remove_host": {"host": host}})
    if key == "domains":
        cloud.send("PATCH", kind, path, {"domain": {"enabled": False}})
    cloud.send("DELETE", kind, path)


def gone(cloud, kind, path, key, ids, patience=120):
    """What stands on them can go only then. Bounded: what stays is found again by the next run."""
    end = time.monotonic() + patience
    while time.monotonic() < end and ids & {thing["id"] for thing in cloud(kind, path)[key]}:
        time.sleep(2)
