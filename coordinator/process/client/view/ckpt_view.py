"""ckpt_view: blocks of a file, read and written as if they lay next to each other.

A view says which bytes of a file are wanted. Reads and writes count wanted bytes
only, and join several blocks and the holes between them into one call where that
takes less time on this storage (data sieving):

    import ckpt_view, numpy as np
    v = ckpt_view.slices(0, 8, (1000, 1000), np.s_[:, ::4])
    u = np.frombuffer(v.read(fd), "f8").reshape(1000, 250)

What a call costs comes from the file that the variable CKPT_VIEW_STORAGE names.
"ckpt bench sieve --dir DIR -o FILE" measures it. Without the variable, a call costs
as much as 200 KiB.

Promises: the bytes are the same under every rule. No call is longer than the
buffer. A write changes no byte outside of its blocks: joined over a hole, it reads
the hole and writes it back under a lock of the range, and plain writes take the
lock as well. So no update is lost among writers that use views on open files of
their own. The locks are those of open file descriptions (fcntl_locking(2)): threads
that share a descriptor, or a view, take turns by themselves. A write is not atomic
and not durable.

This file needs Python 3.9 and Linux. numpy makes it fast with many small blocks.
ckpt_view.h is the same in C.
"""
import bisect
import fcntl
import itertools
import json
import os
import stat
import struct

try:
    import numpy as np
except ImportError:
    np = None

__all__ = ["FOREVER", "RULES", "View", "slices"]

FOREVER = -1
RULES = ("adaptive", "naive", "romio", "extent", "scanfile", "performance-model")
_LARGEST = 2**63 - 1
_SETLKW = getattr(fcntl, "F_OFD_SETLKW", 38)


