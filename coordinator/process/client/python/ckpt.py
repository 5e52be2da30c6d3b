"""ckpt: checkpoints of a running Python program.

The program protects its arrays, resumes from the newest checkpoint if there is
one, and calls boundary() where nothing that matters is in flight:

    import ckpt
    ckpt.init()                                    # rank and size of mpi4py
    ckpt.protect("u", u)                           # a numpy array
    for step in range(ckpt.restore(), steps):      # 0, or the step to resume from
        compute(u)
        if ckpt.boundary(step + 1) == ckpt.STOP:
            break
    ckpt.finalize()

Without "ckpt launch" around it the program runs as ever: rank 0 says so in one
line, and the other functions do nothing.

Functions that save return a status: OK, STOP or a negative error. They raise
nothing; error() says what failed and what to do. A failure to save never ends
the program. Wrong arguments raise ValueError or TypeError. restore() raises
ckpt.Error if a checkpoint is there and cannot be used.

Threads: call the functions from one thread at a time; a lock sees to it. While a
call waits, other threads run; they must not write to protected arrays.

This file needs Python 3.9 and Linux, and no compiler. It speaks with the agent,
"ckpt rank", over a socket; the agent decides, reads, packs and writes.
"""
import array
import ctypes
import errno
import fcntl
import mmap
import os
import platform
import select
import signal
import socket
import struct
import sys
import threading

__all__ = [
    "OK", "STOP", "NONE", "ARGUMENT", "SERVICE", "DAMAGE", "FULL", "MISMATCH", "IO", "Error",
    "init", "protect", "protect_global", "protect_replicated", "protect_indexed", "deal", "forget", "alloc", "file", "restore", "boundary", "save", "epoch", "wait", "query",
    "finalize", "error", "progress",
]

OK, STOP = 0, 1
NONE, ARGUMENT, SERVICE, DAMAGE, FULL, MISMATCH, IO = range(-1, -8, -1)

# Element types, as in ckpt.h.
_BYTES, _FLOAT64, _FLOAT32, _INT32, _INT64, _FLOAT16, _BFLOAT16, _INT16, _FLOAT8, _INT8 = range(10)
_ELEMENTS = {"f8": _FLOAT64, "c16": _FLOAT64, "f4": _FLOAT32, "c8": _FLOAT32,
             "i8": _INT64, "u8": _INT64, "i4": _INT32, "u4": _INT32,
             "f2": _FLOAT16, "i2": _INT16, "u2": _INT16, "i1": _INT8}

# How a region relates to those of the other ranks.
_LOCAL, _REPLICATED, _GLOBAL, _INDEXED = range(4)
_AXES = 8

# Messages to the agent, and from it.
_VERSION = 3
_HELLO, _PROTECT, _FORGET, _RESTORE, _BOUNDARY, _WAIT, _QUERY, _FINALIZE, _COPIED, _TRACKED = range(1, 11)
_WELCOME, _GO, _MAP, _UNMAP, _OUT, _IN, _TRACK, _TRACER = range(100, 108)
_HEADER = struct.Struct("<IIqqq")
_RANGE = struct.Struct("<QQQ")
_LARGEST = 64 << 10

# Words of the page that the agent shares, as indices of 8 bytes.
_PASSED, _LIMIT, _STEP, _PENDING, _EPOCHS = 8, 16, 24, 32, 40
_PAGE = 4096
_MAGIC = 0x6567617074706B63

_NAME = 255
_SIZE = 1 << 47


