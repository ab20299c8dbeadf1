# SPDX-License-Identifier: Apache-2.0
"""A mount of pjrtfs, and its programs as functions of NumPy arrays:

    with pjrtfs.Mount() as mount:
        add = mount.compile("add", jax.export.export(jax.jit(lambda x, y: x + y))(x, x))
        z = add.call([1, 2, 3], [10, 20, 30])

All of it is files, see pjrtfs(5).  What the mount refuses is an Error, with the mount's sentence.
"""
import contextlib
import difflib
import errno
import json
import os
import re
import subprocess
import sys
import tempfile
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Sequence, Union

if TYPE_CHECKING:
    import numpy

__all__ = ["Error", "Mount", "Program"]

HERE = os.path.dirname(os.path.abspath(__file__))
IOV_MAX = os.sysconf("SC_IOV_MAX")
WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')


class Error(OSError):
    """What pjrtfs refused: errno, and in strerror the sentence that says why."""

    def __str__(self) -> str:
        return str(self.strerror)


def installed(name: str) -> Optional[str]:
    """The path of the program NAME in this package, which has none where it is only a module."""
    paths = (os.path.join(HERE, folder, name) for folder in ("lib/pjrtfs", "bin"))
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def environment() -> Dict[str, str]:
    """The environment in which pjrtfs finds the plugins of this Python before those of others."""
    return {**os.environ, "VIRTUAL_ENV": sys.prefix}


