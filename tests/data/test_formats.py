"""Readers of the papers' file formats: what they make of good files, and what they say of bad ones."""

from __future__ import annotations

import bz2
import gzip
import io
import re
import subprocess
import sys
import zipfile

import numpy as np
import pandas
import pytest

from mpinodes.core.errors import BadInput
from mpinodes.data import adult, agaricus, cifar10, idx, libsvm, table
from mpinodes.data import table as frames

ALL = slice(None)


def dense(source, rows=ALL):
    features = source.features(np.arange(len(source.targets))[rows])
    return features if isinstance(features, np.ndarray) else features.toarray()


def put(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def error(read, *args):
    with pytest.raises(BadInput) as caught:
        read(*args)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# IDX

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 2, 3), dtype=np.uint8)
DIGITS = np.array([6, 8, 0, 9, 6], np.uint8)


def header(magic, *shape):
    return np.array([magic, *shape], ">u4").tobytes()


IMAGES = header(0x803, 5, 2, 3) + PIXELS.tobytes()
LABELS = header(0x801, 5) + DIGITS.tobytes()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_idx_images_are_rows_of_pixels_between_0_and_1(tmp_path, pack):
    source = idx.read(put(tmp_path / "images", pack(IMAGES)), put(tmp_path / "labels", pack(LABELS)))
    assert source.targets.tolist() == [6, 8, 0, 9, 6]
    assert (source.targets.dtype, source.dimension, source.upstream) == (np.float64, 6, None)
    np.testing.assert_array_equal(dense(source), PIXELS.reshape(5, 6) / 255)
    np.testing.assert_array_equal(source.features(np.array([3, 1])), PIXELS[[3, 1]].reshape(2, 6) / 255)


@pytest.mark.parametrize(
    ("name", "upstream"), [("train-images-idx3-ubyte.gz", 60_000), ("t10k-images-idx3-ubyte", 10_000)]
)
def test_mnist_is_known_by_name(tmp_path, name, upstream):
    assert idx.read(put(tmp_path / name, IMAGES), put(tmp_path / "labels", LABELS)).upstream == upstream


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (IMAGES[:-1], LABELS, r"images: truncated: ends at byte 45, within record 5 of 5"),
        (IMAGES[:9], LABELS, r"images: truncated: ends at byte 9, within the header"),
        (IMAGES + b"x", LABELS, r"images: the file goes on after its 5 records, at byte 46"),
        (LABELS + IMAGES, LABELS, r"images: bytes 0 to 3 are 0x00000801 \(IDX labels\); IDX images have 0x00000803"),
        (b"%PDF-1.4 and so on", LABELS, r"images: bytes 0 to 3 are 0x25504446 \(no IDX file\)"),
        (header(0x803, 0, 28, 28), LABELS, r"images: empty: its header says 0 x 28 x 28"),
        (b"", LABELS, r"images: empty"),
        (
            gzip.compress(IMAGES, mtime=0)[:-9],
            LABELS,
            r"images: truncated: the file ends at byte \d+, before its packed data",
        ),
        (
            gzip.compress(IMAGES, mtime=0)[:-8] + bytes(8),
            LABELS,
            r"images: the packed data are corrupt after \d+ unpacked bytes: CRC",
        ),
        (IMAGES, IMAGES, r"labels: bytes 0 to 3 are 0x00000803 \(IDX images\)"),
        (IMAGES, LABELS[:-2], r"labels: truncated: ends at byte 11, within record 4 of 5"),
        (IMAGES, header(0x801, 2) + bytes(2), r"images has 5 images, but .*labels has 2 labels"),
    ],
)
def test_a_bad_idx_file_says_where(tmp_path, images, labels, message):
    files = put(tmp_path / "images", images), put(tmp_path / "labels", labels)
    assert re.search(message, error(idx.read, *files))


def test_a_missing_file_is_named(tmp_path):
    assert re.search(r"nowhere: cannot be read: No such file", error(libsvm.read, tmp_path / "nowhere"))
    assert re.search(r"cannot be read: Is a directory", error(adult.read, tmp_path))


# CIFAR-10


def records(labels, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (len(labels), 3072), dtype=np.uint8)
    return np.column_stack([np.array(labels, np.uint8), pixels])


def test_cifar_rows_are_counted_from_file_to_file(tmp_path):
    parts = [records([3, 5, 3], 1), records([9, 3], 2)]
    source = cifar10.read([put(tmp_path / f"data_batch_{k}.bin", part.tobytes()) for k, part in enumerate(parts, 1)])
    whole = np.concatenate(parts)
    assert source.targets.tolist() == [3, 5, 3, 9, 3]
    assert (source.dimension, source.upstream) == (3072, 20_000)
    np.testing.assert_array_equal(dense(source), whole[:, 1:] / 255)
    rows = np.array([4, 0, 3])
    np.testing.assert_array_equal(source.features(rows), whole[rows, 1:] / 255)
    with pytest.raises(IndexError):
        source.features(np.array([5]))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (records([1, 2]).tobytes()[:-100], r"b.bin: record 2, from byte 3073 on, has 2973 of 3073 bytes"),
        (records([1, 2, 10]).tobytes(), r"b.bin: record 3, at byte 6146: label 10 is not one of 0 to 9"),
        (b"", r"b.bin: empty"),
    ],
)
def test_a_bad_cifar_file_says_which_record(tmp_path, data, message):
    good = put(tmp_path / "a.bin", records([1]).tobytes())
    assert re.search(message, error(cifar10.read, [good, put(tmp_path / "b.bin", data)]))