class Error(Exception):
    """A checkpoint that cannot be used. status is one of the module's codes."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class _Broken(Exception):
    """The link to the agent has ended, or never began."""

    def __init__(self, text, status=SERVICE):
        super().__init__(text)
        self.status = status


class _Refused(_Broken):
    """The agent itself says no."""


# ctypes releases Python's lock while these run, so that other threads compute.
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.msync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.memcpy.restype = ctypes.c_void_p
_libc.memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
_libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4


class _Link:
    """The socket to the agent, and the orders that arrive on it."""

    def __init__(self, rank, size, progress):
        self.windows = {}
        self.changed = False  # the agent has written to arrays
        self.progress = progress
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                _spawn(theirs, rank, size)
            self.greet(rank, size)
        except BaseException:
            self.socket.close()
            raise

    def greet(self, rank, size):
        self.send(_HELLO, _VERSION, rank, size, os.getpid(), b"python")
        status, _, text, fds = self.wait_for(_WELCOME)
        if status < 0:
            _close(fds)
            raise _Refused(text, status)
        self.page = None
        if fds:
            self.page = memoryview(_mapped(fds, mmap.mmap, _PAGE)).cast("q")
        if self.page is None or self.page[0] != _MAGIC:
            raise _Refused("the agent (ckpt rank) has another version")

    def send(self, kind, value=0, a=0, b=0, c=0, payload=b"", fds=()):
        message = _HEADER.pack(kind, value & 0xFFFFFFFF, a, b, c) + payload
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self.socket.sendmsg([message], rights, socket.MSG_NOSIGNAL)
        except OSError as e:
            raise _Broken("the agent (ckpt rank) is gone") from e

    def receive(self):
        if self.progress is not None:
            self.poll()
        try:
            message, fds, _, _ = socket.recv_fds(self.socket, _LARGEST, 4, socket.MSG_CMSG_CLOEXEC)
        except OSError as e:
            raise _Broken("the agent (ckpt rank) is gone") from e
        if len(message) < _HEADER.size:
            _close(fds)
            raise _Broken("the agent (ckpt rank) is gone")
        kind, value, a, b, c = _HEADER.unpack_from(message)
        status = value - (1 << 32) if value >= 1 << 31 else value
        return kind, status, a, b, c, message[_HEADER.size:], fds

    def poll(self):
        """Let MPI make progress until a message is there: other ranks may need it."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        while not poll.poll(1):
            self.progress()

    def call(self, kind, value=0, a=0, b=0, payload=b""):
        """Make a call and wait for its end. It returns the status, a value and a text."""
        self.send(kind, value, a, b, 0, payload)
        status, value, text, fds = self.wait_for(_GO)
        _close(fds)
        return status, value, text

    def wait_for(self, end):
        """Carry out orders until the message that ends a call comes."""
        while True:
            kind, value, a, b, c, payload, fds = self.receive()
            if kind == end:
                return value, a, payload.decode(errors="replace"), fds
            self.obey(kind, value, a, b, c, payload, fds)

    def obey(self, kind, value, a, b, c, payload, fds):
        if kind == _MAP and fds:
            window = _mapped(fds, _map, a)
            if window:  # or the next order to copy fails
                self.windows[value] = window, a
        elif kind == _UNMAP and value in self.windows:
            _libc.munmap(*self.windows.pop(value))
        elif kind in (_OUT, _IN):
            failed = 0 if _is_mapped(b, c) else errno.EFAULT
            self.send(_COPIED, failed or self.copy(value, a, payload, kind == _IN))
        elif kind == _TRACK:
            self.track()
        elif kind == _TRACER:
            _libc.prctl(0x59616D61, a, 0, 0, 0)  # PR_SET_PTRACER
        else:
            _close(fds)  # an order of a later version that needs no answer

    def copy(self, window, count, payload, into_memory):
        """Copy ranges between memory and a window. It returns an error number."""
        if window not in self.windows:
            return errno.ENOMEM
        if len(payload) != count * _RANGE.size:
            return errno.EINVAL
        base, size = self.windows[window]
        for address, offset, n in _RANGE.iter_unpack(payload):
            if offset > size or n > size - offset:
                return errno.EINVAL
            if into_memory:
                self.changed = True
                _libc.memcpy(address, base + offset, n)
            else:
                _libc.memcpy(base + offset, address, n)
        return 0

    def track(self):
        """Send the descriptors with which the agent finds written pages."""
        number = {"x86_64": 323, "aarch64": 282}.get(platform.machine())
        if number is None:
            return self.send(_TRACKED, errno.ENOSYS)
        # UFFD_USER_MODE_ONLY needs no privilege.
        fault = _libc.syscall(ctypes.c_long(number), ctypes.c_long(os.O_CLOEXEC | os.O_NONBLOCK | 1))
        if fault < 0:
            return self.send(_TRACKED, ctypes.get_errno())
        try:
            pagemap = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as e:
            os.close(fault)
            return self.send(_TRACKED, e.errno)
        try:
            self.send(_TRACKED, fds=(fault, pagemap))
        finally:
            _close((fault, pagemap))

    def close(self):
        self.socket.close()
        for window in self.windows.values():
            _libc.munmap(*window)
        self.windows.clear()


