/* What checkpoints cost a program, beside what it could do by itself.
 *
 *     mpicc -O2 bench.c -o bench
 *     ckpt launch --codec none -- mpiexec -n 8 ./bench 128 [DIR]
 *
 * Each rank has so many MiB of memory that no codec can pack. All times are of one
 * run, so that their ratios say more than any of them: the slowest rank counts, and
 * the median of several rounds. Files of comparison go to DIR and are removed.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include "ckpt.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 5, BOUNDARIES = 200000, BARRIERS = 2000, CHUNK = 4 << 20 };

static int rank, size;
static long step, changes;
static char path[4096];
static unsigned char *mem, *copy;
static size_t bytes;

static void fail(const char *what) {
    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* xorshift64: nothing that a codec could pack. */
static void fill(unsigned char *p, size_t n, unsigned long seed) {
    unsigned long x = seed * 2654435761u + 88172645463325252u;
    for (size_t i = 0; i + 8 <= n; i += 8) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        memcpy(p + i, &x, 8);
    }
}

/* The ways to be measured. */
static void change(void) { fill(mem, bytes, (unsigned long)(++changes * size + rank)); }

static void change_some(void) { /* a hundredth, in one piece that moves */
    size_t part = bytes / 100, at = (size_t)(++changes) * part % (bytes - part);
    fill(mem + at, part, (unsigned long)(changes * size + rank));
}

static void rewrite(void) { memset(mem, (int)++changes, bytes); }

static void by_memcpy(void) { memcpy(copy, mem, bytes); }

static void by_stdio(void) {
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(mem, 1, bytes, f) != bytes || fflush(f) != 0 || fsync(fileno(f)) != 0 || fclose(f) != 0) fail(path);
}

static void direct(void) { /* what the disk can do */
    int f = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT, 0600);
    if (f < 0) f = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (f < 0) fail(path);
    for (size_t i = 0; i < bytes; i += CHUNK)
        if (write(f, mem + i, bytes - i < CHUNK ? bytes - i : CHUNK) < 0) fail(path);
    if (fsync(f) != 0 || close(f) != 0) fail(path);
}

static void by_save(void) {
    int status = ckpt_save(++step);
    if (status < 0) fprintf(stderr, "rank %d: %s\n", rank, ckpt_error());
}

static void and_wait(void) { ckpt_wait(); }

static void save_changed(void) {
    change();
    by_save();
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The time of a way on the slowest rank. */
static double slowest(void (*way)(void)) {
    double began, took, most;
    MPI_Barrier(MPI_COMM_WORLD);
    began = MPI_Wtime();
    way();
    took = MPI_Wtime() - began;
    MPI_Allreduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

/* The median over rounds, with what is to be done before and after each. */
static double median(void (*before)(void), void (*way)(void), void (*after)(void)) {
    double times[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        if (before) before();
        times[i] = slowest(way);
        if (after) after();
    }
    qsort(times, ROUNDS, sizeof *times, ascending);
    return times[ROUNDS / 2];
}

static void line(const char *what, double seconds, double all) {
    if (rank == 0) printf("%-34s %10.1f ms %10.0f MiB/s\n", what, 1e3 * seconds, all / seconds / (1 << 20));
}

static void boundaries(void) {
    for (int i = 0; i < BOUNDARIES; i++) ckpt_boundary(++step);
}

static void barriers(void) {
    for (int i = 0; i < BARRIERS; i++) MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    bytes = (size_t)(argc > 1 ? atol(argv[1]) : 16) << 20;
    snprintf(path, sizeof path, "%s/ckpt-bench-%d", argc > 2 ? argv[2] : ".", rank);
    if (posix_memalign((void **)&mem, 4096, bytes) != 0 || posix_memalign((void **)&copy, 4096, bytes) != 0) fail("memory");
    change();
    memset(copy, 1, bytes);

    ckpt_init(rank, size);
    ckpt_protect("mem", mem, bytes, CKPT_BYTES);
    step = ckpt_restore();
    double all = (double)bytes * size;

    double each = slowest(boundaries) / BOUNDARIES, barrier = slowest(barriers) / BARRIERS;
    if (rank == 0) printf("ckpt_boundary, nothing due %21.3f us\nMPI_Barrier %36.3f us\n", 1e6 * each, 1e6 * barrier);
    line("memcpy", median(change, by_memcpy, NULL), all);
    line("direct writes and fsync", median(NULL, direct, NULL), all);
    line("fwrite and fsync", median(NULL, by_stdio, NULL), all);
    unlink(path);
    by_save(); /* the first one finds the ways to take memory */
    and_wait();
    line("ckpt_save, everything changed", median(change, by_save, and_wait), all);
    line("ckpt_save, 1 % changed", median(change_some, by_save, and_wait), all);
    change();
    line("rewriting everything", median(NULL, rewrite, NULL), all);
    line("rewriting it right after ckpt_save", median(save_changed, rewrite, and_wait), all);

    ckpt_finalize();
    free(mem);
    free(copy);
    return MPI_Finalize();
}