class Mount:
    """The mount at PATH: one that is there, or a new one of PLUGIN, which ends with close().

    Without PATH it is a new one in a temporary directory.  OPTIONS are those of pjrtfs(1): memory_limit="8G" is
    --memory-limit 8G, no_cache=True is --no-cache, and a list is an option several times.
    """

    def __init__(self, path: Union[str, "os.PathLike[str]", None] = None, plugin: str = "cpu",
                 **options: Any) -> None:
        # For each program the descriptors of call.raw that no call uses; each is a conversation of its own.
        self._idle: Dict[str, List[int]] = {}
        self._end: Any = None
        MOUNTS.add(self)
        path = None if path is None else os.path.expanduser(path)
        if path is not None and _is_mount(path):
            self.path = os.path.abspath(path)
            return
        words = []
        for key, value in options.items():
            option = "--" + key.replace("_", "-")
            for one in value if isinstance(value, (list, tuple)) else [value]:
                if one is not None and one is not False:
                    words += [option] if one is True else [option, str(one)]
        made = tempfile.mkdtemp(prefix="pjrtfs-") if path is None else None
        self.path = os.path.abspath(made or path or "")
        try:
            with contextlib.suppress(FileExistsError):  # also of a mount whose daemon was killed
                os.makedirs(self.path)
            _run(installed("pjrtfs") or "pjrtfs", plugin, self.path, *words)
        except BaseException:
            if made:
                os.rmdir(made)
            raise
        # Also when this object is gone, and at the end of this process, but not of its children.
        self._end = weakref.finalize(self, _unmount, self.path, made, self._idle, os.getpid())

    def close(self) -> None:
        """Unmount, if this object has mounted."""
        _close_all(self._idle)
        if self._end and self._end.alive:
            _unmount(*self._end.peek()[2])  # which fails as long as files are open: then again
            self._end.detach()

    def __enter__(self) -> "Mount":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def compile(self, name: str, program: Any, kind: str = "") -> "Program":
        """Compile a program as NAME: the text or bytes of StableHLO, or what jax.export.export gives.

        KIND is the extension of another format, such as "hlo.pb".
        """
        data = getattr(program, "mlir_module_serialized", program)
        data = memoryview(data.encode() if isinstance(data, str) else data)
        kind = kind or ("mlirbc" if bytes(data[:4]) == b"ML\xefR" else "mlir")
        self._remove_other(name, f"{name}.{kind}")
        with self._explained(f"programs/{name}.{kind}") as path, open(path, "wb", buffering=0) as file:
            while data:
                data = data[file.write(data):]
        return Program(self, name)

    def _remove_other(self, name: str, file: str) -> None:
        """Remove the program NAME if it is in another file than FILE: a program has one."""
        with contextlib.suppress(OSError):
            before = os.readlink(os.path.join(self.path, "executables", name, "program"))
            if os.path.basename(before) != os.path.basename(file):
                os.unlink(os.path.join(self.path, "executables", name, before))

    def program(self, name: str) -> "Program":
        """The program NAME, which is in the mount."""
        folder = os.path.join(self.path, "executables")
        if not os.path.isdir(os.path.join(folder, name)):
            there = sorted(os.listdir(folder))
            near = difflib.get_close_matches(name, there)
            raise Error(errno.ENOENT, f"{self.path} has no program {name}: " + (
                f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(there[:8]) or 'none'}"))
        return Program(self, name)

    def put(self, name: str, array: Any) -> None:
        """Upload an array as buffers/NAME."""
        import numpy
        with self._explained(f"buffers/{name}.npy") as path:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb", buffering=0) as file:
                numpy.save(file, array, allow_pickle=False)

    def get(self, name: str) -> "numpy.ndarray[Any, Any]":
        """The array buffers/NAME."""
        import numpy
        with self._explained(f"buffers/{name}.npy") as path, open(path, "rb") as file:
            array: "numpy.ndarray[Any, Any]" = numpy.load(file, allow_pickle=False)
        return array.view(_dtype(json.loads(self._text(f"buffers/{name}.json"))["dtype"]))

    def _text(self, path: str) -> str:
        with self._explained(path) as whole, open(whole, encoding="utf-8") as file:
            return file.read()

    @contextlib.contextmanager
    def _explained(self, path: str) -> Iterator[str]:
        """Make an OSError of calls with PATH, which is within the mount, an Error with the mount's sentence."""
        try:
            yield os.path.join(self.path, path)
        except OSError as error:
            raise self._why(error, path) from None

    def _why(self, error: OSError, path: str) -> Error:
        said = ""
        # The kernel itself says that a file is not there; then the sentence is an older one.
        if error.errno != errno.ENOENT or os.path.exists(os.path.join(self.path, path)):
            with contextlib.suppress(OSError), open(os.path.join(self.path, "error"), encoding="utf-8") as file:
                said = file.read().strip()
        return Error(error.errno, said if path in said else f"{os.path.join(self.path, path)}: {error.strerror}")


class Program:
    """A program of a mount, as a function.  Several threads may call it at the same time."""

    def __init__(self, mount: Mount, name: str) -> None:
        self.mount = mount
        self.name = name
        self.folder = f"executables/{name}"
        #: signature.json: in "inputs" and "outputs" each has "name", "dtype", "shape" and more
        self.signature: Dict[str, Any] = json.loads(mount._text(f"{self.folder}/signature.json"))
        if not self.signature:
            state = mount._text(f"{self.folder}/state").strip()
            why = mount._text(f"{self.folder}/error").strip()
            raise Error(errno.EBUSY, why or f"{name} is {state}")
        self._outputs = [_Array(one) for one in self.signature["outputs"]]
        self._free = self._free_inputs()
        self._idle = mount._idle.setdefault(name, [])

    def bind(self, line: str) -> None:
        """Take inputs from buffers from now on: "params *" leaves the last one to call(), "" all of them."""
        with self.mount._explained(f"{self.folder}/bind") as path, open(path, "wb", buffering=0) as file:
            file.write(line.encode() + b"\n")
        self._free = self._free_inputs()

    def _free_inputs(self) -> List["_Array"]:
        """The inputs that call() takes: those that are a star in the file bind, or all."""
        inputs = [_Array(one) for one in self.signature["inputs"]]
        line = self.mount._text(f"{self.folder}/bind").partition("->")[0]
        words = [word for word in WORD.findall(line) if word != "positional"]
        if not words:
            return inputs
        folders = {}  # a directory stands for the arrays in it
        named = [word for word in words if word != "*"]
        more = len(inputs) - len(words)
        for word in named if more else ():
            path = os.path.join(self.mount.path, "buffers", re.sub(r'^"|"$|\\(.)', r"\1", word))
            if os.path.isdir(path):
                folders[word] = sum(name.endswith(".npy") for _, _, names in os.walk(path) for name in names)
        if len(folders) == 1 or (more and len(named) == 1):  # the only one, maybe of another device: all that is left
            folders = {word: more + 1 for word in folders or named}
        bound: List[bool] = []
        for word in words:
            bound += [word != "*"] * folders.get(word, 1)
        return [one for i, one in enumerate(inputs) if bound[i:i + 1] != [True]]

    def call(self, *arrays: Any, **params: Any) -> Any:
        """Call with the inputs that are not bound, in order or by their names; an array, or a tuple of them.

        An input is whatever numpy.asarray takes.  It must have the input's shape, and no more than precision is
        lost in a conversion to the input's type.
        """
        if params or len(arrays) != len(self._free):
            arrays = (*arrays, *self._named(arrays, params))
        inputs = [one.accept(array) for one, array in zip(self._free, arrays)]
        if not any([one.nbytes for one in inputs]):
            inputs = [memoryview(b"\n")]  # what begins a call without inputs
        outputs = [one.empty() for one in self._outputs]
        try:
            fd = self._idle.pop()
        except IndexError:
            with self.mount._explained(f"{self.folder}/call.raw") as path:
                fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            _move_all(os.writev, fd, inputs)
            _move_all(os.readv, fd, outputs, bytearray(1))
        except BaseException as error:  # the conversation is in its middle
            why = self._why(fd, error)
            os.close(fd)
            raise why from None
        self._idle.append(fd)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    __call__ = call

    def _named(self, arrays: Sequence[Any], params: Dict[str, Any]) -> List[Any]:
        """Of PARAMS the inputs after ARRAYS."""
        names = [one.name for one in self._free]
        rest = names[len(arrays):]
        if len(arrays) > len(names) or set(rest) != set(params):
            raise TypeError(f"{self.name}: expected {len(names)} inputs ({', '.join(names)}), found "
                            + ", ".join([str(len(arrays)), *params]))
        return [params[name] for name in rest]

    def _why(self, fd: int, error: BaseException) -> BaseException:
        """ERROR; if the mount refused something, with what the conversation says of it."""
        if isinstance(error, Error) or not isinstance(error, OSError):
            return error
        # After a failed write the first read fails, too.
        for _ in range(2):
            with contextlib.suppress(OSError, ValueError):
                why = json.loads(os.read(fd, 65536))["error"]
                return Error(getattr(errno, why["errno"], error.errno), why["message"])
        return self.mount._why(error, f"{self.folder}/call.raw")


class _Array:
    """An input or output."""

    RANKS = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}

    def __init__(self, told: Dict[str, Any]) -> None:
        import numpy
        self.numpy = numpy
        self.name = told["name"]
        self.type = told["dtype"]
        self.rank = {"P": 0, "U": 1, "S": 1, "C": 3}.get(self.type[0], 2)
        self.shape = tuple(told["shape"])
        self.dtype = _dtype(self.type)

    def empty(self) -> Any:
        return self.numpy.empty(self.shape, self.dtype)

    def accept(self, value: Any) -> Any:
        """VALUE as an array of this type, row-major."""
        array = self.numpy.asarray(value)
        if array.shape != self.shape:
            raise ValueError(f"{self.name}: expected {self.type}{list(self.shape)}, found {array.dtype}"
                             f"{list(array.shape)}")
        if array.dtype != self.dtype:
            fits = self.RANKS.get(array.dtype.kind, 4) <= self.rank
            before, array = array, array.astype(self.dtype) if fits else array
            if not fits or self._changes(before, array):
                raise TypeError(f"{self.name}: expected {self.type}, found {before.dtype}, whose values can be "
                                "lost: convert it with astype")
        return self.numpy.ascontiguousarray(array)

    def _changes(self, before: Any, array: Any) -> Any:
        """Are values of ARRAY others than those BEFORE, by more than precision?"""
        if self.rank >= 2:
            return (self.numpy.isfinite(before) & ~self.numpy.isfinite(array)).any()
        # Of integers as wide as each other only the sign tells.
        return ((array.astype(before.dtype) != before) | ((array < 0) != (before < 0))).any()


