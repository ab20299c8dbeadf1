# SPDX-License-Identifier: Apache-2.0
"""What the import_*.py share: the mount or directory that they write into, and a sentence for what goes wrong.

It needs no package; keep it beside the script.
"""
import contextlib
import glob
import os
import pathlib
import runpy
import shlex
import shutil
import sys
import traceback
import types

SCRIPT = os.path.basename(sys.argv[0])


class Failure(Exception):
    """What went wrong, as a sentence."""


def give_up(sentence):
    """End with SENTENCE; where a shell reads the lines to type (... | sh), it ends with 1, too."""
    if SCRIPT.startswith("import_") and not sys.stdout.isatty():
        print("exit 1")
    sys.exit(sentence)


@contextlib.contextmanager
def needs(packages):
    """Around imports: where one fails, the packages, as pip calls them, are missing or too old."""
    try:
        yield
    except (ImportError, AttributeError, OSError) as error:  # it is missing, or its version does not fit another's
        give_up(f"{SCRIPT}: {sys.executable} lacks a package that this needs ({error}): pip install {packages}")


@contextlib.contextmanager
def explained(what, file=""):
    """An exception becomes a Failure that says what failed, and in which line of the FILE of Python, if it was there."""
    try:
        yield
    except Failure:
        raise
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        where = f"{file}, line {lines[-1]}: " if lines else ""
        raise Failure(f"{what}: {where}{type(error).__name__}: {str(error).strip()}") from error


def variables(file, names):
    """The variables NAMES of the FILE of Python, as a dict."""
    if not os.path.isfile(file):
        raise Failure(f"{file}: there is no such file")
    sys.path.append(os.path.dirname(os.path.abspath(file)))  # for what it imports from beside it
    with explained(f"cannot run {file}", file):
        found = runpy.run_path(file)
    for name in names:
        if name not in found:
            there = [one for one, value in found.items()
                     if not one.startswith("_") and not isinstance(value, types.ModuleType)]
            raise Failure(f"{file} has no variable {name}; it has {', '.join(there) or 'none'}")
    return {name: found[name] for name in names}


def call(function, arguments):
    """The call as a text: f(w, x float32[1, 4])"""
    words = [f"{name} {getattr(array.dtype, 'name', array.dtype)}{list(array.shape)}"
             if hasattr(array, "dtype") and hasattr(array, "shape") else name for name, array in arguments.items()]
    return f"{function}({', '.join(words)})"


def sizes(pairs):
    """The words SIZE=NUMBER as a dict."""
    found = {}
    for pair in pairs:
        size, _, number = pair.partition("=")
        if not size or not number.isdecimal():
            raise Failure(f"{pair}: expected SIZE=NUMBER, as in batch=8")
        found[size] = int(number)
    return found


def is_mount(path):
    real = os.path.realpath(path)
    return os.path.ismount(real) and os.path.isdir(os.path.join(real, "executables"))