class View:
    """Wanted bytes of a file: from byte displacement on, blocks [(size, hole), ...]
    in cells of so many bytes, repeat times.

    Attributes to set: rule (one of RULES), buffer (most bytes of a call),
    bytes_per_s, call_s, stripe_bytes and block_bytes of the storage, alone (nobody
    else writes to the file: no locks), trace (called with write, offset, length
    before each call). size is the number of wanted bytes; reads, writes, locks,
    rewrites, bytes_read and bytes_written count what was done.
    """

    def __init__(self, displacement, blocks, cell=1, repeat=FOREVER):
        self.rule, self.buffer, self.alone, self.trace = "adaptive", 4 << 20, False, None
        self.bytes_per_s, self.call_s, self.stripe_bytes, self.block_bytes = 2.0**31, 100e-6, 0, 4096
        self.reads = self.writes = self.locks = self.rewrites = self.bytes_read = self.bytes_written = 0
        self._environment()
        if displacement < 0:
            raise ValueError("view: displacement %d is negative" % displacement)
        if cell < 1:
            raise ValueError("view: cells of %d bytes: must be at least 1" % cell)
        if not blocks:
            raise ValueError("view: no blocks")
        self._initial, self._starts, self._sizes, self._until = displacement, [], [], []
        self._extent = self._wanted = 0
        for i, (size, hole) in enumerate(blocks):
            if size < 1 or hole < 0:
                raise ValueError("view: block %d: want a size of at least 1, and a hole of at least 0" % i)
            self._starts.append(self._extent)
            self._sizes.append(size * cell)
            self._wanted += size * cell
            self._until.append(self._wanted)
            self._extent += (size + hole) * cell
        most = (_LARGEST - displacement) // self._extent
        if repeat == FOREVER:
            repeat = most
        if repeat < 1 or repeat > most:
            raise ValueError("view: %d repetitions of %d bytes: want at least 1, and an end before the largest offset of a file" % (repeat, self._extent))
        self.size = repeat * self._wanted
        self._arrays = None

    def _environment(self):
        rule = os.environ.get("CKPT_VIEW_RULE", "")
        if rule:
            self.rule = rule
            self._check_rule("CKPT_VIEW_RULE=" + rule)
        name = os.environ.get("CKPT_VIEW_STORAGE", "")
        if not name:
            return
        remedy = "; ckpt bench sieve -o writes such a file"
        try:
            with open(name) as f:
                found = json.load(f)
            rate, call = float(found["bytes_per_s"]), float(found["call_ns"]) / 1e9
        except OSError as e:
            raise OSError(e.errno, "CKPT_VIEW_STORAGE: " + e.strerror + remedy, name) from None
        except (ValueError, KeyError, TypeError):
            rate = call = -1
        if not (1024 <= rate <= 2**50 and 0 < call <= 60):
            raise ValueError("CKPT_VIEW_STORAGE=%s: no bytes_per_s and call_ns that a storage can have%s" % (name, remedy))
        self.bytes_per_s, self.call_s = rate, call
        self.stripe_bytes = max(0, int(found.get("stripe_bytes", 0)))
        self.block_bytes = max(0, int(found.get("block_bytes", 0)))

    def _check_rule(self, what):
        if self.rule not in RULES:
            raise ValueError("%s: want one of %s" % (what, ", ".join(RULES)))

    def read(self, fd, n=None, offset=0):
        """The n wanted bytes from the wanted byte at offset on, or all; fewer where
        the view or the file ends."""
        if n is None:
            n = self.size - offset
            at = os.fstat(fd)
            if stat.S_ISREG(at.st_mode):
                n = min(n, at.st_size)
        p = bytearray(max(0, min(n, self.size - offset)))
        done = self.readinto(fd, p, offset)
        return p if done == len(p) else p[:done]

    def readinto(self, fd, p, offset=0):
        """Like read, into p, as long as p; the number of bytes that came."""
        p = memoryview(p).cast("B")
        done = 0
        for w in self._windows(False, len(p), offset):
            self.reads += 1
            if self.trace:
                self.trace(False, w.off, w.len)
            part = p[done:done + w.data]
            if w.len == w.data:
                m = self._fill(fd, part, w.off)
                ended = m < w.len
            else:
                m, ended = self._sieved(fd, w, part)
            done += m
            if ended:
                break
        return done

    def _sieved(self, fd, w, p):
        if 0 < w.pieces <= 128 and w.data >= 2048 * w.pieces:
            holes = memoryview(bytearray(w.len - w.data))
            parts, pos, done = [], 0, 0
            for at, n in self._pieces(w):
                parts += [holes[:at - pos]] if at > pos else []
                parts.append(p[done:done + n])
                pos, done = at + n, done + n
            parts += [holes[:w.len - pos]] if w.len > pos else []
            if os.preadv(fd, parts, w.off) == w.len:
                self.bytes_read += w.len
                return w.data, False
        buf = memoryview(bytearray(w.len))
        got = self._fill(fd, buf, w.off)
        if got == w.len:
            self._copy(w, buf, p, False)
            return w.data, False
        done = 0
        for at, n in self._pieces(w):
            n = max(0, min(n, got - at))
            p[done:done + n] = buf[at:at + n]
            done += n
        return done, done < w.data or w.data == 0

    def _fill(self, fd, p, off):
        done = 0
        while done < len(p):
            m = os.preadv(fd, [p[done:]], off + done)
            if m == 0:
                break
            done += m
        self.bytes_read += done
        return done

    def write(self, fd, p, offset=0):
        """Writes p from the wanted byte at offset on, and returns its length. Nothing
        is written if that goes beyond the view. Writes with holes read them: open the
        file with os.O_RDWR."""
        p = memoryview(p).cast("B")
        if p and len(p) > self.size - offset:
            raise ValueError("view: %d bytes at offset %d go beyond its end" % (len(p), offset))
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND:
            raise ValueError("view: a file that is open with O_APPEND is written at its end only")
        done = 0
        for w in self._windows(True, len(p), offset):
            self.locks += 1
            self._lock(fd, fcntl.F_WRLCK, w)
            try:
                self._store(fd, w, p[done:done + w.data])
            finally:
                self._lock(fd, fcntl.F_UNLCK, w)
            done += w.data
        return done

    def _store(self, fd, w, p):
        if w.len != w.data:
            self.rewrites += 1
            self.reads += 1
            if self.trace:
                self.trace(False, w.off, w.len)
            buf = memoryview(bytearray(w.len))
            self._fill(fd, buf, w.off)
            self._copy(w, buf, p, True)
            p = buf
        self.writes += 1
        if self.trace:
            self.trace(True, w.off, w.len)
        done = 0
        while done < w.len:
            done += os.pwrite(fd, p[done:], w.off + done)
        self.bytes_written += w.len

    def _lock(self, fd, kind, w):
        if not self.alone:
            fcntl.fcntl(fd, _SETLKW, struct.pack("hhqqi4x", kind, os.SEEK_SET, w.off, w.len, 0))

    def _pieces(self, w):
        """Place and length of each wanted piece of a window."""
        k, inside, left = w.first, w.inside, w.data
        while left > 0:
            rep, i = divmod(k, len(self._sizes))
            n = min(self._sizes[i] - inside, left)
            yield self._initial + rep * self._extent + self._starts[i] + inside - w.off, n
            k, inside, left = k + 1, 0, left - n

    def _copy(self, w, buf, p, into):
        """Copies between the pieces of a window, which is at buf, and p."""
        if np is None or w.pieces < 16:
            done = 0
            for at, n in self._pieces(w):
                if into:
                    buf[at:at + n] = p[done:done + n]
                else:
                    p[done:done + n] = buf[at:at + n]
                done += n
            return
        places, sizes = self._blocks(w.first, w.pieces)
        places -= w.off
        places[0] += w.inside
        sizes[0] -= w.inside
        sizes[-1] = w.data - sizes[:-1].sum()
        packed = np.cumsum(sizes) - sizes
        buf, p = np.frombuffer(buf, np.uint8), np.frombuffer(p, np.uint8)
        for size in np.unique(sizes):
            of = sizes == size
            a, b = _runs(buf, size), _runs(p, size)
            if into:
                a[places[of]] = b[packed[of]]
            else:
                b[packed[of]] = a[places[of]]

    def _blocks(self, first, count):
        """Offsets in the file and sizes of blocks, as arrays."""
        if self._arrays is None:
            self._arrays = np.array(self._starts, np.int64), np.array(self._sizes, np.int64)
        starts, sizes = self._arrays
        rep, i = np.divmod(np.arange(first, first + count), len(starts))
        return self._initial + rep * self._extent + starts[i], sizes[i]

    def _windows(self, write, n, offset):
        """Divides a request into calls as the rule decides."""
        if offset < 0:
            raise ValueError("view: offset %d is negative" % offset)
        if not 1 <= self.buffer <= 1 << 30:
            raise ValueError("view: buffer of %d bytes: must be between 1 byte and 1 GiB" % self.buffer)
        self._check_rule("view: rule " + str(self.rule))
        if offset >= self.size:
            return
        plan = _Plan(self, write, offset, min(n, self.size - offset))
        while plan.left > 0:
            yield plan.next()