# LIBSVM

TEXT = "+1 1:0.5 3:-2e-1 \n\n-1 2:1 # about this one\n# about the file\n2.5\n"
TABLE = [[0.5, 0, -0.2], [0, 1, 0], [0, 0, 0]]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
def test_libsvm_text_becomes_a_sparse_matrix(tmp_path, pack):
    import scipy.sparse

    source = libsvm.read(put(tmp_path / "some", pack(TEXT.encode())))
    assert source.targets.tolist() == [1, -1, 2.5]
    assert (source.dimension, source.upstream) == (3, None)
    assert isinstance(source.features(np.array([0])), scipy.sparse.csr_array)
    np.testing.assert_array_equal(dense(source), TABLE)
    np.testing.assert_array_equal(dense(source, [2, 0]), [TABLE[2], TABLE[0]])
    assert source.features(np.array([], int)).shape == (0, 3)


def test_libsvm_agrees_with_scikit_learn(tmp_path):
    from sklearn.datasets import dump_svmlight_file, load_svmlight_file

    rng = np.random.default_rng(1)
    rows = rng.random((50, 40)) * (rng.random((50, 40)) < 0.2)
    path = tmp_path / "rows"
    dump_svmlight_file(rows, rng.integers(0, 2, 50), str(path), zero_based=False)
    features, targets = load_svmlight_file(str(path), n_features=40)
    source = libsvm.read(path, 40)
    np.testing.assert_array_equal(dense(source), features.toarray())
    np.testing.assert_array_equal(source.targets, targets)


@pytest.mark.parametrize(
    ("name", "upstream"), [("mushrooms", 8124), ("rcv1_train.binary.bz2", 20_242), ("rcv1_train.binary", 20_242)]
)
def test_libsvms_files_are_known_by_name(tmp_path, name, upstream):
    source = libsvm.read(put(tmp_path / name, TEXT), 47_236)
    assert (source.dimension, source.upstream) == (47_236, upstream)
    assert source.features(np.array([0, 1])).shape == (2, 47_236)


def read_whole(path, dimension=None):
    dense(libsvm.read(path, dimension))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:2\n\n1 0:3 2:1\n", r"x: line 3: index 0 must be above 0, because indices count from 1 and ascend"),
        ("1 0:3\n", r"x: line 1: index 0 must be above 0, because indices count from 1"),
        ("1 1:2 2:1\n1 2:1 2:1 3:1\n", r"x: line 2: index 2 must be above 2, because indices count from 1 and ascend"),
        ("1 4:2 2:1\n", r"x: line 1: index 2 must be above 4"),
        ("1 1:2\n1 1:nan 2:1\n", r"x: line 2: '1:nan' is not a finite number"),
        ("1 1:inf\n", r"x: line 1: '1:inf' is not a finite number"),
        ("1 1:2\n1 2:1 12", r"x: line 2: '12' is not index:value"),
        ("1 1:2\n1 2:1 3:", r"x: line 2: '3:' is not index:value"),
        ("1 a:2 3:1\n", r"x: line 1: 'a:2' is not index:value"),
        ("1 1:1_0 2:1\n", r"x: line 1: '1:1_0' is not index:value"),
        ("1 1:1 99999999999:1 2:1\n", r"x: line 1: index 99999999999 is above 4"),
        ("1 1:1 99999999999999999999:1 2:1\n", r"x: line 1: '99999999999999999999:1' is not index:value"),
        ("1 1:2\n0 1_0:1\n", r"x: line 2: '1_0:1' is not index:value"),
        ("1_0 1:2\n", r"x: line 1: label '1_0' is not a finite number"),
        ("1 1:2:3 4:1\n", r"x: line 1: '1:2:3' is not index:value"),
        ("1 1 2:3\n", r"x: line 1: '1' is not index:value"),
        ("1 1:2\nedible 1:2\n", r"x: line 2: label 'edible' is not a finite number"),
        ("1 1:2\nnan 1:2\n", r"x: line 2: label 'nan' is not a finite number"),
        ("1 1:2\n1 5:1\n", r"x: line 2: index 5 is above 4, the number of features"),
        ("# nothing\n \n", r"x: empty: all lines are blank or comments"),
        ("\x00\x01" * 99, r"x: line 1: label .{,99}\.\.\.' is not a finite number"),
        (bz2.compress(TEXT.encode())[:-5], r"x: truncated: the file ends at byte \d+, before its packed data end"),
        (b"BZh9" + bytes(99), r"x: the packed data are corrupt after 0 unpacked bytes"),
        (gzip.compress(b"", mtime=0), r"x: empty"),
    ],
)
def test_a_bad_libsvm_file_says_which_line(tmp_path, text, message):
    assert re.search(message, error(read_whole, put(tmp_path / "x", text), 4))


def test_without_a_dimension_some_line_must_have_a_feature_and_none_an_absurd_one(tmp_path):
    assert re.search(
        r"x: line 2 and all other lines have a label, but", error(libsvm.read, put(tmp_path / "x", "\n1\n2\n"))
    )
    assert re.search(
        r"x: line 1: index 99999999999 is above", error(libsvm.read, put(tmp_path / "x", "1 99999999999:1"))
    )


