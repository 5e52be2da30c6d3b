"""The heat equation on a square of SIZE x SIZE cells.

    mpiexec -n 4 python3 heat.py SIZE STEPS [FILE]

Each rank has a block of rows, and a halo row above and below it. The upper
edge is hot. The final field goes to FILE (heat.out): SIZE x SIZE doubles.
"""
import sys

import ckpt
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size


def start(n):
    """Return the field of this rank; its edges are the halo and the cold edges."""
    first, last = n * rank // size, n * (rank + 1) // size
    u = np.zeros((last - first + 2, n + 2))
    i, j = np.ogrid[first + 1:last + 1, 1:n + 1]
    u[1:-1, 1:-1] = (i * 31 + j * 17) % 101 / 101
    if rank == 0:
        u[0, 1:-1] = 1
    return u


def exchange(u):
    up = rank - 1 if rank > 0 else MPI.PROC_NULL
    down = rank + 1 if rank < size - 1 else MPI.PROC_NULL
    world.Sendrecv(u[1], up, 0, u[-1], down, 0)
    world.Sendrecv(u[-2], down, 1, u[0], up, 1)


def relax(u):
    """Take one step of Jacobi's method and return the largest change of a cell."""
    v = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    change = np.max(np.abs(v - u[1:-1, 1:-1]), initial=0)
    u[1:-1, 1:-1] = v
    return change


def report(step, change):
    largest = world.allreduce(change, MPI.MAX)
    if rank == 0:
        print(f"step {step}: largest change {largest:.6e}", flush=True)


def write_field(path, u):
    """Rank 0 writes its rows, then those of the others in order."""
    blocks = np.ascontiguousarray(u[1:-1, 1:-1])
    if rank > 0:
        world.send(blocks, 0, 2)
        return
    with open(path, "wb") as file:
        file.write(blocks)
        for other in range(1, size):
            file.write(world.recv(source=other, tag=2))


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: heat.py SIZE STEPS [FILE]")
    n, steps = int(sys.argv[1]), int(sys.argv[2])
    u = start(n)
    ckpt.init(rank, size)
    ckpt.protect_global("u", u, shape=(n, n), first=(n * rank // size, 0), halo=(1, 1))
    for step in range(ckpt.restore(), steps):
        exchange(u)
        change = relax(u)
        if (step + 1) % 100 == 0:
            report(step + 1, change)
        if ckpt.boundary(step + 1) == ckpt.STOP:
            return ckpt.finalize()
    write_field(sys.argv[3] if len(sys.argv) > 3 else "heat.out", u)
    ckpt.finalize()  # not before the result is safe: nothing restarts after it


main()
