# SPDX-License-Identifier: LGPL-3.0
"""Put fake nodes in racks, and an SSD that belongs to no rank in each rack.

For the key fake-resources.amend-r of a flux-core configuration: it adds the graph (JSON graph
format) from which Fluxion loads its resources.
"""

from __future__ import annotations

from flux.hostlist import Hostlist
from flux.idset import IDset

NODES = 4  # in a rack
SSD_SIZE = 100  # units


class Graph:
    """A tree of vertices, in the form that Fluxion's reader wants."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.nodes: list[dict] = []
        self.edges: list[dict] = []

    def add(self, parent: dict | None, kind: str, number: int, **metadata: object) -> dict:
        """Add a vertex under another, and return it. ``number`` is its id among its siblings."""
        name = metadata.setdefault("name", f"{kind}{number}")
        above = parent["metadata"]["paths"]["containment"] if parent else ""
        metadata.update(type=kind, id=number, paths={"containment": f"{above}/{name}"})
        vertex = {"id": str(len(self.nodes)), "metadata": metadata}
        self.nodes.append(vertex)
        if parent:
            self.edges.append({"source": parent["id"], "target": vertex["id"]})
        return vertex


def amend(R: dict, hwloc_xml: str | None = None) -> dict:
    """Return R (RFC 20) with a "scheduling" key. Its nodes have to be numbered from 0."""
    graph = Graph()
    cluster = graph.add(None, "cluster", 0)
    hosts = Hostlist(R["execution"]["nodelist"])
    for entry in R["execution"]["R_lite"]:
        for rank in IDset(entry["rank"]):
            if rank % NODES == 0:
                rack = graph.add(cluster, "rack", rank // NODES)
                graph.add(rack, "ssd", 0, size=SSD_SIZE)
            node = graph.add(rack, "node", rank, rank=rank, name=hosts[rank])
            for kind, ids in entry["children"].items():
                for number in IDset(ids):
                    graph.add(node, kind, number, rank=rank)
    R["scheduling"] = {"graph": {"nodes": graph.nodes, "edges": graph.edges}}
    return R