# adult

ADULT = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 2500, 40, "
    "United-States, <=50K\n"
    "18, ?, 103497, Some-college, 10, Never-married, ?, Own-child, White, Female, 0, 0, 30, United-States, <=50K\n"
    "90, Private, 1600000, 5th-6th, 3, Widowed, Sales, Wife, Black, Female, 99999, 5001, 99, Holand-Netherlands, >50K\n"
    "\n"
)
TEST = "|1x3 Cross validator\n" + ADULT.replace("50K\n", "50K.\n")


def test_adult_rows_have_105_features_of_norm_one(tmp_path):
    """The first complete row and the third, written out."""
    source = adult.read(put(tmp_path / "adult.data", ADULT))
    assert source.targets.tolist() == [-1, 1]
    assert (source.dimension, source.upstream) == (105, 30_162)
    rows = dense(source)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-15)
    first, last = rows / rows[:, -1:]
    starts = np.cumsum([0, 7, 16, 7, 14, 6, 5, 2])
    assert np.flatnonzero(first[:98]).tolist() == (starts + np.array([5, 0, 2, 8, 3, 0, 1, 0])).tolist()
    assert np.flatnonzero(last[:98]).tolist() == (starts + np.array([0, 14, 4, 3, 0, 4, 0, 40])).tolist()
    np.testing.assert_allclose(first[98:], [0.39, 77516 / 1.5e6, 13 / 16, 2174 / 99_999, 0.5, 0.4, 1])
    np.testing.assert_allclose(last[98:], [0.9, 1, 3 / 16, 1, 1, 0.99, 1])


def test_a_number_of_adult_has_no_underscore_in_it(tmp_path):
    assert "'3_9' is not a whole number" in error(
        adult.read, put(tmp_path / "adult.data", ADULT.replace("39", "3_9", 1))
    )


def test_adult_test_differs_only_in_its_first_line_and_the_points_after_labels(tmp_path):
    data, test = put(tmp_path / "adult.data", ADULT), put(tmp_path / "adult.test", TEST)
    one, other = adult.read(data), adult.read(test)
    assert other.upstream == 15_060
    np.testing.assert_array_equal(one.targets, other.targets)
    np.testing.assert_array_equal(dense(one), dense(other))
    np.testing.assert_array_equal(dense(one, [1]), dense(one)[1:])


def test_adult_by_maxima_divides_by_the_largest_in_all_files_together(tmp_path):
    """The row that is dropped has the largest age; each of the files has some maxima."""
    data = put(tmp_path / "adult.data", ADULT.replace("18, ?", "999, ?"))
    test = put(tmp_path / "adult.test", TEST.replace("39,", "95,").replace("1600000", "400000").replace("5001", "0"))
    sources = adult.read_by_maxima([data, test])
    assert [source.upstream for source in sources] == [30_162, 15_060]
    largest = np.array([95, 1_600_000, 13, 99_999, 5001, 99])
    first = [[39, 77516, 13, 2174, 2500, 40], [90, 1_600_000, 3, 99_999, 5001, 99]]
    second = [[95, 77516, 13, 2174, 2500, 40], [90, 400_000, 3, 99_999, 0, 99]]
    rows = np.concatenate([dense(source) for source in sources])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-15)
    np.testing.assert_allclose((rows / rows[:, -1:])[:, 98:-1], np.array(first + second) / largest, rtol=1e-14)
    for source, path in zip(sources, (data, test), strict=True):
        public = adult.read(path)
        np.testing.assert_array_equal(source.targets, public.targets)
        np.testing.assert_array_equal(dense(source)[:, :98] > 0, dense(public)[:, :98] > 0)


def test_an_adult_column_of_zeros_or_less_stays_zero_by_maxima(tmp_path):
    text = ADULT.replace("2174", "0").replace("99999", "-7")
    (source,) = adult.read_by_maxima([put(tmp_path / "adult.data", text)])
    rows = dense(source)
    assert rows[:, 101].tolist() == [0, 0]
    assert (rows[:, 102] > 0).all()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Sales, ", "", r"adult.data: line 3: 14 fields found; 15 fields separated by commas expected"),
        ("Sales", "Hacker", r"adult.data: line 3, field 7, occupation: 'Hacker' is none of Tech-support, Craft-repair"),
        ("Private", "Never-worked", r"adult.data: line 3, field 2, workclass: 'Never-worked' is none of Private"),
        ("90,", "ninety,", r"adult.data: line 3, field 1, age: 'ninety' is not a whole number"),
        (">50K", ">5", r"adult.data: line 3, field 15, income: '>5' is none of <=50K, >50K"),
        ("39,", "|39,", r"adult.data: empty: no line without a \?"),
        (ADULT, "PK\x03\x04 an archive", r"adult.data: line 1: 1 fields found; 15 fields"),
    ],
)
def test_a_bad_adult_file_says_which_line_and_field(tmp_path, old, new, message):
    text = ADULT.replace(old, new)
    if new == "|39,":
        text = "".join(text.splitlines(keepends=True)[:2])
    assert re.search(message, error(adult.read, put(tmp_path / "adult.data", text)))


# agaricus