def _dtype(name: str) -> "numpy.dtype[Any]":
    """NumPy's type for PJRT's: for one that NumPy lacks that of the package ml_dtypes, else bytes."""
    import numpy
    if name == "PRED":
        return numpy.dtype(bool)
    if name[1:] in ("8", "16", "32", "64", "128"):
        return numpy.dtype(f"<{name[0].lower().replace('s', 'i')}{int(name[1:]) // 8}")
    others = {"BF16": "bfloat16", "S": f"int{name[1:]}", "U": f"uint{name[1:]}",
              "F": f"float{name[1:2]}_{name[2:].lower()}"}
    found = None
    with contextlib.suppress(ImportError):
        import ml_dtypes
        found = getattr(ml_dtypes, others.get(name) or others[name[0]], None)
    return numpy.dtype(found or ("V2" if name == "BF16" else "V1"))


def _move_all(move: Callable[[int, List[Any]], int], fd: int, arrays: List[Any], more: Any = None) -> None:
    """Read or write all bytes of ARRAYS.  Nothing may come that fills MORE."""
    size = sum([array.nbytes for array in arrays])
    parts = arrays if more is None else [*arrays, more]
    done = move(fd, parts[:IOV_MAX])
    while done < size:  # very many, very long, or interrupted
        rest, before = [], 0
        for array in arrays:
            if before + array.nbytes > done:
                rest.append(array.reshape(-1).view("u1")[max(0, done - before):])
            before += array.nbytes
        moved = move(fd, (rest if more is None else [*rest, more])[:IOV_MAX])
        if not moved:
            break
        done += moved
    if done != size:
        raise Error(errno.EIO, "the program has other outputs now: take it from Mount.program again")


MOUNTS: "weakref.WeakSet[Mount]" = weakref.WeakSet()


def _close_all(idle: Dict[str, List[int]]) -> None:
    for descriptors in idle.values():
        while descriptors:
            os.close(descriptors.pop())


def _after_fork() -> None:
    """A child does not speak in its parent's conversations."""
    for mount in MOUNTS:
        _close_all(mount._idle)


os.register_at_fork(after_in_child=_after_fork)


def _is_mount(path: str) -> bool:
    real = os.path.realpath(path)  # of a link
    return os.path.ismount(real) and os.path.exists(os.path.join(real, "executables"))


def _run(*words: str) -> None:
    """Run a program that mounts or unmounts; if it fails, its message is an Error."""
    try:
        done = subprocess.run(words, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, check=False)
    except FileNotFoundError:
        raise Error(errno.ENOENT, f"{words[0]} is not on PATH: install it") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise Error(errno.EIO, said or f"{words[0]} ended with status {done.returncode}")


def _unmount(path: str, made: Optional[str], idle: Dict[str, List[int]], pid: int) -> None:
    if os.getpid() != pid:
        return
    _close_all(idle)
    # Root mounts without fusermount3.
    _run(*(["umount"] if os.geteuid() == 0 else ["fusermount3", "-u"]), path)
    if made:
        os.rmdir(made)
