"""Checks ckpt_view.py against the table of conform_test.go, which comes on standard
input; as "FILE WHO OF BLOCK BLOCKS ROUNDS" is one of several writers."""
import os
import sys
import time

import ckpt_view


def pattern(n, seed):
    return bytes((i * 7 + i // 251) & 255 ^ seed for i in range(n))


def hashed(p):
    h = 14695981039346656037
    for b in p:
        h = (h ^ b) * 1099511628211 & 2**64 - 1
    return h


def line(words, name):
    words = iter(words)
    kind = next(words)
    number = lambda: int(next(words))
    at, cell, first = number(), number(), number()
    try:
        if kind == "slices":
            shape = [number() for _ in range(first)]
            part = tuple((number(), number(), number()) for _ in range(first))
            v = ckpt_view.slices(at, cell, shape, part)
        else:
            blocks = [(number(), number()) for _ in range(number())]
            v = ckpt_view.View(at, blocks, cell, first)
    except ValueError:
        return "-2 0"
    v.rule, v.buffer, v.bytes_per_s, v.call_s = next(words), number(), number(), number() / 1e9
    v.stripe_bytes, v.block_bytes = number(), number()
    write = next(words) == "write"
    off, n, end = number(), number(), number()
    calls = []
    v.trace = lambda w, off, n: calls.append(" %s %d %d" % ("w" if w else "r", off, n))
    with open(name, "wb+", buffering=0) as f:
        f.write(pattern(end, 0))
        if write:
            try:
                got = v.write(f.fileno(), pattern(n, 0xA5), off)
            except ValueError:
                return "-1 0"
            f.seek(0)
            p = f.read()
        else:
            p = v.read(f.fileno(), n, off)
            got = len(p)
    return "%d %x%s" % (got, hashed(p), "".join(calls))


def writer(name, who, of, size, blocks, rounds):
    v = ckpt_view.View(who * size, [(size, (of - 1) * size)], 1, blocks)
    v.rule, v.buffer = "extent", 700
    v.trace = lambda write, off, n: write and time.sleep(0.0005)  # between read and write
    last = bytes(size * blocks)
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    print("ready", flush=True)
    sys.stdin.read()  # ends when all are ready
    for r in range(rounds):
        got = v.read(fd)
        if got != last[:len(got)]:
            sys.exit("round %d: the bytes of the round before are gone" % r)
        last = bytes([(1 + who + r * of) & 255]) * len(last)
        v.write(fd, last)
    if v.rewrites == 0:
        sys.exit("no write had a hole")


if len(sys.argv) > 2:
    writer(sys.argv[1], *map(int, sys.argv[2:]))
    sys.exit()
lines = wrong = 0
for text in sys.stdin:
    left, want = text.strip().split(" = ")
    got = line(left.split(), sys.argv[1])
    lines += 1
    if got != want:
        wrong += 1
        print("%s\n got %s\nwant %s" % (left, got, want))
os.unlink(sys.argv[1])
if not wrong:
    print("%d lines conform" % lines)