AGARICUS = "p,x,s,n,t,p,f,c,n,k,e,e,s,s,w,w,p,w,o,p,k,s,u\ne,x,s,y,t,a,f,c,b,k,e,c,s,s,w,w,p,w,o,p,n,n,g\n"


def test_agaricus_has_112_columns_in_the_order_of_the_attribute_list(tmp_path):
    source = agaricus.read(put(tmp_path / "agaricus-lepiota.data", AGARICUS))
    assert source.targets.tolist() == [1, -1]
    assert (source.dimension, source.upstream) == (112, 8124)
    poisonous = [3, 10, 11, 21, 30, 33, 34, 37, 38, 50, 55, 59, 67, 76, 78, 81, 84, 90, 91, 103, 110]
    edible = [3, 10, 20, 21, 23, 33, 34, 36, 38, 50, 55, 59, 67, 76, 78, 81, 84, 90, 92, 102, 106]
    for row, ones in zip(dense(source), (poisonous, edible), strict=True):
        assert (np.flatnonzero(row) + 1).tolist() == ones
        assert set(row) == {0.0, 1.0}
    np.testing.assert_array_equal(dense(source, [1]), dense(source)[1:])


def test_a_missing_stalk_root_does_not_matter(tmp_path):
    whole = agaricus.read(put(tmp_path / "whole", AGARICUS))
    unknown = agaricus.read(put(tmp_path / "unknown", AGARICUS.replace("k,e,e,", "k,e,?,")))
    np.testing.assert_array_equal(dense(whole), dense(unknown))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("e,x,s,y", "e,x,s", r"a: line 2: 22 fields found; 23 fields"),
        ("e,x,s,y", "e,x,s,z", r"a: line 2, field 4, cap-color: 'z' is none of n, b, c"),
        ("e,x,s,y", "e,x,,y", r"a: line 2, field 3, cap-surface: '' is none of f, g, y, s"),
        ("e,x,s,y", "1,x,s,y", r"a: line 2, field 1, class: '1' is none of e, p"),
        (AGARICUS, "\n\n", r"a: empty"),
    ],
)
def test_a_bad_agaricus_file_says_which_line_and_field(tmp_path, old, new, message):
    assert re.search(message, error(agaricus.read, put(tmp_path / "a", AGARICUS.replace(old, new))))


# a user's own file

FEATURES, TARGETS = np.arange(6.0).reshape(3, 2), np.array([0.5, -1, 2])
INFINITE = np.array([[0, 1], [np.inf, 2], [3, 4]])


def npz(path, **arrays):
    np.savez(path, **({"features": FEATURES, "targets": TARGETS} | arrays))
    return path


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int16])
def test_an_npz_of_ones_own(tmp_path, kind):
    source = table.read(npz(tmp_path / "own.npz", features=FEATURES.astype(kind)))
    assert (source.dimension, source.upstream, source.targets.tolist()) == (2, None, [0.5, -1, 2])
    assert dense(source).dtype == np.float64
    np.testing.assert_array_equal(dense(source, [2, 0]), FEATURES[[2, 0]])


@pytest.mark.parametrize("top", ["", "height, width,target\n", "\ufeffa,b,c\n"])
def test_a_csv_of_ones_own_with_and_without_names(tmp_path, top):
    source = table.read(
        put(tmp_path / "own.csv", f"{top}0,1,0.5\n2, 3,-1\n\n4,5,2e0\n"), table.FileFacts(header=bool(top))
    )
    assert source.targets.tolist() == TARGETS.tolist()
    np.testing.assert_array_equal(dense(source), FEATURES)
    np.testing.assert_array_equal(dense(source, [1]), FEATURES[1:2])