def _runs(a, size):
    """Each run of so many bytes of an array, as rows that overlap."""
    return np.lib.stride_tricks.as_strided(a, (len(a) - size + 1, size), (1, 1), writeable=a.flags.writeable)


def slices(displacement, cell, shape, part):
    """The view of a part of an array that begins at a byte of the file: the last axis
    runs fastest, as in C. part has a slice, a number or (first, count, step) for each
    axis; np.s_[:, ::4] makes one."""
    shape, part = tuple(shape), part if isinstance(part, tuple) else (part,)
    if not shape or len(shape) != len(part):
        raise ValueError("view: %d axes and %d slices: give one slice for each axis" % (len(shape), len(part)))
    stride, first, block, levels = cell, displacement, cell, []
    for k in reversed(range(len(shape))):
        at, count, step = _slice(part[k], shape[k])
        if at < 0 or count < 1 or step < 1 or at + (count - 1) * step >= shape[k]:
            raise ValueError("view: axis %d: %d cells from %d by %d: the axis has %d" % (k, count, at, step, shape[k]))
        first += at * stride
        if count > 1 and not levels and step * stride == block:
            block *= count
        elif count > 1 and levels and levels[-1][0] * levels[-1][1] == step * stride:
            levels[-1] = levels[-1][0] * count, levels[-1][1]
        elif count > 1:
            levels.append((count, step * stride))
        stride *= shape[k]
    blocks, extent, repeat = [(block, 0)], block, 1
    for k, (count, distance) in enumerate(levels):
        blocks[-1] = blocks[-1][0], distance - extent
        if k == len(levels) - 1:
            repeat = count
            break
        if count * len(blocks) > 1 << 20:
            raise ValueError("view: more than %d blocks before the outermost axis repeats: read that axis cell by cell" % (1 << 20))
        blocks *= count
        extent += (count - 1) * distance
        blocks[-1] = blocks[-1][0], 0
    if first < 0 or cell < 1:
        raise ValueError("view: displacement %d, cells of %d bytes: want at least 0 and 1" % (displacement, cell))
    return View(first, blocks, 1, repeat)


