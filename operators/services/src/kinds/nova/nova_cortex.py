"""A filter and a weigher for Nova's scheduler that ask Cortex.

The filter asks once for all hosts that the filters before it left, and keeps those that Cortex keeps.
The weigher puts them into Cortex's order. When there is no answer, both do nothing.
"""

import os

from nova.scheduler import filters
from nova.scheduler import weights

import cortex_client

# Above the sum of Nova's own weighers for ten thousand hosts, and below what keeps hosts back whose
# builds fail.
MULTIPLIER = 100000.0
RANKS = "_cortex_ranks"


def _cortex():
    return cortex_client.Cortex(
        os.environ["CORTEX_ENDPOINT"],
        deadline=float(os.environ.get("CORTEX_DEADLINE", "2")))


def _pipeline(spec_obj):
    """A flavour that names its hypervisor leads to a pipeline by itself."""
    if "capabilities:hypervisor_type" in (spec_obj.flavor.extra_specs or {}):
        return ""
    return os.environ.get("CORTEX_PIPELINE", "")


def all_filters():
    """Nova's own filters and ours: `available_filters` takes one function."""
    return filters.all_filters() + [CortexFilter]


class CortexFilter(filters.BaseHostFilter):
    RUN_ON_REBUILD = False

    def __init__(self):
        self.cortex = _cortex()

    def filter_all(self, filter_obj_list, spec_obj):
        hosts = list(filter_obj_list)
        setattr(spec_obj, RANKS, None)
        if not hosts:
            return hosts
        context = getattr(spec_obj, "_context", None)
        context = context.to_dict() if context is not None else {}
        # A token is nobody's business but Nova's.
        context.pop("auth_token", None)
        context.pop("service_catalog", None)
        asked = [(host.host, host.nodename) for host in hosts]
        ranked = self.cortex.rank(spec_obj.obj_to_primitive(), asked, context, _pipeline(spec_obj))
        if ranked is None:
            return hosts
        ranks = {host: len(ranked) - place for place, host in enumerate(ranked)}
        setattr(spec_obj, RANKS, ranks)
        return [host for host in hosts if host.host in ranks]


class CortexWeigher(weights.BaseHostWeigher):
    def weight_multiplier(self, host_state):
        return MULTIPLIER

    def _weigh_object(self, host_state, spec_obj):
        ranks = getattr(spec_obj, RANKS, None) or {}
        return float(ranks.get(host_state.host, 0))