@pytest.mark.parametrize("name", ["own.libsvm", "own.svm", "own.txt", "own.txt.bz2", "own.svm.gz"])
def test_libsvm_text_of_ones_own(tmp_path, name):
    pack = {"gz": gzip.compress, "bz2": bz2.compress}.get(name.rpartition(".")[2], bytes)
    np.testing.assert_array_equal(dense(table.read(put(tmp_path / name, pack(TEXT.encode())))), TABLE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,y\n3,nan\n", r"own.csv: line 2, column 2: 'nan' is not a finite number"),
        ("x,y\n1,3\n,3\n", r"own.csv: line 3, column 1: '' is not a finite number; fill in missing values by a public"),
        ("x,y\n1,3\nw,3\n", r"line 3, column 1: 'w' is not a finite number; if 'x' is the target, set data.target=x; "),
        ("x,z,w,y\n1,b,a,3\n", r"line 2, column 2: 'b' is not .*, columns=\['z', 'w'\], dtype=int\)"),
        ("x 0,y\nb,3\n", r"'x 0' is the target, set 'data.target=x 0'; .*read_csv\('/.*own.csv'\)"),
        ("x,z,y\ninf,b,3\n", r"line 2, column 1: 'inf' is not a finite number$"),
        ("a,b\n1,2\n\n3,x\n", r"own.csv: line 4, column 2: 'x' is not a finite number"),
        ("1,x\n1,2\n", r"own.csv: line 1, column 2: 'x' is not a finite number; data.header .*; data.labels states"),
        ("x,y\n3,4,5\n", r"own.csv: line 2: 3 entries, but the first line has 2"),
        ("x,y\n3,\n", r"own.csv: line 2, column 2: '' is not"),
        ("1;2\n", r"own.csv: line 1: one column found; features and a target expected, separated by commas"),
        ("a;b\n1;2\n", r"own.csv: line 1: one column found; .* separated by commas, not by ';'$"),
        ("a\tb\n1\t2\n", r"own.csv: line 1: one column found; .* separated by commas, not by '\\t'$"),
        ("a,b\n1|2\n", r"own.csv: line 2: one column found; .* separated by commas, not by '|'$"),
        ("a,b\n", r"own.csv: empty: no line of numbers"),
        (b"\xff\xff1,2\n3,4\n", r"own.csv: line 1, column 1: '..1' is not"),
    ],
)
def test_a_bad_csv_says_which_line_and_column(tmp_path, text, message):
    assert re.search(message, error(table.read, put(tmp_path / "own.csv", text)))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"features": INFINITE},
            r"own.npz: features\[1, 0\] \(row first, from 0\): inf",
        ),
        ({"targets": np.array([0, np.nan, 1])}, r"own.npz: targets\[1\] \(from 0\): nan"),
        (
            {"features": INFINITE.astype(np.float32)},
            r"features\[1, 0\] \(row first, from 0\): inf",
        ),
        ({"targets": np.array([0, 1, -1e101])}, r"targets\[2\] \(from 0\): -1e\+101 is above 1e\+100"),
        ({"features": FEATURES[:2]}, r"own.npz: 2 rows in `features`, but 3 in `targets`"),
        ({"features": FEATURES.ravel()}, r"own.npz: `features` is float64 of shape \(6,\); numbers of shape \(N, d\)"),
        ({"features": FEATURES * 1j}, r"own.npz: `features` is complex128 of shape \(3, 2\)"),
        ({"features": np.zeros((0, 2))}, r"own.npz: `features` is float64 of shape \(0, 2\)"),
        ({"targets": TARGETS[:, None]}, r"own.npz: `targets` is float64 of shape \(3, 1\); numbers of shape \(N,\)"),
        ({"targets": np.array(["a", "b", "c"])}, r"own.npz: `targets` is <U1 of shape"),
    ],
)
def test_a_bad_npz_says_which_entry(tmp_path, arrays, message):
    assert re.search(message, error(table.read, npz(tmp_path / "own.npz", **arrays)))


@pytest.mark.parametrize(
    ("entry", "size", "message"),
    [
        ("features.npy", None, r"own.npz: `features` is \|S5 of shape \(\)"),
        ("features", None, r"own.npz: `features` is \|S5 of shape \(\)"),
        ("features.npy", 10**5, r"own.npz: does not fit the memory: Unable to allocate|own.npz: not an .npz of"),
        ("features.npy", 10**12, r"own.npz: not an .npz of .*array is too big"),
    ],
)
def test_an_npz_whose_entries_are_not_what_they_claim(tmp_path, entry, size, message):
    content = io.BytesIO(b"hello")
    if size:
        header = {"descr": "<f8", "fortran_order": False, "shape": (size, size)}
        np.lib.format.write_array_header_1_0(content, header)
    with zipfile.ZipFile(tmp_path / "own.npz", "w") as file:
        for name in (entry, entry.replace("features", "targets")):
            file.writestr(name, content.getvalue())
    assert re.search(message, error(table.read, tmp_path / "own.npz"))


