"""The graph workloads of pleach-bench in LangGraph for Python, as the same JSON lines, without a ratio.

    python3 -m venv venv
    venv/bin/pip install langgraph langgraph-checkpoint-sqlite langgraph-checkpoint-postgres 'psycopg[binary]'
    venv/bin/python bench/python/langgraph_peer.py

`cargo xtask figures` does the same. Durable steps on PostgreSQL need its URL in PLEACH_POSTGRES_URL.

An operation is a node, for fanout8 a run. The best of five rounds counts, which flatters Python.
"""

import json
import operator
import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph


class State(TypedDict):
    n: int


class Sum(TypedDict):
    n: Annotated[int, operator.add]


def step(state):
    return {"n": state["n"] + 1}


def line(nodes):
    graph = StateGraph(State)
    names = [f"n{at}" for at in range(nodes)]
    for name in names:
        graph.add_node(name, step)
    for one, next_one in zip([START, *names], [*names, END]):
        graph.add_edge(one, next_one)
    return graph.compile(), nodes


def loop(turns):
    graph = StateGraph(State)
    graph.add_node("turn", step)
    graph.add_edge(START, "turn")
    graph.add_conditional_edges("turn", lambda state: END if state["n"] >= turns else "turn", ["turn", END])
    return graph.compile(), turns


def fan_out(branches):
    graph = StateGraph(Sum)
    graph.add_node("fork", lambda state: {"n": 1})
    graph.add_node("join", lambda state: {"n": 1})
    graph.add_edge(START, "fork")
    for at in range(branches):
        graph.add_node(f"b{at}", lambda state: {"n": 1})
        graph.add_edge("fork", f"b{at}")
        graph.add_edge(f"b{at}", "join")
    graph.add_edge("join", END)
    return graph.compile(), 1


def measure(workload, made, runs, expected):
    graph, ops = made
    config = {"recursion_limit": 100_000}
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter_ns()
        for _ in range(runs):
            assert graph.invoke({"n": 0}, config)["n"] == expected
        best = min(best, (time.perf_counter_ns() - began) / (runs * ops))
    report(workload, best)


def report(workload, ns):
    print(json.dumps({"workload": workload, "peer": "langgraph-python", "ns_per_op": round(ns), "ratio_to_floor": None}))


class Kilobyte(TypedDict):
    n: int
    text: str


@contextmanager
def on_sqlite():
    """A saver with a file of its own, which syncs at every commit."""
    with tempfile.TemporaryDirectory() as folder, SqliteSaver.from_conn_string(str(Path(folder) / "store.db")) as saver:
        saver.setup()
        saver.conn.execute("PRAGMA synchronous = FULL")
        yield saver


@contextmanager
def on_postgres():
    from langgraph.checkpoint.postgres import PostgresSaver

    with PostgresSaver.from_conn_string(os.environ["PLEACH_POSTGRES_URL"]) as saver:
        saver.setup()
        yield saver


def checkpointed(workload, opened, turns):
    """Steps of one run, each stored before the next; the state is 1 KB."""
    graph = StateGraph(Kilobyte)
    graph.add_node("turn", step)
    graph.add_edge(START, "turn")
    graph.add_conditional_edges("turn", lambda state: END if state["n"] >= turns else "turn", ["turn", END])
    best = float("inf")
    for attempt in range(5):
        with opened() as saver:
            kept = graph.compile(checkpointer=saver)
            config = {"recursion_limit": 100_000, "configurable": {"thread_id": str(attempt)}}
            began = time.perf_counter_ns()
            last = kept.invoke({"n": 0, "text": "x" * 1_000}, config, durability="sync")
            assert last["n"] == turns
            best = min(best, (time.perf_counter_ns() - began) / turns)
    report(workload, best)


if __name__ == "__main__":
    measure("graph.owned_linear10", line(10), 20, 10)
    measure("graph.owned_linear100", line(100), 2, 100)
    measure("graph.owned_loop10k", loop(1_000), 1, 1_000)
    measure("graph.owned_fanout8", fan_out(8), 20, 10)
    checkpointed("graph.checkpoint_one_steady", on_sqlite, 100)
    if "PLEACH_POSTGRES_URL" in os.environ:
        checkpointed("graph.postgres_one", on_postgres, 100)
