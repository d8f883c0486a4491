"""Files of data sets: the user's own as they are, the others fetched once and whole from a server on this machine."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections import Counter
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mpinodes.core.errors import BadInput
from mpinodes.data import fetch
from mpinodes.data.fetch import Wanted, locate

DATA = b"some data\n" * 100
SHA256 = hashlib.sha256(DATA).hexdigest()


class Server(ThreadingHTTPServer):
    """Gives the files of a dictionary, and counts how often each is asked for."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.asked = {}, Counter()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.strip("/")
        self.server.asked[name] += 1
        if name not in self.server.files:
            self.send_error(404)
            return
        data = self.server.files[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        # What is called so dies half-way.
        self.wfile.write(data[: len(data) // 2] if name.startswith("dying") else data)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The user's cache, elsewhere; and no proxy between us and this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "cache" / "mpinodes"


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine").mkdir()
    return tmp_path / "mine"


def wanted(server, name="file.gz", sha256=SHA256):
    return Wanted((name, name.removesuffix(".gz")), f"{server.url}/{name}", sha256, "http://home.example")


def message(*args):
    with pytest.raises(BadInput) as caught:
        locate(*args)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def everything(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_missing_file_is_fetched_once_into_the_directory(server, mine, cache, capfd):
    server.files["file.gz"] = DATA
    assert locate([wanted(server)], mine) == locate([wanted(server)], mine) == [mine / "file.gz"]
    assert (mine / "file.gz").read_bytes() == DATA
    assert server.asked == {"file.gz": 1}
    assert everything(mine) == ["file.gz"]
    assert not cache.exists()
    assert capfd.readouterr() == ("", "")


def test_without_a_directory_it_is_fetched_once_into_the_cache(server, cache):
    server.files["file.gz"] = DATA
    assert locate([wanted(server)], None) == locate([wanted(server)], None) == [cache / "file.gz"]
    assert server.asked == {"file.gz": 1}


def test_a_directory_that_cannot_be_written_to_is_read_and_the_rest_cached(server, mine, cache, monkeypatch):
    server.files["file.gz"] = DATA
    (mine / "other").write_bytes(b"here")
    monkeypatch.setattr(fetch.os, "access", lambda path, mode: path != mine)
    both = [wanted(server), wanted(server, "other.gz")]
    assert locate(both, mine) == locate(both, mine) == [cache / "file.gz", mine / "other"]
    assert server.asked == {"file.gz": 1}
    assert everything(mine) == ["other"]


def test_a_users_own_file_is_taken_as_it_is_under_any_accepted_name(server, mine):
    (mine / "file").write_bytes(b"not those of the checksum")
    assert locate([wanted(server)], mine) == [mine / "file"]
    (mine / "file.gz").write_bytes(b"nor these")
    assert locate([wanted(server)], mine) == [mine / "file.gz"]
    assert (mine / "file.gz").read_bytes() == b"nor these"
    assert not server.asked


def test_a_directory_of_the_files_name_is_not_the_file(server, mine):
    """As in a folder of data sets, where mushrooms/ holds the mushrooms."""
    (mine / "file").mkdir()
    server.files["file.gz"] = DATA
    assert locate([wanted(server)], mine) == [mine / "file.gz"]


def test_a_wrong_checksum_leaves_nothing_behind(server, mine):
    server.files["file.gz"] = DATA[1:]
    said = message([wanted(server)], mine)
    assert said == (
        f"file.gz: not in {mine}, and not downloadable from {server.url}/file.gz: the download has a wrong checksum; "
        f"get file.gz from http://home.example and put it into {mine}"
    )
    assert everything(mine) == []


def test_a_file_that_is_not_on_the_server_names_all_that_is_lacking(server, mine):
    server.files["file.gz"] = DATA
    said = message([wanted(server, "one.gz"), wanted(server), wanted(server, "two.gz")], mine)
    assert said.startswith(f"one.gz, file.gz, two.gz: not in {mine}, and not downloadable from {server.url}/one.gz: ")
    assert "the server answers 404; get one.gz from http://home.example and put it into" in said
    said = message([wanted(server), wanted(server, "two.gz")], mine)
    assert said.startswith(f"two.gz: not in {mine}")
    assert everything(mine) == ["file.gz"]


@pytest.mark.parametrize("sha256", [SHA256, None])
def test_a_connection_that_dies_half_way_leaves_nothing_behind(server, mine, sha256):
    server.files["dying.gz"] = DATA
    assert "the connection failed; get dying.gz from" in message([wanted(server, "dying.gz", sha256)], mine)
    assert everything(mine) == []


def test_a_server_that_is_down(mine, cache):
    with Server() as closed:
        nowhere = wanted(closed)
    assert f"not in {mine}, and not downloadable from {nowhere.url}: the connection failed" in message([nowhere], mine)
    assert f"not in {cache}, and not downloadable from {nowhere.url}: the connection failed" in message([nowhere], None)


def test_a_cache_that_cannot_be_made(server, cache):
    cache.parent.write_text("a file where a directory should be")
    assert "not downloadable" in (said := message([wanted(server)], None))
    assert "Not a directory" in said


def test_a_data_dir_that_is_not_there(server, tmp_path):
    assert message([wanted(server)], tmp_path / "no").startswith(f"data.dir: {tmp_path / 'no'} is not a directory")
    assert not server.asked


def archive(**members):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name.replace("__", "/"))
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return packed.getvalue()


BATCHES = {f"cifar-10-batches-bin/{name}.bin": name.encode() for name in ("test_batch", "data_batch_1", "readme")}
PACKED = archive(**BATCHES)


def batches(server, sha256=None):
    one, test = fetch.CIFAR10[0], fetch.CIFAR10[-1]
    return [replace(each, url=f"{server.url}/cifar-10-binary.tar.gz", sha256=sha256) for each in (one, test)]


def test_an_archive_is_fetched_once_and_only_what_is_wanted_comes_out(server, mine):
    server.files["cifar-10-binary.tar.gz"] = PACKED
    checked = batches(server, hashlib.sha256(PACKED).hexdigest())
    paths = locate(checked, mine)
    assert paths == locate(checked, mine)
    assert [path.read_bytes() for path in paths] == [b"data_batch_1", b"test_batch"]
    assert server.asked == {"cifar-10-binary.tar.gz": 1}
    folder = "cifar-10-batches-bin"
    assert everything(mine) == [folder, f"{folder}/data_batch_1.bin", f"{folder}/test_batch.bin"]


@pytest.mark.parametrize("folder", [".", "cifar-10-batches-bin"])
def test_unpacked_batches_of_ones_own_are_found_with_and_without_their_folder(server, mine, folder):
    (mine / folder).mkdir(exist_ok=True)
    for name in ("data_batch_1.bin", "test_batch.bin"):
        (mine / folder / name).touch()
    assert locate(batches(server), mine) == [mine / folder / "data_batch_1.bin", mine / folder / "test_batch.bin"]
    assert not server.asked


def test_an_archive_of_ones_own_is_unpacked_and_stays(server, mine):
    (mine / "cifar-10-binary.tar.gz").write_bytes(PACKED)
    assert [path.read_bytes() for path in locate(batches(server, SHA256), mine)] == [b"data_batch_1", b"test_batch"]
    assert (mine / "cifar-10-binary.tar.gz").read_bytes() == PACKED
    assert not server.asked


def test_an_archive_that_writes_elsewhere_or_links_gets_nowhere(server, mine, tmp_path):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("../outside"), io.BytesIO())
        link = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    server.files["cifar-10-binary.tar.gz"] = packed.getvalue()
    assert "does not hold cifar-10-batches-bin/data_batch_1.bin" in message(batches(server), mine)
    assert not (tmp_path / "outside").exists()
    assert everything(mine) == []


@pytest.mark.parametrize(
    "broken",
    [PACKED[:-30], b"<html>please log in</html>", PACKED[:50] + bytes(50), b""],
    ids=["cut", "a page", "corrupt", "empty"],
)
def test_a_broken_archive_leaves_nothing_half_written(server, mine, broken):
    server.files["cifar-10-binary.tar.gz"] = broken
    assert "cifar-10-binary.tar.gz cannot be unpacked: " in (said := message(batches(server), mine))
    assert said.startswith(f"data_batch_1.bin, test_batch.bin: not in {mine}, and not downloadable from")
    assert everything(mine) == []


def test_every_data_set_names_what_the_papers_use():
    assert [each.file for each in fetch.MNIST] == [each.names[0] for each in fetch.MNIST]
    for sets in (fetch.MNIST, fetch.CIFAR10, fetch.ADULT, fetch.MUSHROOMS, fetch.RCV1):
        for each in sets:
            assert each.url.startswith("https://")
            assert each.home.startswith("https://")
            assert each.sha256 is None or len(each.sha256) == 64
            assert each.file in each.names or each.file.endswith(".tar.gz")