def test_a_pickle_is_never_opened(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (tmp_path.joinpath("gone off").touch, ())

    path = tmp_path / "own.npz"
    np.savez(path, features=np.array([[Bomb()]], object), targets=TARGETS)
    assert re.search(r"own.npz: not an .npz of .*allow_pickle=False", error(table.read, path))
    with path.open("wb") as file:
        np.lib.format.write_array(file, np.array([Bomb()], object))
    assert re.search(r"own.npz: not an .npz of", error(table.read, path))
    assert not tmp_path.joinpath("gone off").exists()


def test_an_npz_that_is_sparse_or_single_or_broken(tmp_path):
    import scipy.sparse

    path = tmp_path / "own.npz"
    scipy.sparse.save_npz(path, scipy.sparse.csr_array(FEATURES))
    assert re.search(
        r"own.npz: the file has the arrays .*indices.*; dense `features`.*sparse features as LIBSVM text",
        error(table.read, path),
    )
    with path.open("wb") as file:
        np.save(file, FEATURES)
    assert re.search(r"own.npz: not an .npz of", error(table.read, path))
    put(path, b"")
    assert re.search(r"own.npz: not an .npz of .*No data left", error(table.read, path))
    whole = npz(path).read_bytes()
    put(path, whole[:200])
    assert re.search(r"own.npz: not an .npz of", error(table.read, path))
    put(path, whole.replace(FEATURES.tobytes(), FEATURES[::-1].tobytes()))
    assert re.search(r"own.npz: not an .npz of .*Bad CRC-32", error(table.read, path))
    assert re.search(r"none.npz: cannot be read: No such file", error(table.read, tmp_path / "none.npz"))


NAMED = table.FileFacts(header=True, target="b, c")


def test_the_target_is_the_column_of_its_name_and_quotes_hold_commas(tmp_path):
    text = '\ufeff"a","b, c",d\r\n0,0.5,"1"\r\n2,-1,3\r\n4,2,5\r\n'
    source = table.read(put(tmp_path / "own.csv", text), NAMED)
    assert source.targets.tolist() == TARGETS.tolist()
    np.testing.assert_array_equal(dense(source), FEATURES)
    labelled = table.read(
        put(tmp_path / "words.csv", "b,a\nno,1\nyes,2\n"), table.FileFacts(0, ("no", "yes"), True, "b")
    )
    assert (labelled.targets.tolist(), dense(labelled).tolist()) == ([-1, 1], [[1], [2]])


@pytest.mark.parametrize(
    ("text", "stated", "message"),
    [
        ("a,b\n1,2\n", NAMED, r"line 1: data.target = 'b, c': no columns have that name; the columns are a, b"),
        ('"b, c","b, c"\n1,2\n', NAMED, "line 1: data.target = 'b, c': 2 columns have that name"),
        (
            "1,2\n",
            table.FileFacts(header=False, target="b"),
            "line 1: data.target = 'b' names a column: leave data.header=false out",
        ),
        ('a,"b, c",d\n1,2,x\n', NAMED, "line 2, column 3: 'x' is not a finite number"),
        ('a,"b, c",d\n1,y,3\n', NAMED, "line 2, column 2: 'y' is not a finite number"),
    ],
)
def test_a_column_that_is_named_and_is_not_there(tmp_path, text, stated, message):
    assert re.search(message, error(table.read, put(tmp_path / "own.csv", text), stated))


def frame(**columns):
    return pandas.DataFrame({"a": [0, 2, 4], "y": [0.5, -1, 2], "d": [1.0, 3, 5]} | columns)


@pytest.mark.parametrize("kind", ["float64", "float32", "int16", "Int64", "bool"])
def test_a_parquet_of_ones_own(tmp_path, kind):
    whole = frame(d=[1, 1, 0])
    whole.astype({"d": kind}).to_parquet(tmp_path / "own.parquet")
    source = table.read(tmp_path / "own.parquet", table.FileFacts(2, target="y"))
    assert source.targets.tolist() == TARGETS.tolist()
    np.testing.assert_array_equal(dense(source), whole[["a", "d"]].to_numpy(float))
    frame(y=["no", "yes", "no"]).to_parquet(tmp_path / "words.parquet")
    assert table.read(tmp_path / "words.parquet", table.FileFacts(0, ("no", "yes"), None, "y")).targets.tolist() == [
        -1,
        1,
        -1,
    ]


@pytest.mark.parametrize(
    ("columns", "stated", "message"),
    [
        (
            {"a": ["1", "y", "z"]},
            {},
            r"column 'a', row 1 \(from 0\): 'y' is not a finite number; pandas.get_dummies turns words into numbers",
        ),
        ({"a": [[1], [2], [3]]}, {}, r"column 'a', row 0 \(from 0\): '\[1\]'"),
        ({"a": pandas.array([1, 2, None], "Int64")}, {}, r"column 'a', row 2 \(from 0\): '<NA>' is not"),
        ({"d": [1, None, 2]}, {}, r"column 'd', row 1 \(from 0\): 'nan' is not a finite number"),
        ({"a": [1, 1e101, 2]}, {}, r"column 'a', row 1 \(from 0\): '1e\+101' is above"),
        ({}, {"header": True}, "own.parquet: data.header is for .csv files"),
        ({}, {"columns": 3}, "3 columns with the target, but data.columns = 3 and a target make 4"),
        ({}, {"target": "z"}, "data.target = 'z': no columns have that name; the columns are a, y, d"),
        (
            {"d": ["no", "yes", "maybe"]},
            {"labels": ("no", "yes")},
            r"column 'd', row 2 \(from 0\): label 'maybe' is neither 'no' nor 'yes'",
        ),
        ({"Unnamed: 0": [0, 1, 2]}, {}, "column 'Unnamed: 0' seems to be the index of a data frame"),
    ],
)
def test_a_bad_parquet_says_which_column(tmp_path, columns, stated, message):
    frame(**columns).to_parquet(tmp_path / "own.parquet")
    assert re.search(message, error(table.read, tmp_path / "own.parquet", table.FileFacts(**stated)))


DATES = pandas.to_datetime(["2020-01-01"] * 3)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (pandas.array([1, None, 0], "Int64"), "row 1 (from 0) is missing: a label expected"),
        (pandas.array([True, False, None], "boolean"), "row 2 (from 0) is missing: a label expected"),
        (pandas.array(["1", None, "0"], "string"), "row 1 (from 0) is missing: a label expected"),
        (pandas.Categorical(["1", "0", None]), "row 2 (from 0) is missing: a label expected"),
        ([None, True, False], "row 0 (from 0) is missing: a label expected"),
        ([1.0, np.nan, 0.0], "row 1 (from 0) is missing: a label expected"),
        (DATES, "row 0 (from 0): label '2020-01-01 00:00:00' is neither 0 nor 1"),
        (DATES.date, "row 0 (from 0): label '2020-01-01' is neither 0 nor 1"),
        ([[1], [0], [1]], "row 0 (from 0): label '[1]' is neither 0 nor 1"),
        ([{"a": 1}, {"a": 0}, {"a": 1}], "row 0 (from 0): label \"{'a': 1}\" is neither 0 nor 1"),
        ([b"1", b"0", b"1"], "row 0 (from 0): label \"b'1'\" is neither 0 nor 1"),
        (DATES - DATES[0], "row 0 (from 0): label '0 days 00:00:00' is neither 0 nor 1"),
    ],
)
def test_a_parquet_target_that_is_no_label_is_named_with_its_row(tmp_path, target, message):
    frame(d=target).to_parquet(tmp_path / "own.parquet")
    told = error(table.read, tmp_path / "own.parquet", table.FileFacts(labels=(0.0, 1.0)))
    assert told == f"{tmp_path / 'own.parquet'}: column 'd', {message}"


