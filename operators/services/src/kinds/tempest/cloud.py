"""What Tempest has to know of a cloud, found by asking it.

`options` is pure: from answers of the cloud to options of tempest.conf. `ask` gets the answers.
"""
PREFIX = "c5c3-tempest"

# Type in the catalogue → what Tempest calls the service.
SERVICES = {
    "compute": "nova",
    "network": "neutron",
    "image": "glance",
    "block-storage": "cinder",
    "object-store": "swift",
    "dashboard": "horizon",
    "key-manager": "barbican",
}
# Names of the same services that older catalogues have.
ALIASES = {"volumev3": "block-storage", "block-store": "block-storage", "volume": "block-storage"}


class Lacking(Exception):
    """The cloud has not what its tests need; the words say what to do."""


def options(answers, interface):
    """Group → option → value."""
    types = {ALIASES.get(kind, kind): kind for kind in sorted(answers["catalogue"])}
    found = {
        "DEFAULT": {"resource_name_prefix": PREFIX, "debug": False},
        "identity": {"v3_endpoint_type": interface, "region": region(answers["catalogue"], interface)},
        "service_available": {name: kind in types for kind, name in SERVICES.items()},
    }
    for kind, group in [
        ("compute", "compute"),
        ("network", "network"),
        ("image", "image"),
        ("block-storage", "volume"),
        ("placement", "placement"),
    ]:
        if kind in types:
            found[group] = {"catalog_type": types[kind], "endpoint_type": interface}
    if "image" in types:
        images(answers, found)
    if "compute" in types:
        compute(answers, found)
    if "network" in types:
        network(answers, found)
    if "block-storage" in types:
        volumes(answers, found)
    return found


def region(catalogue, interface):
    """Keystone's. Where no endpoint of a service is in its region, Tempest takes the first, whatever its interface."""
    regions = [one.get("region") for one in catalogue["identity"] if one["interface"] == interface]
    return next(filter(None, regions), "")


def limits(version):
    """The range of microversions of a service; Tempest leaves out what is beyond it."""
    if not version or not version.get("version"):
        return {}
    return {"min_microversion": version["min_version"], "max_microversion": version["version"]}


def images(answers, found):
    schema = answers["image_schema"].get("properties", {})
    for option, name in [("disk_formats", "disk_format"), ("container_formats", "container_format")]:
        known = [one for one in schema.get(name, {}).get("enum", []) if one]
        if known:
            found["image"][option] = ",".join(known)
    methods = answers["import_methods"]
    found["image-feature-enabled"] = {
        "import_image": "glance-direct" in methods,
        # No test of ours fetches an image from the internet.
        "http_store_enabled": False,
    }


def compute(answers, found):
    image = smallest_image(answers["images"])
    small, large = flavours(answers["flavours"], image)
    up = [one for one in answers["hypervisors"] if one["state"] == "up" and one["status"] == "enabled"]
    if not up:
        raise Lacking("no hypervisor is up and enabled: `openstack hypervisor list` shows them")
    found["compute"].update(
        image_ref=image["id"],
        image_ref_alt=image["id"],
        flavor_ref=small["id"],
        flavor_ref_alt=large["id"],
        min_compute_nodes=len(up),
        **limits(answers["compute_version"]),
    )
    found["placement"] = found.get("placement", {}) | limits(answers.get("placement_version"))
    several = len(up) > 1
    found["compute-feature-enabled"] = {
        "resize": True,
        "cold_migration": several,
        "live_migration": several,
        # Nova's default: it answers with a password for each new server.
        "enable_instance_password": True,
    }


def smallest_image(all_images):
    """Every user can start it, and it is quickly there."""
    usable = [
        one
        for one in all_images
        if one["status"] == "active"
        and one["visibility"] in ("public", "community")
        and one.get("disk_format") in ("raw", "qcow2")
        and not one["name"].startswith(PREFIX)
    ]
    if not usable:
        raise Lacking(
            "no public image is there to start servers from: `openstack image create --public` brings one"
        )
    return min(usable, key=lambda one: (one.get("size") or 0, one["id"]))


def flavours(all_flavours, image):
    """The two smallest that take the image, both with the same disk: then a resize is possible."""
    fits = [
        one
        for one in all_flavours
        if one["ram"] >= image.get("min_ram", 0)
        and (one["disk"] == 0 or one["disk"] >= image.get("min_disk", 0))
    ]
    fits.sort(key=lambda one: (one["ram"], one["vcpus"], one["disk"], one["id"]))
    for small in fits:
        larger = [one for one in fits if one["id"] != small["id"] and one["disk"] >= small["disk"]]
        if larger:
            return small, larger[0]
    raise Lacking("two flavours that take the image are needed, and the cloud has none or one")


def network(answers, found):
    aliases = sorted(answers["extensions"])
    outside = [one for one in answers["networks"] if one.get("router:external")]
    found["network-feature-enabled"] = {
        "api_extensions": ",".join(aliases),
        "port_security": "port-security" in aliases,
        "ipv6_subnet_attributes": True,
        "floating_ips": bool(outside),
    }
    if outside:
        first = min(outside, key=lambda one: one["name"])
        found["network"].update(public_network_id=first["id"], floating_network_name=first["name"])


def volumes(answers, found):
    pools = [one["capabilities"] for one in answers["pools"]]
    names = sorted({one.get("volume_backend_name") for one in pools} - {None})
    backup = any(one["binary"] == "cinder-backup" for one in answers["volume_services"])
    found["volume-feature-enabled"] = {
        "backup": backup,
        "multi_backend": len(names) > 1,
        # Every driver that we deploy can do this; what is in Ceph is cloned.
        "snapshot": True,
        "clone": True,
        "extend_attached_volume": True,
    }
    found["volume"].update(limits(answers["volume_version"]))
    if names:
        found["volume"]["backend_names"] = ",".join(names)
    if pools:
        found["volume"]["storage_protocol"] = pools[0].get("storage_protocol", "")
        found["volume"]["vendor_name"] = pools[0].get("vendor_name", "")


def ask(cloud):
    """`cloud(type, path)` answers with JSON; `cloud.catalogue` are the endpoints of each type that there is."""
    there = {ALIASES.get(kind, kind) for kind in cloud.catalogue}
    answers = {"catalogue": cloud.catalogue}
    if "image" in there:
        answers["images"] = cloud("image", "/v2/images?limit=500")["images"]
        answers["image_schema"] = cloud("image", "/v2/schemas/image")
        methods = cloud("image", "/v2/info/import")
        answers["import_methods"] = methods["import-methods"]["value"]
    if "compute" in there:
        answers["flavours"] = cloud("compute", "/flavors/detail?is_public=true")["flavors"]
        answers["hypervisors"] = cloud("compute", "/os-hypervisors/detail")["hypervisors"]
        answers["compute_version"] = cloud.version("compute")
    if "placement" in there:
        answers["placement_version"] = cloud.version("placement")
    if "network" in there:
        extensions = cloud("network", "/v2.0/extensions")["extensions"]
        answers["extensions"] = [one["alias"] for one in extensions]
        answers["networks"] = cloud("network", "/v2.0/networks?router:external=true")["networks"]
    if "block-storage" in there:
        answers["pools"] = cloud("block-storage", "/scheduler-stats/get_pools?detail=true")["pools"]
        answers["volume_services"] = cloud("block-storage", "/os-services")["services"]
        answers["volume_version"] = cloud.version("block-storage")
    return answers