def _close(fds):
    for fd in fds:
        os.close(fd)


def _mapped(fds, mapper, size):
    """Map the first descriptor; the mapping outlives it."""
    try:
        return mapper(fds[0], size)
    finally:
        _close(fds)


def _map(fd, size):
    """Map a window. It returns the address, or None."""
    populate = 0x8000  # MAP_POPULATE: no page faults while memory is copied
    address = _libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | populate, fd, 0)
    return None if address == ctypes.c_void_p(-1).value else address


def _is_mapped(address, size):
    """Say whether all of a region is mapped: to copy it would crash otherwise."""
    start = address & -_PAGE
    if size == 0 or _libc.msync(start, address + size - start, 1) == 0:  # MS_ASYNC
        return True
    return ctypes.get_errno() != errno.ENOMEM


def _spawn(theirs, rank, size):
    """Start the agent. The process that is started leaves at once; its child stays."""
    agent = os.environ["CKPT_AGENT"]
    environ = dict(os.environ, CKPT_RANK=str(rank), CKPT_SIZE=str(size), CKPT_CLIENT="3")
    # Out of the way of the descriptors that the agent gets.
    end = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, 10)
    actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
               (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2),
               (os.POSIX_SPAWN_DUP2, end, 3)]
    try:
        pid = os.posix_spawn(agent, ["ckpt", "rank"], environ, file_actions=actions,
                             setsigmask=(), setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
        status = os.waitpid(pid, 0)[1]
    except ChildProcessError:
        status = 0  # the program ignores SIGCHLD, or waited itself
    except OSError as e:
        raise _Broken(f"start the agent {agent}: {e.strerror}") from e
    finally:
        os.close(end)
    if status != 0:
        raise _Broken(f"start the agent {agent}: it failed")


_NEW, _ALONE, _CONNECTED, _BROKEN, _FINISHED = range(5)


class _State:
    """What this process knows: its link, its arrays and the last error."""

    def __init__(self):
        self.lock = threading.RLock()
        self.phase = _NEW
        self.link = None
        self.rank = 0
        self.arrays = {}
        self.files = {}  # path: its length at the last boundary that asked
        self.error = ""

    def failed(self, status, text):
        self.error = text
        return status

    def lost(self, e):
        """The link has broken: the program continues without checkpoints."""
        if self.link is not None:
            self.link.close()
        self.link, self.phase = None, _BROKEN
        print(f"ckpt: rank {self.rank}: {e}: the program continues without checkpoints",
              file=sys.stderr, flush=True)
        return self.failed(e.status, str(e))

    def idle(self, function):
        """Return the status of a function that has no coordinator to talk to."""
        if self.phase == _NEW:
            return self.failed(ARGUMENT, f"{function}: call ckpt.init first")
        if self.phase == _FINISHED:
            return self.failed(ARGUMENT, f"{function}: called after ckpt.finalize")
        return SERVICE if self.phase == _BROKEN else OK

    def call(self, function, *message, **more):
        """Make a call. It returns the status and a value."""
        if self.link is None:
            return self.idle(function), 0
        try:
            status, value, text = self.link.call(*message, **more)
        except _Broken as e:
            return self.lost(e), 0
        if status < 0:
            self.failed(status, text)
        return status, value

    def tell(self, function, *message, **more):
        """Send a message that nobody answers. It returns the status."""
        if self.link is None:
            return self.idle(function)
        try:
            self.link.send(*message, **more)
        except _Broken as e:
            return self.lost(e)
        return OK


_state = _State()


def _leave_in_child():
    """A forked child is no rank: it has no link, and its functions do nothing."""
    global _state
    old, _state = _state, _State()
    if old.link is not None:
        old.link.socket.close()
    _state.phase = _ALONE if old.phase == _CONNECTED else old.phase


os.register_at_fork(after_in_child=_leave_in_child)


def init(rank=None, size=None):
    """Connect this process with the coordinator. It returns OK or SERVICE.

    A process whose agent cannot start ends: it would compute without protection.
    rank and size are those of mpi4py's COMM_WORLD unless they are given.
    """
    with _state.lock:
        if _state.phase != _NEW:
            raise ValueError("ckpt.init: called twice")
        if rank is None or size is None:
            rank, size = _world()
        if not 0 <= rank < size:
            raise ValueError(f"ckpt.init: rank {rank} of {size} is out of range")
        _state.rank, _state.phase = rank, _ALONE
        if not os.environ.get("CKPT_SOCKET") or not os.environ.get("CKPT_AGENT"):
            if rank == 0:
                print("ckpt: no coordinator: the program runs without checkpoints "
                      "(start it with ckpt launch -- COMMAND)", file=sys.stderr, flush=True)
            return OK
        try:
            _state.link = _connect(rank, size)
        except _Refused as e:
            return _state.lost(e)  # the agent ends this process
        except (_Broken, OSError) as e:
            _leave(e)
        _state.phase = _CONNECTED
        return OK


def _leave(e):
    """End a process that has a coordinator and no agent: it would compute without
    protection and, after a restart, from the beginning."""
    sys.stdout.flush()
    print(f"ckpt: rank {_state.rank}: {e}: the process ends, since it cannot be protected",
          file=sys.stderr, flush=True)
    os._exit(1)


def _connect(rank, size):
    """Start an agent. One that was killed at its start has a successor: the other ranks
    wait for this one."""
    for more in (True, True, False):
        try:
            return _Link(rank, size, _iprobe())
        except _Refused:
            raise
        except _Broken:
            if not more:
                raise


def _world():
    try:
        from mpi4py import MPI
    except ImportError:
        raise ValueError("ckpt.init: give rank and size, or install mpi4py") from None
    return MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size


def _iprobe():
    """Return a function with which MPI makes progress, if mpi4py is loaded."""
    module = sys.modules.get("mpi4py.MPI")
    if module is None:
        return None

    def probe():
        if module.Is_initialized() and not module.Is_finalized():
            module.COMM_WORLD.Iprobe(module.ANY_SOURCE, module.ANY_TAG)
    return probe


def progress(function):
    """Call function about every millisecond while a call waits, in place of MPI's probe."""
    with _state.lock:
        if _state.link is not None:
            _state.link.progress = function


def protect(name, data):
    """Protect a numpy array, or another writable buffer, under a name.

    Call it again with the same name when the array is another one. The module
    holds a reference, so that the memory stays.
    """
    return _protect("ckpt.protect", name, data, _LOCAL)


def protect_replicated(name, data):
    """Protect what all ranks have alike, such as the time, under a name.

    Another number of ranks can resume with it; all of them get that of rank 0.
    """
    return _protect("ckpt.protect_replicated", name, data, _REPLICATED)


def protect_global(name, data, shape, first, halo=None, block=None, stride=None, lower=None, upper=None, pad=None,
                   array=""):
    """Protect the part that this rank has of an array of all ranks, under a name.

    shape is that of the whole array, first the index in it of the first cell here
    that is no halo. halo is how many cells data has more on either side. With block
    and stride the cells come in blocks of that length, whose first cells are so far
    apart. Axes of data that shape does not have are parts of a cell: the last ones,
    or the first ones in Fortran's order. lower and upper are more cells of the halo on
    one side only, pad cells after all these that are no part of the array. A rank with
    several blocks of an array protects each under a name, and names the array.

    Another number of ranks can resume from such a checkpoint: each gets its part.
    """
    function, axes = "ckpt.protect_global", len(shape)
    rows = getattr(data, "shape", (len(data),))
    numbers = [shape, first] + [(0,) * axes if n is None else n for n in (halo, block, stride, lower, upper, pad)]
    if not 1 <= axes <= min(_AXES, len(rows)) or any(len(n) != axes for n in numbers):
        raise ValueError(f"{function} {name}: array and numbers have other axes than the whole")
    columns = hasattr(data, "flags") and data.flags.f_contiguous and not data.flags.c_contiguous
    rows = rows[len(rows) - axes:] if columns else rows[:axes]
    payload = struct.pack("<qq", axes, columns)
    for axis, (n, *rest) in enumerate(zip(rows, *numbers)):
        payload += _axis(function, name, axis, n, *map(int, rest))
    of = _encoded(function, array) if array else b""
    return _protect(function, name, data, _GLOBAL, payload + struct.pack("<q", len(of)) + of)


def protect_indexed(name, data, cells, ids, own=None):
    """Protect cells of an array of all ranks that a list names, such as those of a mesh.

    ids has the number of each cell of data in the whole array, from 0 to cells - 1: an
    array of 64-bit integers, which stays as it is. The first own of them are this
    rank's, by default all, the others copies of cells of other ranks. Another number of
    ranks gets the cells that its lists name.
    """
    function = "ckpt.protect_indexed"
    numbers = memoryview(ids).cast("B").cast("q") if len(ids) else ()
    own, held = len(ids) if own is None else own, len(numbers)
    size = _memory(name, data)[1]
    if (len(_encoded(function, name)) > 251 or not 0 <= own <= held == len(ids) or not 0 < cells <= _SIZE
            or (size % held if held else size)):
        raise ValueError(f"{function} {name}: {size} bytes, {held} cells held of {cells}, {own} of them own: "
                         "they do not fit together")
    if held and not 0 <= min(numbers) <= max(numbers) < cells:
        raise ValueError(f"{function} {name}: cells {min(numbers)} to {max(numbers)} of {cells}")
    low, high = (min(numbers[:own]), max(numbers[:own])) if own else (0, 0)
    which = sum(map(_mix, numbers[:own])) & _WORD
    where = sum(_mix(cell ^ _mix(i)) for i, cell in enumerate(numbers)) & _WORD
    status = protect(name + ".ids", ids)
    if status == ARGUMENT:
        return status
    return _protect(function, name, data, _INDEXED, struct.pack("<qqqqqQQ", cells, own, held, low, high, which, where))


_WORD = (1 << 64) - 1


def _mix(n):
    """Return the hash of a number in a list."""
    n = (n + 0x9e3779b97f4a7c15) & _WORD
    n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9 & _WORD
    n = (n ^ n >> 27) * 0x94d049bb133111eb & _WORD
    return n ^ n >> 31


def _axis(function, name, axis, rows, shape, first, halo, block, stride, lower, upper, pad):
    """Return the description of an axis, which the agent would refuse if we did not."""
    count = rows - 2 * halo - lower - upper - pad
    fits = (0 < shape <= _SIZE and 0 <= first <= shape and 0 <= count <= shape - first and 0 <= halo <= shape
            and 0 <= lower <= shape and 0 <= upper <= shape and 0 <= pad <= _SIZE)
    if block == 0:
        fits = fits and stride == 0
    else:
        fits = (fits and 0 < block <= stride <= _SIZE and halo + lower + upper == 0 and (count == 0 or first + block <= stride)
                and count == (shape - first) // stride * block + min((shape - first) % stride, block))
    if not fits:
        raise ValueError(f"{function} {name}: axis {axis}: {count} cells from {first}, halo {halo}, block {block}, "
                         f"stride {stride} are no part of {shape}")
    return struct.pack("<9q", shape, first, count, halo, block, stride, lower, upper, pad)


def deal(cells, block, places, place):
    """Return first, count, block and stride of a place, of an axis dealt to so many.

    Blocks of so many cells are dealt in turn; block 1 is cyclic. Block 0 makes one
    block for each place, as equal as can be.
    """
    if cells < 1 or block < 0 or not 0 <= place < places:
        raise ValueError(f"ckpt.deal: {cells} cells in blocks of {block}, place {place} of {places}: out of range")
    if block == 0:
        some, more = divmod(cells, places)
        return some * place + min(place, more), some + (place < more), 0, 0
    whole = cells // block // places  # rounds in which every place gets a block
    rest = cells - whole * places * block - place * block
    return min(place * block, cells), whole * block + min(max(rest, 0), block), block, block * places


def _protect(function, name, data, sharing, part=b""):
    encoded = part + _encoded(function, name)
    address, size, element, keep = _memory(name, data)
    with _state.lock:
        status = _state.tell(function, _PROTECT, element, address, size, sharing, encoded)
        if status == ARGUMENT:
            raise ValueError(_state.error)
        _state.arrays[name] = keep
        return status


def _encoded(function, name):
    if not 0 < len(name) <= _NAME:
        raise ValueError(f"{function}: a name has 1 to {_NAME} characters")
    if not name.isascii() or not name.isprintable():
        raise ValueError(f"{function}: name {name!r} is not printable ASCII")
    return name.encode()


def _memory(name, data):
    """Return the address, size and element type of data, and what keeps them valid."""
    interface = getattr(data, "__array_interface__", None)
    if interface is None:
        view = memoryview(data)
        if view.readonly or not view.c_contiguous:
            raise ValueError(f"ckpt.protect: {name} is read-only or not contiguous")
        size = view.nbytes
        keep = (ctypes.c_char * size).from_buffer(view)
        return ctypes.addressof(keep), size, _element(view.format), keep
    flags = data.flags
    if not (flags.c_contiguous or flags.f_contiguous):
        raise ValueError(f"ckpt.protect: {name} is not contiguous: protect the whole array, or a copy")
    if not flags.writeable:
        raise ValueError(f"ckpt.protect: {name} is read-only")
    if data.dtype.hasobject:
        raise TypeError(f"ckpt.protect: {name} has Python objects: their memory is elsewhere")
    kind = interface["typestr"]
    element = _BYTES if kind[0] == ">" else _ELEMENTS.get(kind[1:], _BYTES)
    return interface["data"][0], data.nbytes, element, data


def _element(code):
    return {"d": _FLOAT64, "f": _FLOAT32, "q": _INT64, "Q": _INT64, "l": _INT64, "L": _INT64,
            "i": _INT32, "I": _INT32, "e": _FLOAT16, "h": _INT16, "H": _INT16}.get(code, _BYTES)


def forget(name):
    """Leave name out of all later checkpoints, and drop the reference to its array."""
    encoded = _encoded("ckpt.forget", name)
    with _state.lock:
        if name not in _state.arrays:
            raise ValueError(f"ckpt.forget {name}: no region has this name")
        status = _state.tell("ckpt.forget", _FORGET, payload=encoded)
        del _state.arrays[name]
        return status


def alloc(name, shape, dtype="float64"):
    """Return a numpy array of zeros on pages of its own, protected under a name."""
    import numpy
    dtype = numpy.dtype(dtype)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    size = dtype.itemsize
    for n in shape:
        size *= n
    memory = mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    data = numpy.frombuffer(memory, dtype, size // dtype.itemsize).reshape(shape)
    protect(name, data)
    return data


def restore():
    """Fill the protected arrays from the checkpoint to resume from, and return its step.

    It returns 0 if there is none. If there is one that cannot be used, it raises
    Error: the arrays may hold anything, so end the program.
    """
    with _state.lock:
        link = _state.link
        status, step = _state.call("ckpt.restore", _RESTORE)
        if status == NONE or status == SERVICE and not (link and link.changed):
            return 0
        if status < 0:
            raise Error(status, _state.error)
        _cut()
        return step


def boundary(step):
    """Mark a place where a checkpoint may be taken: no message is on its way.

    All ranks call it equally often. It returns STOP if the program is to leave its
    loop, a negative status if an earlier checkpoint failed, and else OK. It costs
    no system call while nothing is due.
    """
    return _pass("ckpt.boundary", step, 0)


def save(step):
    """Take a checkpoint in any case. All ranks call it at the same step."""
    return _pass("ckpt.save", step, 1)


def epoch(step):
    """Be boundary at the end of an epoch: with --every epoch a checkpoint is taken there."""
    link = _state.link
    return _pass("ckpt.epoch", step, 1 if link is not None and link.page[_EPOCHS] else 0)


def file(path):
    """Have a file that grows, such as a log or a table, belong to the checkpoint.

    restore() cuts off what was written after the checkpoint, so that the file ends as in
    a run without failures. The process that writes it calls this before restore(), opens
    it to append when it resumes, and flushes it before each boundary. Bytes that are
    written over are not kept. The path means the same file after a restart.
    """
    path = os.fspath(path)
    length = array.array("q", [0])
    status = protect("file:" + path, _state.files.get(path, length))
    _state.files.setdefault(path, length)
    return status


def _length(path):
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _cut():
    """Give the files the lengths of the checkpoint."""
    for path, length in _state.files.items():
        size, status, text = _length(path), OK, ""
        if size < length[0]:
            status, text = MISMATCH, (f"file {path} has {size} bytes, and had {length[0]} at the checkpoint: "
                                      "put it back, or restart from a checkpoint before")
        elif size > length[0]:
            try:
                os.truncate(path, length[0])
            except OSError as e:
                status, text = IO, f"file {path}: {e.strerror}"
        if status != OK:
            raise Error(_state.failed(status, text), text)


def _print():
    """Let what was printed leave the process: after a restart it is not printed again."""
    try:
        sys.stdout.flush()
    except (AttributeError, OSError, ValueError):
        pass  # there is none, or the program finds the same


def _measure():
    _print()
    for path, length in _state.files.items():
        length[0] = _length(path)


def _pass(function, step, force):
    state = _state
    with state.lock:
        if state.link is None:
            return state.idle(function)
        page = state.link.page
        count = page[_PASSED] + 1
        if force:
            _measure()
            # The agent must not believe that this boundary is passed before it hears of it.
            status = state.call(function, _BOUNDARY, 1, count, step)[0]
            page[_STEP] = step
            page[_PASSED] = count
            return status
        page[_STEP] = step
        page[_PASSED] = count
        # The agent lowers the limit, then has all processors pass a memory barrier.
        if count < page[_LIMIT] and not page[_PENDING]:
            return OK
        _measure()
        return state.call(function, _BOUNDARY, 0, count, step)[0]


def wait():
    """Wait until the checkpoint that is written behind the computation is stored."""
    with _state.lock:
        return _state.call("ckpt.wait", _WAIT)[0]


def query(name):
    """Return the bytes of a region in the checkpoint to resume from, or NONE.

    An empty name asks for the step of that checkpoint.
    """
    encoded = _encoded("ckpt.query", name) if name else b""
    with _state.lock:
        if _state.link is None:
            return _state.idle("ckpt.query") or NONE
        status, size = _state.call("ckpt.query", _QUERY, payload=encoded)
        return status if status < 0 else size


def finalize():
    """Say that the program ends on purpose, so that nothing is restarted."""
    with _state.lock:
        _print()
        status = _state.call("ckpt.finalize", _FINALIZE)[0]
        if _state.link is not None:
            _state.link.close()
            _state.link = None
        if _state.phase != _NEW:
            _state.phase = _FINISHED
        _state.arrays.clear()
        _state.files.clear()
        return status


def error():
    """Return a text about the last failure, with a hint, or an empty one."""
    return _state.error