@pytest.mark.parametrize("missing", ["None", "nan", "<NA>"])
def test_what_is_missing_is_no_label_whatever_labels_are_called(tmp_path, missing):
    frame(d=["yes", None, "yes"]).to_parquet(tmp_path / "own.parquet")
    assert "row 1 (from 0) is missing" in error(
        table.read, tmp_path / "own.parquet", table.FileFacts(labels=(missing, "yes"))
    )
    file = npz(tmp_path / "own.npz", targets=np.array([1, np.nan, 1]))
    assert "targets[1] (from 0): label 'nan' is neither" in error(
        table.read, file, table.FileFacts(labels=(missing, 1.0))
    )


@pytest.mark.parametrize(
    "text",
    [
        ",a,b,y\n0,.1,.2,1\n1,.3,.4,0\n",
        '"","a","b","y"\n"1",.1,.2,1\n"2",.3,.4,0\n',
        " ,a,b,y\n0,.1,.2,1\n1,.3,.4,0\n",
        "\ufeff,a,b,y\r\n0,.1,.2,1\r\n1,.3,.4,0\r\n",
        "Unnamed: 0,a,b,y\n0,.1,.2,1\n1,.3,.4,0\n",
        "Unnamed: 0.1,Unnamed: 0,a,y\n0,0,.2,1\n1,1,.4,0\n",
        "a,b,__index_level_0__,y\n.1,.2,0,1\n.3,.4,1,0\n",
    ],
)
@pytest.mark.parametrize("columns", [0, 3])
def test_an_index_that_was_written_along_is_no_feature(tmp_path, text, columns):
    stated = table.FileFacts(columns, (0.0, 1.0), True if columns else None)
    assert "seems to be the index of a data frame" in error(table.read, put(tmp_path / "own.csv", text), stated)


INDEX_NAMES = ["index", "Index", "level_0", "unnamed: 0", "UNNAMED: 0", "unnamed_0", "Unnamed: 1", "X", "row.names",
               "rownames", "...1", "row_nr", "V1"]  # fmt: skip
ROWS_IN_ORDER = [[0, 1, 2], [1, 2, 3], [50, 51, 52]]


@pytest.mark.parametrize("name", INDEX_NAMES)
def test_an_index_by_a_name_that_programs_give_is_no_feature(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for rows in ROWS_IN_ORDER:
        whole = pandas.DataFrame({name: rows, "a": [0.5, 0.25, 1.0], "y": [1, 0, 1]})
        whole.to_csv("own.csv", index=False)
        whole.to_parquet("own.parquet")
        for file in ("own.csv", "own.parquet", frames.kept({"file": whole})["file"]):
            message = error(table.read, tmp_path / file, table.FileFacts(labels=(0.0, 1.0)))
            assert f"column {name!r} seems to be the index of a data frame: drop this column" in message


@pytest.mark.parametrize("name", ["index", "level_0", "row.names", "...1"])
@pytest.mark.parametrize("rows", [[7, 2, 5], [0, 3, 4]])
def test_an_index_of_chosen_rows_is_no_feature(name, rows, tmp_path):
    pandas.DataFrame({name: rows, "a": [0.5, 0.25, 1.0], "y": [1, 0, 1]}).to_csv(tmp_path / "own.csv", index=False)
    assert f"column {name!r} seems to be the index" in error(
        table.read, tmp_path / "own.csv", table.FileFacts(labels=(0.0, 1.0))
    )


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("X", [3.0, 1.0, 2.0]), ("X", [1.0, 5.0, 9.0]), ("X", [0.5, 1.5, 2.5]), ("index", [0.1, 0.2, 0.3]),
        ("index", [1.0, 1.0, 2.0]), ("V1", [7.0, 6.0, 5.0]), ("row.names", [0.0, 0.0, 1.0]), ("id", [0.0, 1.0, 2.0]),
        ("x1", [0.0, 1.0, 2.0]), ("day", [1.0, 2.0, 3.0]), ("indexed", [1.0, 2.0, 3.0]),
    ],
)  # fmt: skip
def test_a_feature_with_the_name_or_the_values_of_an_index_alone_stays_a_feature(name, values, tmp_path):
    pandas.DataFrame({name: values, "y": [1, 0, 1]}).to_csv(tmp_path / "own.csv", index=False)
    assert dense(table.read(tmp_path / "own.csv", table.FileFacts(labels=(0.0, 1.0))))[:, 0].tolist() == values


def test_an_index_that_the_number_of_columns_counts_is_a_feature(tmp_path):
    file = put(tmp_path / "own.csv", "index,a,y\n0,.5,1\n1,.25,0\n")
    assert table.read(file, table.FileFacts(2, (0.0, 1.0))).columns == ("index", "a", "y")


