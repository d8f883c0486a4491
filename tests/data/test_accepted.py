"""Inputs that people have: each is read as what it says, in a set-up of its own.

`FILES`, `FRAMES`, `PARTS`, `GRAPHS` and `EXPERIMENTS` are ordinary ones. `ODD` are inputs that nobody would recommend
and that are read all the same; `REFUSED` names the few of them that could be two things, and what is said of them.
"""

from __future__ import annotations

import bz2
import gzip
import json
import os
import re
from decimal import Decimal

import networkx as nx
import numpy as np
import pandas
import pyarrow
import pytest
from pyarrow import parquet

import mpinodes
from mpinodes.config.compose import compose
from mpinodes.core.asked import gathered
from mpinodes.core.errors import BadInput
from mpinodes.data import table as frames
from mpinodes.studies.study import Study

X = np.array([[0.5, 0.25], [0.125, 0.75], [0.5, 1.0], [0.25, 0.0]])
Y = [1, 0, 1, 0]
SIGNS = [1, -1, 1, -1]
ROWS = "0.5,0.25,1\n0.125,0.75,0\n0.5,1,1\n0.25,0,0\n"
CSV = f"a,b,y\n{ROWS}"
WORDS = CSV.replace(",1\n", ",yes\n").replace(",0\n", ",no\n")
YES = {"data.labels": ["no", "yes"]}
SVM = "1 1:0.5 2:0.25\n0 1:0.125 2:0.75\n1 1:0.5 2:1\n0 1:0.25\n"
BASE = {
    "algorithm.name": "dola", "data.labels": [0, 1], "data.batch": 1, "topology.name": "complete", "topology.agents": 2,
    "report": False,
}  # fmt: skip


def frame(y=Y, **columns):
    return pandas.DataFrame({"a": X[:, 0], "b": X[:, 1]} | columns | {"y": y})


def put(path, content):
    """Write a file: bytes, text, or by a function of its path."""
    if callable(content):
        content(path)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def npz(**arrays):
    return lambda path: np.savez(path, **({"features": X, "targets": np.array(Y)} | arrays))


def table(y=Y, **columns):
    return lambda path: frame(y, **columns).to_parquet(path)


def arrow(**columns):
    return lambda path: parquet.write_table(pyarrow.table({"a": X[:, 0], "b": X[:, 1]} | columns), path)


def read(settings):
    """The features and targets of a set-up, and its agents' losses of the first round."""
    asked = gathered(BASE, settings)
    if not isinstance(asked["data"]["file"], str):
        asked["data"] = frames.kept(asked["data"])
    setup = compose(asked, None)
    for agent in range(setup.topology.agents):
        setup.stream.of(agent)(1)
    source = setup.stream._sources[0]
    features = source.features(np.arange(len(source.targets)))
    return (features if isinstance(features, np.ndarray) else features.toarray()), source.targets


def requires(settings, signs=SIGNS, features=X):
    got, targets = read(settings)
    assert targets.tolist() == signs
    np.testing.assert_array_equal(got, features)


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