class Destination:
    """Where files are written: a mount, or a directory.  If something fails, what is new there is taken back.

    A mount point without its mount is an empty directory: files in it would be hidden by the mount that was meant.
    """

    def __init__(self, path):
        self.path = pathlib.Path(path).expanduser()
        self.made = []
        with self._told(""):
            if self.path.is_file():
                raise Failure(f"{self.path} is a file: expected a mount or a directory")
            if not is_mount(self.path) and self.path.is_dir() and not os.listdir(self.path):
                raise Failure(f"{self.path} is an empty directory, and no mount: pjrtfs cpu {self.path} mounts there; "
                              "for plain files, name a directory that does not exist yet")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for path in reversed(self.made if kind else []):
            with contextlib.suppress(OSError):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()

    def write(self, name, save):
        """SAVE writes the file NAME, which is open."""
        path = self.path / name
        with self._told(name), self._whole(path):
            self._make(path.parent)
            with open(path, "wb") as file:
                save(file)

    def array(self, name, array):
        import numpy
        # NumPy writes into a file itself, and then does not say why it could not.
        self.write(f"buffers/{name}.npy", lambda file: numpy.save(types.SimpleNamespace(write=file.write), array))

    def checkpoint(self, name, save_file):
        """SAVE_FILE writes the path of a .safetensors, which a mount makes a directory of arrays."""
        path = self.path / f"buffers/{name}.safetensors"
        folder = path.with_suffix("")
        if not folder.exists():
            self.made.append(folder)
        with self._told(f"buffers/{name}.safetensors"), self._whole(path):
            self._make(path.parent)
            try:
                save_file(path)
            except Exception as error:  # safetensors has an exception of its own for a full disk
                raise OSError(str(error)) from error

    def program(self, name, data, options=None):
        """The program NAME, which has its extension.  It is compiled with the OPTIONS, which are there before it."""
        path = self.path / "programs" / name
        if options:
            with self._told(f"programs/{name}"):
                self._make(path.parent)
                path.unlink(missing_ok=True)  # no program that was there has other inputs
                self.made.append(path)
                path.touch()
            self.write(f"executables/{path.stem}/options.json", lambda file: file.write(options.encode()))
        self.write(f"programs/{name}", lambda file: file.write(data))

    @contextlib.contextmanager
    def _whole(self, path):
        """What makes or changes a file; of one that was there, only a part is taken back."""
        there = path.exists()
        self.made.append(path)
        yield
        if there:
            self.made.remove(path)

    def _make(self, folder):
        """Make the folder, and those above it."""
        if not folder.is_dir():
            self._make(folder.parent)
            folder.mkdir()
            self.made.append(folder)

    def _said(self):
        """The mount's last refusal."""
        with contextlib.suppress(OSError):
            return (self.path / "error").read_text().strip() if is_mount(self.path) else ""
        return ""

    @contextlib.contextmanager
    def _told(self, name):
        """An OSError with the file NAME becomes a Failure, with the mount's sentence."""
        before = self._said()
        try:
            yield
        except OSError as error:
            said = self._said()  # safetensors 0.8 writes under another name; the kernel's refusals have no sentence
            if said != before or (name and name in said):
                raise Failure(said) from error
            raise Failure(f"{error.filename or self.path / name}: {error.strerror or error}") from error


def commands(target, program, line):
    """What to type for the program to run; where TARGET is no mount, first for its files to get into one."""
    run = f"executables/{program}/run"
    target = os.path.expanduser(target)
    if is_mount(target):
        return [f"echo '{line}' > {shlex.quote(os.path.join(target, run))}"]
    print(f"{SCRIPT}: {target} is no mount: plain files were written there. With a mount, at MOUNTPOINT, go on like this:",
          file=sys.stderr)
    quoted = shlex.quote(target)
    files = glob.glob(os.path.join(glob.escape(target), f"programs/{glob.escape(program)}.mlir*"))
    file = max(files, key=os.path.getmtime)
    lines = [f"cp -r {quoted}/buffers/. MOUNTPOINT/buffers/", f"cp {shlex.quote(file)} MOUNTPOINT/programs/",
             f"echo '{line}' > MOUNTPOINT/{run}"]
    if os.path.exists(os.path.join(target, f"executables/{program}/options.json")):
        lines[1:1] = [f"touch MOUNTPOINT/programs/{os.path.basename(file)}",
                      f"cp {quoted}/executables/{program}/options.json MOUNTPOINT/executables/{program}/"]
    return lines


def main(usage, least, imports, most=sys.maxsize):
    """IMPORTS gets the words of the command line, LEAST to MOST, and returns the target, the program and the line."""
    if not least <= len(sys.argv) - 1 <= most:
        give_up(usage)
    try:
        print(*commands(*imports(*sys.argv[1:])), sep="\n")
    except Failure as failure:
        give_up(f"{SCRIPT}: {failure}")