@pytest.mark.parametrize(("target", "missing"), [("d", "d"), ("y", "y"), ("", "d"), ("d", "a")])
def test_what_a_data_frame_lacks_is_named_by_its_column_and_row(target, missing, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = frame()
    whole.loc[1, missing] = np.nan
    for labels in ({}, {"labels": None}, {"labels": 3}, {"labels": [0, 1]}):
        message = error(frames.kept, {"file": whole, "target": target, **labels})
    assert message == f"data.file: column {missing!r}, row 1 (from 0) is missing: a value expected"
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", ["a\nb", "a\r", "a\x1b", ""])
def test_a_data_frames_column_whose_name_is_no_line_is_named(name):
    message = error(frames.kept, {"file": frame().rename(columns={"y": name})})
    assert (
        message == f"data.file: column {name!r} of the data frame: each column needs a name of printable "
        "characters that no other column has"
    )


def test_labels_that_could_be_either_of_two_are_refused(tmp_path):
    file = put(tmp_path / "own.csv", "a,y\n1,1.00\n2,0\n")
    assert table.read(file, table.FileFacts(labels=(0.0, "1"))).targets.tolist() == [1, -1]
    assert "label '1.00' is none of" in error(table.read, file, table.FileFacts(labels=("0", "1", "1.0")))


def test_a_csv_that_its_reader_cannot_read_says_where(tmp_path):
    message = error(table.read, put(tmp_path / "own.csv", 'a,y\n"1"\r2,3\n'))
    assert message.startswith(f"{tmp_path / 'own.csv'}: line 2: ")


def test_data_sets_may_begin_with_a_byte_order_mark(tmp_path):
    marked = [put(tmp_path / f"a{k}", mark + ADULT) for k, mark in enumerate(["", "\ufeff"])]
    np.testing.assert_array_equal(*(dense(adult.read(path)) for path in marked))
    marked = [put(tmp_path / f"m{k}", mark + AGARICUS) for k, mark in enumerate(["", "\ufeff"])]
    np.testing.assert_array_equal(*(dense(agaricus.read(path)) for path in marked))


@pytest.mark.parametrize("kind", ["float32", "float16", "Float32", "float[pyarrow]"])
def test_a_data_frames_numbers_keep_all_their_digits(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = frame(d=[0.1, 0.2, 0.3]).astype({"d": kind})
    kept = frames.kept({"file": whole})
    read = table.read(tmp_path / kept["file"], table.FileFacts(header=True))
    assert read.targets.tolist() == whole["d"].astype(float).tolist()


@pytest.mark.parametrize("index", ["a", ["a", "b"]])
def test_an_index_with_a_name_is_left_out_unless_it_is_asked_for(index, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = frame(b=[1, 2, 3], z=[1, 3, 2]).set_index(index)
    whole.to_parquet(tmp_path / "own.parquet")
    rest = list(whole.columns)
    for target, names in (("", rest), ("d", [*(name for name in rest if name != "d"), "d"])):
        assert table.read(tmp_path / "own.parquet", table.FileFacts(0, target=target)).columns == tuple(names)
        kept = frames.kept({"file": whole, "target": target})
        assert table.read(tmp_path / kept["file"], table.FileFacts(header=True, target=target)).columns == tuple(names)
    message = "the target 'a' is the index of the data frame: reset_index() makes the index a column"
    assert message in error(table.read, tmp_path / "own.parquet", table.FileFacts(0, target="a"))
    assert message in error(frames.kept, {"file": whole, "target": "a"})


@pytest.mark.parametrize("kind", ["bool", "boolean"])
def test_what_get_dummies_makes_of_words_is_numbers(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept = frames.kept({"file": frame(a=[True, False, True], y=[False, True, True]).astype({"a": kind, "y": kind})})
    read = table.read(tmp_path / kept["file"], table.FileFacts(header=True, target="d"))
    assert dense(read).tolist() == [[1, 0], [0, 1], [1, 1]]


def test_what_is_no_data_frame_is_said():
    assert "data.file: expected the path of a file, or a pandas data frame, not a Series" in error(
        frames.kept, {"file": frame()["a"]}
    )


def test_a_parquet_that_is_none(tmp_path, monkeypatch):
    assert re.search("own.parquet: not Parquet: ", error(table.read, put(tmp_path / "own.parquet", "PAR1")))
    assert re.search("none.parquet: cannot be read", error(table.read, tmp_path / "none.parquet"))
    monkeypatch.setattr(pandas, "read_parquet", lambda path: (_ for _ in ()).throw(ImportError("no engine")))
    assert re.search("pip install pyarrow", error(table.read, tmp_path / "own.parquet"))


@pytest.mark.parametrize("name", ["own.xlsx", "own", "own.csv.gz"])
def test_another_kind_of_file(tmp_path, name):
    assert re.search(
        f"{name}: the name of a data file must end in .npz, .csv, .parquet or", error(table.read, tmp_path / name)
    )


def test_readers_start_without_scipy_and_pooch():
    code = """
import sys
import mpinodes.data.fetch
from mpinodes.data import adult, agaricus, cifar10, idx, libsvm, table
print(sorted({"scipy", "pooch", "requests"} & set(sys.modules)))
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