# by name: the file, its content, and settings beside labels [0, 1]
FILES = {
    "csv": ("f.csv", CSV, {}),
    "csv, all stated": ("f.csv", CSV, {"data.header": True, "data.columns": 2, "data.bound": 1}),
    "csv without names": ("f.csv", ROWS, {"data.header": False}),
    "csv, target by name": ("f.csv", "y,a,b\n1,.5,.25\n0,.125,.75\n1,.5,1\n0,.25,0\n", {"data.target": "y"}),
    "csv of words": ("f.csv", WORDS, YES),
    "csv of words without names": ("f.csv", WORDS.partition("\n")[2], YES | {"data.header": False}),
    "csv with a byte-order mark": ("f.csv", "\ufeff" + CSV, {"data.target": "y"}),
    "csv without names with a byte-order mark": ("f.csv", "\ufeff" + ROWS, {"data.header": False}),
    "csv in UTF-16": ("f.csv", CSV.replace("a,", "größer,").encode("utf-16"), {}),
    "csv in UTF-16, the other way round": ("f.csv", b"\xfe\xff" + CSV.encode("utf-16-be"), {"data.target": "y"}),
    "csv with an X that is no index": ("f.csv", CSV.replace("a,", "X,"), {}),
    "csv with carriage returns": ("f.csv", WORDS.replace("\n", "\r\n"), YES),
    "csv without a newline at its end": ("f.csv", WORDS.rstrip("\n"), YES),
    "csv with blank lines": ("f.csv", "\n" + CSV.replace("\n", "\n\n  \n"), {}),
    "csv with blanks after commas": ("f.csv", WORDS.replace(",", ", "), YES | {"data.target": "y"}),
    "csv with blanks before commas": ("f.csv", WORDS.replace(",", " ,\t"), YES),
    "csv in quotes": ("f.csv", re.sub(r"[^,\n]+", r'"\g<0>"', WORDS), YES | {"data.target": "y"}),
    "csv in quotes after blanks": ("f.csv", re.sub(r"[^,\n]+", r' "\g<0>"', WORDS), YES | {"data.target": "y"}),
    "csv, commas in quoted names": ("f.csv", CSV.replace("a,", '"a, or so",'), {}),
    "csv, commas in quoted names after blanks": ("f.csv", CSV.replace("b,", ' "b, or so",'), {"data.target": "y"}),
    "csv, labels with blanks as they stand": ("f.csv", WORDS.replace(",yes", ", yes"), {"data.labels": ["no", " yes"]}),
    "csv, labels with blanks left out": ("f.csv", WORDS.replace(",yes", ",yes "), YES),
    "csv, quotes within a label": (
        "f.csv", WORDS.replace("yes", '"say ""yes"""'), {"data.labels": ["no", 'say "yes"']}
    ),
    "csv, quotes and blanks within a name": (
        "f.csv", CSV.replace("y\n", '" ""y"" or n"\n'), {"data.target": ' "y" or n'}
    ),
    "csv, target's name with blanks as it stands": ("f.csv", CSV.replace(",y", ", y"), {"data.target": " y"}),
    "csv of true and false": ("f.csv", CSV.replace(",1\n", ",True\n").replace(",0\n", ",False\n"), {}),
    "csv, true and false as words": (
        "f.csv", CSV.replace(",1\n", ",True\n").replace(",0\n", ",False\n"), {"data.labels": ["False", "True"]}
    ),
    "csv, true and false as numbers": ("f.csv", CSV, {"data.labels": ["False", "True"]}),
    "csv, labels as floats": ("f.csv", CSV.replace(",1\n", ",1.0\n").replace(",0\n", ",0.0\n"), {}),
    "csv, numbers stated as words": ("f.csv", CSV, {"data.labels": ["0", "1"]}),
    "csv, floats stated as words": (
        "f.csv", CSV.replace(",1\n", ",1.0\n").replace(",0\n", ",0.0\n"), {"data.labels": ["0", "1"]}
    ),
    "csv packed": ("f.csv", gzip.compress(CSV.encode()), {}),
    "csv with names of numbers": ("f.csv", f"0,1,2\n{ROWS}", {"data.header": True, "data.target": "2"}),
    "csv in scientific notation": ("f.csv", CSV.replace("0.125", " +1.25e-01"), {}),
    "csv by numpy": (
        "f.csv", lambda path: np.savetxt(path, np.column_stack([X, Y]), delimiter=","), {"data.header": False}
    ),
    "csv by numpy, with names": (
        "f.csv",
        lambda path: np.savetxt(path, np.column_stack([X, Y]), delimiter=",", header="a,b,y"),
        {"data.header": True, "data.target": "y"},
    ),
    "npz": ("f.npz", npz(), {}),
    "npz, compressed": ("f.npz", lambda path: np.savez_compressed(path, features=X, targets=np.array(Y)), {}),
    "npz of float32": ("f.npz", npz(features=X.astype(np.float32), targets=np.array(Y, np.float32)), {}),
    "npz of float16 and bool": ("f.npz", npz(features=X.astype(np.float16), targets=np.array(Y, bool)), {}),
    "npz, bool and words": ("f.npz", npz(targets=np.array(Y, bool)), {"data.labels": ["False", "True"]}),
    "npz of words": ("f.npz", npz(targets=np.array(["yes", "no"] * 2)), YES),
    "npz of words with blanks": ("f.npz", npz(targets=np.array([" yes", "no "] * 2)), YES),
    "npz, numbers stated as words": ("f.npz", npz(targets=np.array(Y, float)), {"data.labels": ["0", "1"]}),
    "npz with another array": ("f.npz", npz(names=np.array(["a", "b"])), {}),
    "npz in Fortran's order": ("f.npz", npz(features=np.asfortranarray(X)), {"data.columns": 2}),
    "libsvm": ("f.libsvm", SVM, {}),
    "libsvm, .svm": ("f.svm", SVM, {"data.columns": 2}),
    "libsvm, .txt": ("f.txt", SVM, {}),
    "libsvm, .gz": ("f.svm.gz", gzip.compress(SVM.encode()), {}),
    "libsvm, .bz2": ("f.txt.bz2", bz2.compress(SVM.encode()), {}),
    "libsvm with a byte-order mark": ("f.svm", "\ufeff" + SVM, {}),
    "libsvm in UTF-16": ("f.svm", SVM.encode("utf-16"), {}),
    "libsvm with carriage returns": ("f.svm", SVM.replace("\n", "\r\n"), {}),
    "libsvm with comments and blank lines": ("f.svm", "# mine\n\n" + SVM.replace("\n", " # a row\n"), {}),
    "libsvm after a byte-order mark and a comment": ("f.svm", "\ufeff# mine\n" + SVM, {}),
    "libsvm of words": ("f.svm", SVM.replace("0 1:", "no 1:").replace("1 1:", "yes 1:"), YES),
    "libsvm with signs": (
        "f.svm", re.sub("^0", "-1", re.sub("^1", "+1", SVM, flags=re.M), flags=re.M), {"data.labels": [-1, 1]}
    ),
    "parquet": ("f.parquet", table(), {}),
    "parquet, target by name": (
        "f.parquet", lambda path: frame()[["y", "a", "b"]].to_parquet(path), {"data.target": "y"}
    ),
    "parquet of float32": ("f.parquet", lambda path: frame().astype("float32").to_parquet(path), {"data.columns": 2}),
    "parquet, nullable": ("f.parquet", lambda path: frame().convert_dtypes().to_parquet(path), {}),
    "parquet, bool": ("f.parquet", table(np.array(Y, bool)), {}),
    "parquet, bool and words": ("f.parquet", table(np.array(Y, bool)), {"data.labels": ["False", "True"]}),
    "parquet, boolean": ("f.parquet", table(pandas.array([True, False] * 2, "boolean")), {}),
    "parquet, category": ("f.parquet", table(pandas.Categorical(["yes", "no"] * 2)), YES),
    "parquet, category of numbers": (
        "f.parquet", table(pandas.Categorical(Y), a=pandas.Categorical(X[:, 0])), {}
    ),
    "parquet, string": ("f.parquet", table(pandas.array(["yes", "no"] * 2, "string")), YES),
    "parquet, numbers as words": ("f.parquet", table([*"1010"], a=[str(x) for x in X[:, 0]]), {}),
    "parquet, decimal": ("f.parquet", table([Decimal(k) for k in Y], b=[Decimal(x) for x in X[:, 1]]), {}),
    "parquet, labels with blanks": ("f.parquet", table([" yes", " no"] * 2), {"data.labels": [" no", " yes"]}),
    "parquet, names with blanks": (
        "f.parquet", lambda path: frame().set_axis(["a", " b", " y"], axis=1).to_parquet(path), {"data.target": " y"}
    ),
    "parquet, dates as labels": (
        "f.parquet",
        arrow(y=pyarrow.array([20000, 10000] * 2, pyarrow.date32())),
        {"data.labels": ["1997-05-19", "2024-10-04"]},
    ),
    "parquet whose index has no name": ("f.parquet", lambda path: frame().iloc[[0, 1, 2, 3]].to_parquet(path), {}),
    "parquet, index of a selection": (
        "f.parquet", lambda path: pandas.concat([frame(), frame()]).iloc[4:].set_axis([7, 8, 9, 9]).to_parquet(path), {}
    ),
    "parquet whose index has a name": (
        "f.parquet", lambda path: frame(id=[7, 8, 9, 10]).set_index("id").to_parquet(path), {"data.target": "y"}
    ),
    "parquet without pandas": ("f.parquet", arrow(y=Y), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_as_it_stands(name, tmp_path):
    file, content, settings = FILES[name]
    requires({"data.file": put(tmp_path / file, content)} | settings)


ADULT = {"data.labels": [" <=50K", " >50K"], "data.target": " y"}
RICH = [" >50K", " <=50K"] * 2
# by name: the frame, and settings
FRAMES = {
    "int": (frame, {}),
    "float": (lambda: frame(np.array(Y, float)), {}),
    "float32": (lambda: frame().astype("float32"), {}),
    "float16": (lambda: frame(a=X[:, 0].astype(np.float16)), {}),
    "Float32": (lambda: frame().astype("Float32"), {}),
    "int8": (lambda: frame().astype({"y": "int8"}), {}),
    "bool": (lambda: frame(np.array(Y, bool)), {}),
    "bool, stated as bools": (lambda: frame(np.array(Y, bool)), {"data.labels": [False, True]}),
    "bool, stated as numpy's": (lambda: frame(np.array(Y, bool)), {"data.labels": np.array([False, True])}),
    "bool, stated as words": (lambda: frame(np.array(Y, bool)), {"data.labels": ["False", "True"]}),
    "bool as objects": (lambda: frame(np.array([True, False] * 2, object)), {}),
    "boolean": (lambda: frame(pandas.array([True, False] * 2, "boolean")), {}),
    "bool[pyarrow]": (lambda: frame(pandas.array([True, False] * 2, "bool[pyarrow]")), {}),
    "pyarrow's types": (lambda: frame().convert_dtypes(dtype_backend="pyarrow"), {}),
    "float[pyarrow]": (lambda: frame().astype({"a": "float[pyarrow]"}), {}),
    "nullable": (lambda: frame().convert_dtypes(), {}),
    "sparse": (lambda: frame(a=pandas.arrays.SparseArray(X[:, 0])), {}),
    "sparse bool": (lambda: frame(pandas.arrays.SparseArray([True, False] * 2)), {}),
    "category": (lambda: frame(pandas.Categorical(["yes", "no"] * 2)), YES),
    "category of numbers": (lambda: frame(pandas.Categorical(Y), b=pandas.Categorical(X[:, 1])), {}),
    "category of bools": (lambda: frame(pandas.Categorical([True, False] * 2)), {}),
    "string": (lambda: frame(pandas.array(["yes", "no"] * 2, "string")), YES),
    "object": (lambda: frame(np.array(["yes", "no"] * 2, object)), YES),
    "labels of the frame itself": (
        lambda: frame(["yes", "no"] * 2), {"data.labels": frame(["no", "yes"] * 2)["y"].unique()}
    ),
    "labels of a series": (lambda: frame(["yes", "no"] * 2), {"data.labels": pandas.Series(["no", "yes"])}),
    "labels as a tuple": (lambda: frame(["yes", "no"] * 2), {"data.labels": ("no", "yes")}),
    "Adult's names and labels": (lambda: frame(RICH).set_axis(["a", " b", " y"], axis=1), ADULT),
    "Adult's, without blanks": (
        lambda: frame(RICH).set_axis(["a", " b", " y"], axis=1),
        {"data.labels": ["<=50K", ">50K"], "data.target": "y"},
    ),
    "Adult's, blanks in the target alone": (
        lambda: frame(RICH).set_axis(["a", " b", " y"], axis=1), {"data.labels": ["<=50K", ">50K"], "data.target": " y"}
    ),
    "quotes within": (lambda: frame(['say "hi"', "no"] * 2), {"data.labels": ["no", 'say "hi"']}),
    "quotes around": (lambda: frame(['"yes"', '"no"'] * 2), {"data.labels": ['"no"', '"yes"']}),
    "commas within": (lambda: frame(["yes, sir", "no, sir"] * 2), {"data.labels": ["no, sir", "yes, sir"]}),
    "names of numbers": (lambda: frame().set_axis([0, 1, 2], axis=1), {"data.target": "2"}),
    "names of numbers, the target by its own": (lambda: frame().set_axis([0, 1, 2], axis=1), {"data.target": 2}),
    "names of numpy's numbers": (lambda: frame().set_axis(np.arange(3), axis=1), {"data.target": np.int64(2)}),
    "an index with a name": (lambda: frame(id=[7, 8, 9, 10]).set_index("id"), {"data.target": "y"}),
    "an index with names": (lambda: frame(c=[7, 8, 9, 10], d=1).set_index(["c", "d"]), {}),
    "names in two levels": (
        lambda: frame().set_axis(pandas.MultiIndex.from_tuples([("x", 0), ("x", 1), ("y", 0)]), axis=1), {}
    ),
    "names with quotes and commas": (
        lambda: frame().set_axis(["a", 'b, "b"', 'the "y"'], axis=1), {"data.target": 'the "y"'}
    ),
    "an index of a selection": (lambda: pandas.concat([frame(), frame()]).iloc[4:], {}),
    "an index without a name": (lambda: frame().set_axis([*"abcd"]), {}),
    "decimals": (lambda: frame(b=[Decimal(x) for x in X[:, 1]]), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMES)
def test_a_data_frame_is_read_as_it_is(name):
    make, settings = FRAMES[name]
    requires({"data.file": make()} | settings)


HALVES = [f"a,b,y\n{ROWS[:24]}", f"a,b,y\n{ROWS[24:]}"]
assert ROWS[:24].endswith("\n")
# by name: how the files end, their contents, and settings
PARTS = {
    "csv": (".csv", HALVES, {}),
    "csv without names": (".csv", [ROWS[:24], ROWS[24:]], {"data.header": False}),
    "csv, one with a byte-order mark": (".csv", ["\ufeff" + HALVES[0], HALVES[1]], {}),
    "csv, blanks and quotes in one's names": (".csv", [HALVES[0], HALVES[1].replace("a,b,", '"a", b ,')], {}),
    "csv, target in another place": (
        ".csv", [HALVES[0], "y,a,b\n1,.5,1\n0,.25,0\n"], {"data.target": "y"}
    ),
    "csv, split": (".csv", [WORDS[: WORDS.index("0.5,1")], WORDS[WORDS.index("0.5,1") :]], YES),
    "parquet": (
        ".parquet", [lambda p: frame()[:2].to_parquet(p), lambda p: frame()[2:].to_parquet(p, index=False)], {}
    ),
    "parquet, another type": (
        ".parquet", [lambda p: frame()[:2].to_parquet(p), lambda p: frame()[2:].astype("float32").to_parquet(p)], {}
    ),
    "npz": (
        ".npz",
        [npz(features=X[:2], targets=np.array(Y[:2])), npz(features=X[2:], targets=np.array(Y[2:], np.float32))],
        {},
    ),
    "libsvm": (".svm", [SVM[: SVM.index("1 1:0.5 2:1")], SVM[SVM.index("1 1:0.5 2:1") :]], {"data.columns": 2}),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_a_file_for_each_agent_is_its_share(name, tmp_path):
    ending, contents, settings = PARTS[name]
    for k, content in enumerate(contents):
        put(tmp_path / f"part-{k}{ending}", content)
    requires({"data.file": f"part-{{agent}}{ending}", "data.partition": "even"} | settings)


RING = {(0, 1), (1, 2), (2, 0)}
BOTH = RING | {(i, j) for j, i in RING}
DIGRAPH = nx.DiGraph(sorted(RING))


def node_link(**kwargs):
    return json.dumps(nx.node_link_data(DIGRAPH, **kwargs))


def by(write, graph=DIGRAPH, **kwargs):
    """What networkx writes."""
    return lambda path: write(graph, path, **kwargs)


def weighted(weight, graph=DIGRAPH, **others):
    copy = graph.copy()
    nx.set_edge_attributes(copy, weight, "weight")
    for name, value in others.items():
        nx.set_edge_attributes(copy, value, name)
    return copy


EDGES = pandas.DataFrame({"source": [0, 1, 2], "target": [1, 2, 0]})
# by name: the file, its content, and the edges
GRAPHS = {
    "edges": ("g.txt", "0 1\n1 2\n2 0\n", RING),
    "edges with commas": ("g.csv", "0,1\n1,2\n2,0\n", RING),
    "edges with commas and blanks": ("g.csv", "0, 1\n1 , 2\n2, 0\n", RING),
    "edges with tabs": ("g.tsv", "0\t1\n1\t2\n2\t0\n", RING),
    "edges without an ending": ("edges", "0 1\n1 2\n2 0", RING),
    "edges with many blanks": ("g.txt", "  0   1\n1\t 2  \n\n2 0\n", RING),
    "edges in UTF-16": ("g.txt", "0 1\r\n1 2\r\n2 0\r\n".encode("utf-16"), RING),
    "edges with carriage returns": ("g.txt", "0 1\r\n1 2\r\n2 0\r\n", RING),
    "edges with a byte-order mark": ("g.txt", "\ufeff0 1\n1 2\n2 0\n", RING),
    "edges with comments": ("g.txt", "# mine\n% and\n0 1 # a note\n1 2\n2 0\n", RING),
    "edges with notes": ("g.txt", "0 1 # one, two\n1 2 #three\n2 0\n", RING),
    "edges of words": ("g.txt", "ann bob\nbob cy\ncy ann\n", RING),
    "edges of the underground": ("g.txt", "# Nürnberg\nPlärrer Opernhaus\nOpernhaus Wöhrd\nWöhrd Plärrer\n", RING),
    "edges of names with blanks": ("g.csv", "Weißer Turm,St. Peter\nSt. Peter,Rathaus\nRathaus,Weißer Turm\n", RING),
    "edges of names with blanks and tabs": ("g.tsv", "the one\tbob\nbob\tcy d\ncy d\tthe one\n", RING),
    "edges of names in quotes": ("g.txt", '"the one" bob\nbob "cy, d"\n"cy, d" "the one"\n'.replace(",", ""), RING),
    "edges of names in quotes with commas": ("g.csv", '"one, the",bob\nbob,cy\ncy,"one, the"\n', RING),
    "edges counted from 1": ("g.txt", "1 2\n2 3\n3 1\n", RING),
    "edges as floats": ("g.csv", "0.0,1.0\n1.0,2.0\n2.0,0.0\n", RING),
    "edges by numpy": ("g.txt", lambda path: np.savetxt(path, EDGES.to_numpy()), RING),
    "edges with weights": ("g.txt", "0 1 0.5\n1 2 0.25\n2 0 1.0\n", RING),
    "edges with weights and commas": ("g.csv", "0,1,0.5\n1,2,0.25\n2,0,1e-3\n", RING),
    "edges with whole weights": ("g.txt", "0 1 10\n1 2 20\n2 0 30\n", RING),
    "edges with weights of one": ("g.txt", "0 1 1\n1 2 1\n2 0 1\n", RING),
    "edges with weights and times": ("g.txt", "% asym\n1 2 1 1082008561\n2 3 1 1082008562\n3 1 1 1082008563\n", RING),
    "edges of words with weights": ("g.txt", "ann bob 3\nbob cy 1\ncy ann 2\n", RING),
    "head": ("g.csv", "source,target\n0,1\n1,2\n2,0\n", RING),
    "head in quotes": ("g.csv", '"source","target"\n0,1\n1,2\n2,0\n', RING),
    "head with blanks": ("g.txt", "From To\n0 1\n1 2\n2 0\n", RING),
    "head of other words": ("g.csv", "Src,Dst\n0,1\n1,2\n2,0\n", RING),
    "head with weights": ("g.csv", "source,target,weight\n0,1,3\n1,2,1\n2,0,2\n", RING),
    "head the other way round": ("g.csv", "target,source\n1,0\n2,1\n0,2\n", RING),
    "head with weights before": ("g.csv", "weight,source,target\n0.5,0,1\n0.5,1,2\n0.5,2,0\n", RING),
    "head with words": ("g.csv", "Source,Target,Label\nann,bob,likes\nbob,cy,knows\ncy,ann,\n", RING),
    "head with a byte-order mark": ("g.csv", "\ufeffsource,target\r\n0,1\r\n1,2\r\n2,0\r\n", RING),
    "head of pandas": ("g.csv", lambda path: EDGES.to_csv(path, index=False), RING),
    "head of pandas, with its index": ("g.csv", lambda path: EDGES.to_csv(path), RING),
    "head of pandas, weights and tabs": (
        "g.tsv", lambda path: EDGES.assign(weight=1.5).to_csv(path, index=False, sep="\t"), RING
    ),
    "networkx: edges": ("g.edgelist", by(nx.write_edgelist), RING),
    "networkx: edges without data": ("g.edgelist", by(nx.write_edgelist, data=False), RING),
    "networkx: edges and attributes": ("g.edgelist", by(nx.write_edgelist, weighted(3, color="red, or so")), RING),
    "networkx: edges with commas": ("g.edgelist", by(nx.write_edgelist, weighted(3), delimiter=","), RING),
    "networkx: weighted edges": ("g.edgelist", by(nx.write_weighted_edgelist, weighted(0.5)), RING),
    "networkx: neighbours, one each": ("g.adjlist", by(nx.write_adjlist), RING),
    "networkx: GraphML": ("g.graphml", by(nx.write_graphml), RING),
    "networkx: GraphML, undirected": ("g.graphml", by(nx.write_graphml, weighted(2, nx.cycle_graph(3))), BOTH),
    "GraphML with a byte-order mark": (
        "g.graphml", ("\ufeff" + "\n".join(nx.generate_graphml(DIGRAPH))), RING
    ),
    "networkx: JSON": ("g.json", node_link(edges="edges"), RING),
    "networkx: JSON with links": ("g.json", node_link(edges="links"), RING),
    "networkx: JSON by another name": ("graph.txt", node_link(edges="links"), RING),
    "JSON with a byte-order mark": ("g.json", "\ufeff" + node_link(edges="edges"), RING),
    "JSON in UTF-16": ("g.json", node_link(edges="edges").encode("utf-16"), RING),
    "GraphML in UTF-16": ("g.graphml", "\n".join(nx.generate_graphml(DIGRAPH)).encode("utf-16"), RING),
    "JSON after blanks": ("g.json", "\r\n " + node_link(edges="edges"), RING),
    "JSON of words": (
        "g.json", json.dumps(nx.node_link_data(nx.relabel_nodes(DIGRAPH, dict(enumerate("abc"))), edges="edges")), RING
    ),
    "JSON, undirected": ("g.json", json.dumps(nx.node_link_data(nx.cycle_graph(3), edges="edges")), BOTH),
}  # fmt: skip
SAMPLES = {"algorithm.name": "dpsda-ps", "data.name": "unit-ball", "data.total": 40, "report": False}


def edges_of(file, **settings):
    graph = compose(gathered(SAMPLES, {"topology.file": file}, settings), None).topology
    return set(graph.edges(1))


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_is_read_as_networkx_means_it(name, tmp_path):
    file, content, edges = GRAPHS[name]
    assert edges_of(put(tmp_path / file, content)) == edges


TOML = 'rounds = 3\nreport = false\n[algorithm]\nname = "dola"\n[data]\nname = "unit-ball"\ntotal = 40\n'
LOSS = (
    "from dataclasses import dataclass\nfrom mpinodes.losses.logistic import Logistic\n"
    '__all__ = ["Mine"]\n\n\n@dataclass(frozen=True)\nclass Mine(Logistic):\n    """One."""\n'
)
PRESET = "[problem]\nradius = 3.0\n"
# by name: files, then what is asked for; the experiment has radius 3 where `own` is set
EXPERIMENTS = {
    "TOML": ({"e.toml": TOML}, ["e.toml"]),
    "TOML with a byte-order mark": ({"e.toml": "\ufeff" + TOML}, ["e.toml"]),
    "TOML in UTF-16": ({"e.toml": TOML.encode("utf-16")}, ["e.toml"]),
    "TOML with carriage returns": ({"e.toml": TOML.replace("\n", "\r\n")}, ["e.toml"]),
    "TOML at home": ({"e.toml": TOML}, ["~/e.toml"]),
    "blanks around words": ({"e.toml": TOML}, ["e.toml", "seed = 4", "topology.name = ring"]),
    "preset": ({"e.toml": TOML, "p.toml": PRESET}, ["e.toml", "problem.preset=p.toml"]),
    "preset at home": ({"e.toml": TOML, "p.toml": PRESET}, ["e.toml", "problem.preset=~/p.toml"]),
    "preset with a byte-order mark": (
        {"e.toml": TOML, "p.toml": "\ufeff" + PRESET}, ["e.toml", "problem.preset=p.toml"]
    ),
    "loss": ({"e.toml": TOML, "own.py": LOSS}, ["e.toml", "problem.path=own.py"]),
    "loss at home": ({"e.toml": TOML, "own.py": LOSS}, ["e.toml", "problem.path=~/own.py"]),
    "loss with a byte-order mark": ({"e.toml": TOML, "own.py": "\ufeff" + LOSS}, ["e.toml", "problem.path=~/own.py"]),
    "loss of a preset at home": (
        {"e.toml": TOML, "own.py": LOSS, "p.toml": '[problem]\npath = "~/own.py"\n'},
        ["e.toml", "problem.preset=~/p.toml"],
    ),
    "graph at home": ({"e.toml": TOML, "g.csv": "0,1\n1,0\n"}, ["e.toml", "topology.file=~/g.csv"]),
    "data at home": ({"f.csv": CSV}, [BASE, "data.file=~/f.csv"]),
    "data of each agent at home": (
        {"part-0.csv": CSV, "part-1.csv": CSV}, [BASE, "data.file=~/part-{agent}.csv", "data.partition=even"]
    ),
    "data whose names are at nobody's home": ({"~x.csv": CSV}, [BASE, "data.file=~x.csv"]),
    "output at home": ({"e.toml": TOML}, ["e.toml", "output.dir=~/out"]),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_runs_whatever_wrote_its_files_and_wherever_they_lie(name, tmp_path, monkeypatch):
    files, asked = EXPERIMENTS[name]
    for file, content in files.items():
        put(tmp_path / file, content)
    if any("~/" in word for word in asked[-1:] if isinstance(word, str)) and "e.toml" in files:
        (tmp_path / "work").mkdir()
        monkeypatch.chdir(tmp_path / "work")
        asked = [word if word != "e.toml" else str(tmp_path / word) for word in asked]
    result = mpinodes.simulate(*asked)
    assert not os.path.lexists("~")
    assert result.directory.is_dir()


# Odd inputs that were read before names in files were compared. Data files: as in FILES.
ODD_FILES = {
    "a blank label": ("f.csv", CSV.replace(",0\n", ",\n"), {"data.labels": ["", "1"]}),
    "a label of one quote": ("f.csv", WORDS, {"data.labels": ["no", "yes"], "data.target": "y"}),
    "a label that is a sign": ("f.csv", WORDS.replace("yes", "+").replace("no", "-"), {"data.labels": ["-", "+"]}),
    "a label of many words": ("f.csv", WORDS.replace("yes", "yes and no"), {"data.labels": ["no", "yes and no"]}),
    "labels that are large": ("f.csv", CSV.replace(",1\n", ",1e99\n"), {"data.labels": [0, 1e99]}),
    "labels in another order": ("f.csv", CSV, {"data.labels": [1, 0]}),
    "labels that are almost the same": ("f.csv", CSV.replace(",0\n", ",1.0000001\n"), {"data.labels": [1.0000001, 1]}),
    "labels of numbers and words": ("f.csv", CSV.replace(",1\n", ",yes\n"), {"data.labels": [0, "yes"]}),
    "labels with zeros before": ("f.csv", CSV.replace(",1\n", ",001\n"), {"data.labels": ["0", "001"]}),
    "labels alike but for capitals": ("f.csv", WORDS.replace("no", "YES"), {"data.labels": ["YES", "yes"]}),
    "labels called nan and none": (
        "f.csv", WORDS.replace("yes", "nan").replace("no", "None"), {"data.labels": ["nan", "None"]}
    ),
    "labels with inner blanks": ("f.csv", WORDS.replace("no", "n  o"), {"data.labels": ["n  o", "yes"]}),
    "a name twice": ("f.csv", CSV.replace("b,", "a,"), {}),
    "a name without letters": ("f.csv", CSV.replace("a,", "#,"), {}),
    "a name in the middle left out": ("f.csv", CSV.replace("b,", ","), {}),
    "a name of the target left out": ("f.csv", CSV.replace(",y", ","), {}),
    "a name called index": ("f.csv", CSV.replace("a,", "index,"), {}),
    "a name called id": ("f.csv", CSV.replace("a,", "id,"), {"data.columns": 2}),
    "a name called level_0": ("f.csv", CSV.replace("a,", "level_0,"), {}),
    "a name called Unnamed: 1": ("f.csv", CSV.replace("b,", "Unnamed: 1,"), {}),
    "names that are numbers but one": ("f.csv", CSV.replace("a,b,y", "1,2,y"), {"data.header": True}),
    "names that are rows": ("f.csv", ROWS, {"data.header": True, "data.labels": [0, 1]}),
    "names of another language": ("f.csv", CSV.replace("y\n", "größer\n"), {"data.target": "größer"}),
    "names in Latin 1": ("f.csv", CSV.replace("y\n", "größer\n").encode("latin-1"), {}),
    "a first line of one name": ("f.csv", CSV.replace("a,b,y", ",,y").replace(",,", "a,,"), {}),
    "numbers of other shapes": ("f.csv", CSV.replace("0.5", "5.e-1").replace("0.25", "+.25"), {}),
    "numbers that are small": ("f.csv", CSV.replace("0.125", "1e-320"), {}),
    "numbers with blanks and tabs": ("f.csv", CSV.replace(",0.75", ",\t 0.75 "), {}),
    "numbers in quotes": ("f.csv", CSV.replace("0.75", '"0.75"'), {}),
    "numbers with an inner mark": ("f.csv", CSV.replace("0.125", "\ufeff0.125"), {}),
    "form feeds": ("f.csv", CSV.replace("\n0.125", "\n\f\n0.125"), {}),
    "no newline before the end of the file": ("f.csv", CSV.rstrip(), {}),
    "a line of blanks at the end": ("f.csv", CSV + "   \t \n\n", {}),
    "one row for each agent": ("f.csv", f"a,b,y\n{ROWS[:24]}", {"data.partition": "even"}),
    "targets that are real": (
        "f.csv", CSV.replace(",1\n", ",2.5\n"), {"data.targets": "real", "data.labels": [], "problem.loss": "absolute"}
    ),
    "three classes": (
        "f.csv", CSV.replace("1,1\n", "1,2\n"),
        {"data.targets": "classes", "data.labels": [0, 1, 2], "problem.loss": "softmax"}
    ),
    "no labels stated": ("f.csv", CSV, {"data.labels": []}),
    "one feature": ("f.csv", "a,y\n1,1\n0,0\n", {}),
    "a dot in the file's name": ("my.f.csv", CSV, {}),
    "blanks in the file's name": ("my file .csv", CSV, {}),
    "braces in the file's name": ("f{x}.csv", CSV, {}),
    "npz: targets of bytes' length": ("f.npz", npz(targets=np.array(Y, np.uint8)), {}),
    "npz: targets of strings as numbers": ("f.npz", npz(targets=np.array(["1", "0"] * 2)), {}),
    "npz: long double": ("f.npz", npz(features=X.astype(np.longdouble)), {}),
    "npz: unsigned": ("f.npz", npz(features=(X * 8).astype(np.uint64)), {}),
    "npz: names in the file": ("f.npz", npz(feature_names=np.array(["b", "a"])), {}),
    "npz: big-endian": ("f.npz", npz(features=X.astype(">f8")), {}),
    "npz: words of numpy": (
        "f.npz", npz(targets=np.array(["yes", "no"] * 2)), {"data.labels": np.array(["no", "yes"])}
    ),
    "svm: labels of words in quotes": ("f.svm", SVM.replace("1 1:", '"yes" 1:').replace("0 1:", '"no" 1:'), YES),
    "svm: a row of no features": ("f.svm", SVM + "1\n", {}),
    "svm: features of zero": ("f.svm", SVM + "1 1:0 2:0\n", {}),
    "svm: a comment in the middle": ("f.svm", SVM.replace("\n", "\n# x\n"), {}),
    "svm: tabs": ("f.svm", SVM.replace(" ", "\t"), {}),
    "svm: labels as floats": ("f.svm", SVM.replace("1 1:", "1.0 1:"), {}),
    "svm: more columns than there are": ("f.svm", SVM, {"data.columns": 9}),
    "parquet: labels of numbers": ("f.parquet", table(Y, a=pandas.array([1, 2, 3, 4], "Int64")), {}),
    "parquet: a column called index": (
        "f.parquet", lambda path: frame().rename(columns={"a": "index"}).to_parquet(path), {}
    ),
    "parquet: a name of blanks": ("f.parquet", lambda path: frame().rename(columns={"b": " "}).to_parquet(path), {}),
    "parquet: a first name of blanks": (
        "f.parquet", lambda path: frame().rename(columns={"a": " "}).to_parquet(path), {}
    ),
    "parquet: an index kept as a column": (
        "f.parquet", lambda path: frame().reset_index().to_parquet(path), {"data.columns": 3}
    ),
    "parquet: one row group for each row": ("f.parquet", lambda path: frame().to_parquet(path, row_group_size=1), {}),
    "csv: an index": ("f.csv", lambda path: frame().to_csv(path), {}),
    "csv: an index, columns stated": ("f.csv", lambda path: frame().to_csv(path), {"data.columns": 3}),
    "csv: an index with a name": ("f.csv", lambda path: frame().to_csv(path, index_label="row"), {"data.columns": 3}),
    "csv: an index that was read and written": (
        "f.csv", lambda path: frame().rename(columns={"a": "Unnamed: 0"}).to_csv(path, index=False), {}
    ),
}  # fmt: skip
ODD_FRAMES = {
    "frame: one column of constants": (lambda: frame(c=1), {}),
    "frame: labels of two types": (lambda: frame(np.array([1, "no"] * 2, object)), {"data.labels": ["no", 1]}),
    "frame: large whole numbers": (lambda: frame(b=2**53), {}),
    "frame: uint8": (lambda: frame(c=np.arange(4, dtype="uint8")), {}),
    "frame: numbers as texts": (lambda: frame(a=["0.5", "1e-3", " 2", "3 "]), {}),
    "frame: dates as labels": (
        lambda: frame(pandas.to_datetime(["2020-01-01", "2021-01-01"] * 2)),
        {"data.labels": ["2020-01-01", "2021-01-01"]}
    ),
    "frame: an index of dates": (lambda: frame().set_axis(pandas.date_range("2020", periods=4)), {}),
    "frame: duplicate index": (lambda: frame().set_axis([0, 0, 1, 1]), {}),
    "frame: names of other types": (lambda: frame().set_axis([1.5, None, True], axis=1), {}),
    "frame: names alike but for blanks": (lambda: frame().set_axis(["a", "a ", "y"], axis=1), {}),
    "frame: a missing label that is stated": (lambda: frame(["yes", None] * 2), {"data.labels": ["", "yes"]}),
}  # fmt: skip
ODD_PARTS = {
    "parts: names in one alone": ([WORDS[: WORDS.index("0.5,1")], WORDS[WORDS.index("0.5,1") :]], YES),
    "parts: rows in the place of names": ([ROWS, f"9,9,0\n{ROWS}"], {"data.header": True}),
    "parts: names with other blanks": ([CSV, CSV.replace("a,b", " a , b")], {}),
    "parts: of other lengths": ([CSV, f"{CSV}{ROWS}"], {}),
    "parts: features called otherwise": ([CSV, CSV.replace("b,", "c,")], {}),
}  # fmt: skip
LOOP = "0 1\n1 2\n2 0\n"
ODD_GRAPHS = {
    "edges twice": LOOP + "0 1\n",
    "edges of signs and letters": "a-1 b_2\nb_2 c.3\nc.3 a-1\n",
    "edges of negative numbers": "-1 0\n0 1\n1 -1\n",
    "edges with zeros before": "00 01\n01 02\n02 00\n",
    "edges of numbers and words": "1 a\na 2\n2 1\n",
    "edges of another script": "\u0430 \u0431\n\u0431 \u0432\n\u0432 \u0430\n",
    "edges of large numbers": "123456789012345678 2\n2 3\n3 123456789012345678\n",
    "edges of numbers beyond": "12345678901234567890 2\n2 3\n3 12345678901234567890\n",
    "edges of addresses": "10.0.0.1 10.0.0.2\n10.0.0.2 10.0.0.3\n10.0.0.3 10.0.0.1\n",
    "edges of paths": "/a /b\n/b /c\n/c /a\n",
    "edges with negative weights": "0 1 -1\n1 2 -2\n2 0 -.5\n",
    "edges with a comma at the end": "0,1,\n1,2,\n2,0,\n",
    "edges with weights that are missing": "0,1,2.5\n1,2,\n2,0,1.5\n",
    "edges with a weight left out": "0 1 0.5\n1 2\n2 0 0.5\n",
    "edges with words after them": "0 1 red\n1 2 blue\n2 0 red\n",
    "edges with whole weights that nodes are called by": "0 1 2\n1 2 0\n2 0 1\n",
    "edges with an apostrophe": "o'hara bob\nbob o'hara\n",
    "edges of names with blanks and numbers": "Gate 7,Gate 8\nGate 8,Gate 7\n",
    "edges of names with blanks, and a number": "Gate A,7\n7,Gate A\n",
    "edges of a head and mixed names": "source,target\n1,b\nb,1\n",
}  # fmt: skip
ODD_WORDS = {
    "a value in quotes": ["e.toml", 'topology.name="ring"'],
    "a key twice": ["e.toml", "seed=1", "seed=2"],
}
ODD = {
    **{name: ("file", *rest) for name, rest in ODD_FILES.items()},
    **{name: ("frame", *rest) for name, rest in ODD_FRAMES.items()},
    **{name: ("parts", *rest) for name, rest in ODD_PARTS.items()},
    **{name: ("graph", text) for name, text in ODD_GRAPHS.items()},
    **{name: ("words", words) for name, words in ODD_WORDS.items()},
}
INDEX = r"column '' seems to be the index of a data frame: drop this column \(index=False\), or give the column a name"
REFUSED = {  # each could be two things, and was silently taken for one
    "csv: an index": INDEX,
    "csv: an index, columns stated": INDEX,
    "csv: an index that was read and written": "column 'Unnamed: 0' seems to be the index",
    "parquet: a first name of blanks": INDEX,
    "parts: rows in the place of names": "part-1.csv: the columns are 9, 9, 0, but in .* 0.5, 0.25, 1",
    "parts: features called otherwise": "part-1.csv: the columns are a, c, y, but in .* a, b, y",
    "edges with a weight left out": "line 2: expected an edge, .* but found '2': this line has 2 words, but .* 3",
    "edges with words after them": "line 1: expected an edge, .* but found 'red' after an edge.*`source target weight",
    "edges with whole weights that nodes are called by": "line 1: expected an edge, .* but found '2' after an edge",
    "edges of names with blanks, and a number": "line 1: expected an edge, .* but found 'Gate A'",
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_input_is_read_all_the_same_or_is_refused_for_what_else_it_could_be(name, tmp_path):
    kind, *rest = ODD[name]

    def use():
        if kind == "file":
            read({"data.file": put(tmp_path / rest[0], rest[1])} | rest[2])
        elif kind == "frame":
            read({"data.file": rest[0]()} | rest[1])
        elif kind == "parts":
            for k, content in enumerate(rest[0]):
                put(tmp_path / f"part-{k}.csv", content)
            read({"data.file": "part-{agent}.csv", "data.partition": "even"} | rest[1])
        elif kind == "graph":
            edges_of(put(tmp_path / "g.txt", rest[0]))
        else:
            put(tmp_path / "e.toml", TOML)
            compose(gathered(*rest[0]), None)

    if name not in REFUSED:
        use()
        return
    with pytest.raises(BadInput, match=REFUSED[name]):
        use()


def test_few_odd_inputs_are_refused():
    assert len(ODD) >= 100
    assert len(REFUSED) <= 10


def test_studies_and_runs_are_found_at_home(tmp_path, monkeypatch):
    put(tmp_path / "s.toml", TOML + '[output]\ndir = "~/of study"\n[study]\nseeds = 2\n')
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    study = Study.of(["~/s.toml"])
    assert (study.place, len(study.points())) == (tmp_path / "of study", 2)
    put(tmp_path / "e.toml", TOML)
    for name in ("one", "two"):
        mpinodes.simulate("~/e.toml", f"output.dir=~/out/{name}")
    assert mpinodes.load("~/out/one").sizes["round"] == 3
    assert len(mpinodes.runs("~/out")) == 2
    assert not os.path.lexists("~")
