"""Find the files of the papers' data sets in the user's directory or cache. Download files that are missing."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mpinodes.core.errors import BadInput

ARCHIVE = ".tar.gz"


@dataclass(frozen=True)
class Wanted:
    """Describe one file of a data set, and where to download it.

    Attributes:
        names: the paths that the file may have in a directory, the preferred path first. If the url is an archive, the
            first path is also the path in the archive.
        url: the address of the file, or of the .tar.gz archive that contains the file.
        sha256: the checksum of the download; None if it is not known.
        home: the web page from which a person can download the file.
    """

    names: tuple[str, ...]
    url: str
    sha256: str | None
    home: str

    @property
    def file(self) -> str:
        """Return the file name of the download, which is the last part of the url."""
        return self.url.rpartition("/")[2]

    def find(self, folders: Sequence[Path]) -> Path | None:
        """Return the path of the file in the first folder that contains the file; None if no folder contains it."""
        return next((path for folder in folders for name in self.names if (path := folder / name).is_file()), None)


def _mnist(name: str, sha256: str) -> Wanted:
    # LeCun's own site no longer allows downloads; everybody uses this mirror.
    url = f"https://storage.googleapis.com/cvdf-datasets/mnist/{name}.gz"
    return Wanted((f"{name}.gz", name), url, sha256, "https://github.com/cvdfoundation/mnist")


def _cifar10(name: str) -> Wanted:
    # We did not compute this checksum; the loaders of other projects agree on it.
    sha256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
    page = "https://www.cs.toronto.edu/~kriz"
    names = (f"cifar-10-batches-bin/{name}", name)
    return Wanted(names, f"{page}/cifar-10-binary{ARCHIVE}", sha256, f"{page}/cifar.html")


def _uci(path: str, sha256: str, page: str, *others: str) -> Wanted:
    url = f"https://archive.ics.uci.edu/ml/machine-learning-databases/{path}"
    return Wanted((*others, path.rpartition("/")[2]), url, sha256, f"https://archive.ics.uci.edu/dataset/{page}")


# Training images, training labels, test images, test labels.
MNIST = (
    _mnist("train-images-idx3-ubyte", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
    _mnist("train-labels-idx1-ubyte", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
    _mnist("t10k-images-idx3-ubyte", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
    _mnist("t10k-labels-idx1-ubyte", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
)
# The five training batches, then the test batch.
CIFAR10 = (*(_cifar10(f"data_batch_{k}.bin") for k in range(1, 6)), _cifar10("test_batch.bin"))
# Training file, test file.
ADULT = (
    _uci("adult/adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d", "2/adult"),
    _uci("adult/adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05", "2/adult"),
)
# LIBSVM's file is used if the directory has it. UCI's file is downloaded: its data are the same, and its checksum is
# known.
MUSHROOMS = (
    _uci(
        "mushroom/agaricus-lepiota.data",
        "e65d082030501a3ebcbcd7c9f7c71aa9d28fdfff463bf4cf4716a3fe13ac360e",
        "73/mushroom",
        "mushrooms",
    ),
)
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
RCV1 = (
    Wanted(
        ("rcv1_train.binary", "rcv1_train.binary.bz2", "rcv1_train.binary.gz", "rcv1_vw_subset.rebuilt.libsvm"),
        f"{_LIBSVM}/binary/rcv1_train.binary.bz2",
        None,  # LIBSVM publishes no checksums, and we had no copy to compute one; bzip2 has its own
        f"{_LIBSVM}/binary.html",
    ),
)


def locate(wanted: Sequence[Wanted], directory: Path | None) -> list[Path]:
    """Return the paths of files of a data set, in the order of `wanted`. Download files that are missing.

    A file that exists is used without a check of its checksum. A missing file is downloaded into `directory`, or into
    the user's cache if `directory` is None or not writable.

    Raises:
        BadInput: the directory does not exist, or files are missing and cannot be downloaded; the message names the
            files, their folder and their home page.
    """
    if directory is not None and not directory.is_dir():
        raise BadInput(f"data.dir: {directory} is not a directory; make it, or leave data.dir out")
    folders = [directory] if directory else []
    if not all(file.find(folders) for file in wanted):
        import pooch

        pooch.get_logger().setLevel("WARNING")  # because pooch reports every download on stderr
        if directory is None or not os.access(directory, os.W_OK):
            folders.append(pooch.os_cache("mpinodes"))
        # Several processes may download a file at once: it gets its name only when the download is complete.
        for file in wanted:
            missing = [other for other in wanted if not other.find(folders)]
            if file in missing:
                try:
                    _get([other for other in missing if other.url == file.url], folders[0], folders[-1])
                except (OSError, ValueError) as error:
                    names = ", ".join(Path(other.names[0]).name for other in missing)
                    failure = f"not in {folders[0]}, and not downloadable from {file.url}: {_why(error)}"
                    remedy = f"get {file.file} from {file.home} and put it into {folders[-1]}"
                    raise BadInput(f"{names}: {failure}; {remedy}") from error
    return [path for file in wanted if (path := file.find(folders))]


def _get(wanted: Sequence[Wanted], own: Path, folder: Path) -> None:
    """Download or unpack files that have the same url, and put them into `folder`.

    If the url is an archive, the files are unpacked from the archive. The archive is downloaded, unless the user's
    folder `own` already contains it.
    """
    import tarfile  # imported here because most agents download nothing
    from tempfile import TemporaryDirectory

    first = wanted[0]
    folder.mkdir(parents=True, exist_ok=True)
    if not first.file.endswith(ARCHIVE):
        _download(first, folder)
        return
    with TemporaryDirectory(dir=folder) as scratch:
        archive = own / first.file
        if not archive.is_file():
            archive = _download(first, Path(scratch))
        # Files are moved to their final paths when all of them are unpacked.
        names = [file.names[0] for file in wanted]
        try:
            with tarfile.open(archive) as tar:
                for name in names:
                    packed = tar.extractfile(name)  # unlike `extract`, this makes no links and writes no files
                    if packed is None:
                        raise KeyError(name)
                    Path(scratch, Path(name).name).write_bytes(packed.read())
        except KeyError as error:
            raise ValueError(f"{archive} does not hold {name}") from error
        except (tarfile.TarError, EOFError, zlib.error) as error:
            raise ValueError(f"{archive} cannot be unpacked: {error}") from error
        for name in names:
            (folder / name).parent.mkdir(exist_ok=True)
            Path(scratch, Path(name).name).replace(folder / name)


def _download(wanted: Wanted, folder: Path) -> Path:
    import pooch
    from requests import HTTPError  # pooch downloads with requests

    # Without this header a server may send a .gz as compressed content, and requests would unpack the download.
    plain = pooch.HTTPDownloader(headers={"Accept-Encoding": "identity"}, chunk_size=1 << 16)
    try:
        return Path(pooch.retrieve(wanted.url, wanted.sha256, wanted.file, folder, downloader=plain))
    except HTTPError as error:
        if error.response is not None:
            error.response.close()  # because pooch does not close the response
        raise


def _why(error: OSError | ValueError) -> str:
    """Return in a few words why a download failed, why an archive is unusable, or why a file could not be written."""
    from requests import RequestException

    if isinstance(error, RequestException):
        answer = error.response
        return "the connection failed" if answer is None else f"the server answers {answer.status_code}"
    if "hash of downloaded file" in str(error):
        return "the download has a wrong checksum"
    return (isinstance(error, OSError) and error.strerror) or " ".join(str(error).split())