def _slice(part, cells):
    if isinstance(part, slice):
        first, stop, step = part.indices(cells)
        return first, len(range(first, stop, step)), step
    if isinstance(part, tuple):
        return part
    return part, 1, 1


class _Window:
    """A call: a range of the file, and what is wanted of it."""
    __slots__ = ("off", "len", "lead", "data", "pieces", "first", "inside")


class _Plan:
    def __init__(self, v, write, offset, n):
        self.v, self.write, self.left, self.end = v, write, n, -1
        rep, rest = divmod(offset, v._wanted)
        i = bisect.bisect_right(v._until, rest)
        self.block, self.inside = rep * len(v._sizes) + i, rest - (v._until[i] - v._sizes[i])
        self.even = v.bytes_per_s * v.call_s
        self.decide = getattr(self, "_" + v.rule.replace("-", "_"))

    def at(self):
        rep, i = divmod(self.block, len(self.v._sizes))
        return self.v._initial + rep * self.v._extent + self.v._starts[i] + self.inside

    def size(self):
        return min(self.v._sizes[self.block % len(self.v._sizes)] - self.inside, self.left)

    def next(self):
        """The next window."""
        w, buffer = _Window(), self.v.buffer
        w.off, w.first, w.inside = self.at(), self.block, self.inside
        w.len = w.lead = w.data = w.pieces = 0
        gap = w.off - self.end if self.end >= 0 else 0
        reach = gap if self.end >= 0 else w.off
        take, lead, fill = self.decide(w, gap, self.size())
        if not self.write:
            lead = min(max(0, lead), reach)
            if take <= 0 and lead > 0 and fill > 0:
                w.off -= lead
                w.len = min(fill, lead, buffer)
                self.end = w.off + w.len
                return w
            w.lead = min(lead, buffer - 1)
            w.off -= w.lead
            w.len = w.lead
        hole, whole = self.take(w, take if take > 0 else buffer)
        while whole or self.left == 0:
            if w.pieces >= 8 and self.left > 0:
                self.skip(w)
                hole = self.at() - w.off - w.len
            take, _, fill = self.decide(w, hole, self.size() if self.left > 0 else 0)
            space = buffer - w.len
            if self.left == 0 or take <= 0 or hole >= space:
                if self.left > 0:
                    space = min(space, hole)
                if not self.write:
                    w.len += min(max(0, fill), space, _LARGEST - w.off - w.len)
                break
            w.len += hole
            hole, whole = self.take(w, take)
        self.end = w.off + w.len
        return w

    def take(self, w, n):
        """Adds up to n bytes of the block to the window: the hole behind it, and
        whether that was its end."""
        run = self.v._sizes[self.block % len(self.v._sizes)] - self.inside
        n = min(n, run, self.left, self.v.buffer - w.len)
        w.len += n
        w.data += n
        w.pieces += 1
        self.left -= n
        before = self.at() + n
        self.inside += n
        if n < run:
            return 0, False
        self.block, self.inside = self.block + 1, 0
        return self.at() - before, True

    def skip(self, w):
        """Takes in at once all whole blocks that the rule surely joins."""
        v = self.v
        if np is None or self.write and w.data == w.len or v.rule == "scanfile":
            return
        for count in itertools.accumulate(itertools.repeat(64), lambda n, _: min(8 * n, 1 << 15)):
            offs, sizes = v._blocks(self.block, count)
            ends = offs + sizes
            before = np.empty_like(ends)
            before[0], before[1:] = w.off + w.len, ends[:-1]
            wanted = np.cumsum(sizes)
            ok = (ends - w.off <= v.buffer) & (wanted < self.left)
            if v.rule == "performance-model":
                ok &= offs - before < self.even
            if v.rule == "adaptive":
                if v.stripe_bytes > 0:
                    ok &= ends - before <= v.stripe_bytes - 1 - (before - 1) % v.stripe_bytes
                join = self.moved(w.off, ends - w.off) - self.moved(w.off, before - w.off)
                ok &= join * (2 if self.write else 1) < self.moved(offs, sizes) + self.even
            n = count if ok.all() else int(ok.argmin())
            if n == 0:
                return
            w.len = int(ends[n - 1]) - w.off
            w.data += int(wanted[n - 1])
            w.pieces += n
            self.left -= int(wanted[n - 1])
            self.block += n
            if n < count:
                return

    def moved(self, off, n):
        """The bytes of the device blocks that n bytes at off touch."""
        unit = self.v.block_bytes
        return n if unit <= 1 else (n + off % unit + unit - 1) // unit * unit

    # The rules return how much of the block joins the window, how many bytes before the
    # block the window begins, and how far it goes on if it ends here.

    def _naive(self, w, hole, size):
        return 0 if w.len > 0 else size, 0, 0

    def _romio(self, w, hole, size):
        space = self.v.buffer - w.len
        return (0, 0, space) if w.len > 0 and hole >= space else (size, 0, 0)

    def _extent(self, w, hole, size):
        return size, 0, 0

    def _performance_model(self, w, hole, size):
        return 0 if w.len > 0 and hole >= self.even else size, 0, 0

    def _scanfile(self, w, hole, size):
        v, unit = self.v, 1
        for u in (v.block_bytes, v.stripe_bytes):
            unit = u if 1 <= u <= v.buffer else unit
        if w.len == 0:
            lead = 0 if self.write else max(hole, w.off % unit)
            end = _multiple(w.off - lead, v.buffer, unit)
            return max(0, end - w.off), lead, end - (w.off - lead)
        end = w.off + w.len
        space = _multiple(w.off, v.buffer, unit) - end
        if size == 0:
            return 0, 0, min(space, -end % unit)
        return (0, 0, space) if hole >= space else (space - hole, 0, 0)

    def _adaptive(self, w, hole, size):
        v, stop = self.v, (0, 0, 0)
        if w.len == 0:
            return self.first(w, size), 0, 0
        if size == 0 or hole > v.buffer - w.len - size:
            return stop
        if hole == 0 and w.data == w.len:
            return size, 0, 0
        room = v.buffer
        if v.stripe_bytes > 0:
            room = v.stripe_bytes - 1 - (w.off + w.len - 1) % v.stripe_bytes
        if hole + size > room:
            return stop
        before = self.moved(w.off, w.len)
        join = self.moved(w.off, w.len + hole + size) - before
        apart = self.moved(w.off + w.len + hole, size) + self.even
        if not self.write:
            return (size, 0, 0) if join < apart else stop
        if w.data < w.len:
            return (size, 0, 0) if 2 * join < apart else stop
        # The first hole costs as much as two blocks save, so the blocks to come count, as
        # if all were like the next.
        step = hole + size
        n = min((v.buffer - w.len) // step, room // step, self.left // size)
        join = 2 * (self.moved(w.off, w.len + n * step) + self.even)
        return (size, 0, 0) if join < before + self.even + n * apart else stop

    def first(self, w, size):
        """A block beyond the buffer is cut where a stripe or a device block ends."""
        if size <= self.v.buffer:
            return size
        for unit in (self.v.stripe_bytes, self.v.block_bytes):
            if unit >= 1:
                end = _multiple(w.off, self.v.buffer, unit)
                if end > w.off:
                    return end - w.off
        return self.v.buffer


def _multiple(off, n, unit):
    end = off + min(n, _LARGEST - off)
    return end - end % unit
