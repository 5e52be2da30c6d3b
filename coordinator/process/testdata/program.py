"""A program that does what the test tells it, as program.c does, in Python."""
import ctypes
import mmap
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../client/python"))
import ckpt

arrays = {}
FORMATS = ["B", "d", "f", "i", "q"]


def protected(name, size, element):
    """Protect memory that lies one byte off, as malloc's may."""
    keep = (ctypes.c_char * (size + 1))()
    data = (ctypes.c_char * size).from_buffer(keep, 1)
    arrays[name] = memoryview(data).cast("B")
    return ckpt.protect(name, arrays[name].cast(FORMATS[element]))


def fill(name, seed):
    data = bytearray(len(arrays[name]))
    for i in range(len(data)):
        seed = (seed * 1664525 + 1013904223) & 0xFFFFFFFF
        data[i] = seed >> 24
    arrays[name][:] = data
    return 0


def checksum(name):
    h = 14695981039346656037
    for b in arrays[name].tobytes():
        h = (h ^ b) * 1099511628211 & (1 << 64) - 1
    return h >> 1


def write(name, offset, size, value):
    arrays[name][offset:offset + size] = bytes([value]) * size
    return 0


def boundaries(n):
    for i in range(n):
        if ckpt.boundary(i) != ckpt.OK:
            return i
    return n


def fork():
    """Make a child that calls as if it were the rank."""
    child = os.fork()
    if child == 0:
        os._exit(42 if ckpt.boundary(1) == ckpt.OK else 1)
    return os.waitpid(child, 0)[1] >> 8


def children():
    try:
        os.waitpid(-1, 0)
    except ChildProcessError:
        return 0
    return 1


def alloc(name, size):
    arrays[name] = memoryview(ckpt.alloc(name, size, "u1")).cast("B")
    return 0


class Progress:
    once = False

    def __call__(self):
        if not self.once:
            print("progress", file=sys.stderr, flush=True)
        self.once = True


def gone(name, size, element):
    """Protect memory that is unmapped, whose neighbours stay."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    address = libc.mmap(None, ctypes.c_size_t(3 * size), mmap.PROT_READ | mmap.PROT_WRITE,
                        mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, ctypes.c_long(0))
    data = memoryview((ctypes.c_char * size).from_address(address + size)).cast("B")
    status = ckpt.protect(name, data.cast(FORMATS[element]))
    libc.munmap(ctypes.c_void_p(address + size), ctypes.c_size_t(size))
    return status


def shared(name, kind, a, b, c):
    """Protect parts of arrays of all ranks, of a rows, from row b on, c of them."""
    import numpy
    if kind == "dealt":  # in blocks of b, at place c of 3
        first, count, block, stride = ckpt.deal(a, b, 3, c)
        return ckpt.protect_global(name, numpy.zeros((count, 5, 2)), (a, 5), (first, 0), block=(block, 0), stride=(stride, 0))
    if kind == "columns":
        return ckpt.protect_global(name, numpy.zeros((2, c + 2, 5), order="F"), (a, 5), (b, 0), (1, 0))
    return ckpt.protect_global(name, numpy.zeros((c + 2, 5), complex), (a, 5), (b, 0), (1, 0))


def replicated(name, size):
    import numpy
    return ckpt.protect_replicated(name, numpy.zeros(size // 4, "i4"))


COMMANDS = {
    "rows": lambda name, a, b, c: shared(name, "rows", a, b, c),
    "columns": lambda name, a, b, c: shared(name, "columns", a, b, c),
    "dealt": lambda name, a, b, c: shared(name, "dealt", a, b, c),
    "replicated": lambda name, a, b, c: replicated(name, a),
    "init": lambda _, a, b, c: ckpt.init(a, b),
    "restore": lambda *_: ckpt.restore(),
    "boundary": lambda _, a, b, c: ckpt.boundary(a),
    "boundaries": lambda _, a, b, c: boundaries(a),
    "save": lambda _, a, b, c: ckpt.save(a),
    "wait": lambda *_: ckpt.wait(),
    "query": lambda name, *_: ckpt.query(name),
    "forget": lambda name, *_: ckpt.forget(name),
    "finalize": lambda *_: ckpt.finalize(),
    "progress": lambda *_: ckpt.progress(Progress()) or 0,
    "fork": lambda *_: fork(),
    "children": lambda *_: children(),
    "alloc": lambda name, a, b, c: alloc(name, a),
    "protect": lambda name, a, b, c: protected(name, a, b),
    "again": lambda name, a, b, c: ckpt.protect(name, arrays[name][:a].cast(FORMATS[b])),
    "gone": lambda name, a, b, c: gone(name, a, b),
    "fill": lambda name, a, b, c: fill(name, a),
    "write": lambda name, a, b, c: write(name, a, b, c),
    "sum": lambda name, *_: checksum(name),
}


def main():
    for line in sys.stdin:
        command, name, *numbers = line.split() + [""] * (line.count(" ") == 0)
        a, b, c = ([int(n) for n in numbers] + [0, 0, 0])[:3]
        try:
            result, text = COMMANDS[command](name, a, b, c), ckpt.error()
        except (ckpt.Error, ValueError, TypeError) as e:
            result, text = getattr(e, "status", ckpt.ARGUMENT), str(e)
        print(result, text if result < 0 else "", flush=True)


main()
