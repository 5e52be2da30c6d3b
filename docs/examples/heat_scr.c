/* The heat equation on a square of SIZE x SIZE cells, with checkpoints by SCR's
 * interface: a file of each rank. It is an ordinary program for SCR.
 *
 *     mpicc heat_veloc.c -o heat && mpiexec -n 4 ./heat SIZE STEPS [FILE]
 *
 * Each rank has a block of rows, and a halo row above and below it. The upper
 * edge is hot. The final field goes to FILE (heat.out): SIZE x SIZE doubles.
 */
#include <mpi.h>
#include <scr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
static long n, rows, first_row;

static double *row(double *u, long i) { return u + i * (n + 2); }

/* Row 0 and row rows + 1 are the halo; columns 0 and n + 1 are the cold edges. */
static void fill(double *u) {
    memset(u, 0, (size_t)(rows + 2) * (size_t)(n + 2) * sizeof *u);
    for (long i = 1; i <= rows; i++)
        for (long j = 1; j <= n; j++)
            row(u, i)[j] = (double)(((first_row + i) * 31 + j * 17) % 101) / 101.0;
    if (rank == 0)
        for (long j = 1; j <= n; j++) row(u, 0)[j] = 1.0;
}

static void exchange(double *u) {
    int up = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    int down = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    int width = (int)n + 2;
    MPI_Sendrecv(row(u, 1), width, MPI_DOUBLE, up, 0, row(u, rows + 1), width, MPI_DOUBLE, down, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(row(u, rows), width, MPI_DOUBLE, down, 1, row(u, 0), width, MPI_DOUBLE, up, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* One step of Jacobi's method. It returns the largest change of a cell. */
static double relax(double *u, double *v) {
    double change = 0;
    for (long i = 1; i <= rows; i++) {
        const double *above = row(u, i - 1), *here = row(u, i), *below = row(u, i + 1);
        for (long j = 1; j <= n; j++) {
            double next = 0.25 * (above[j] + below[j] + here[j - 1] + here[j + 1]);
            double d = next > here[j] ? next - here[j] : here[j] - next;
            if (d > change) change = d;
            row(v, i)[j] = next;
        }
    }
    for (long i = 1; i <= rows; i++) memcpy(row(u, i) + 1, row(v, i) + 1, (size_t)n * sizeof *u);
    return change;
}

static void report(long step, double change) {
    double largest = 0;
    MPI_Allreduce(&change, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0) printf("step %ld: largest change %.6e\n", step, largest);
    if (rank == 0) fflush(stdout);
}

/* Rank 0 writes its rows, then those of the others in order. */
static int write_field(const char *path, double *u, double *v) {
    if (rank > 0) {
        for (long i = 1; i <= rows; i++)
            MPI_Send(row(u, i) + 1, (int)n, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD);
        return 0;
    }
    FILE *f = fopen(path, "wb");
    if (f == NULL) return perror(path), 1;
    for (long i = 1; i <= rows; i++) fwrite(row(u, i) + 1, sizeof *u, (size_t)n, f);
    for (int r = 1; r < size; r++)
        for (long i = n * r / size; i < n * (r + 1) / size; i++) {
            MPI_Recv(v, (int)n, MPI_DOUBLE, r, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            fwrite(v, sizeof *v, (size_t)n, f);
        }
    if (fclose(f) != 0) return perror(path), 1;
    return 0;
}

/* The file of this rank in a checkpoint. */
static FILE *checkpoint_file(const char *dataset, const char *mode) {
    char name[SCR_MAX_FILENAME], path[SCR_MAX_FILENAME];
    snprintf(name, sizeof name, "%.200s/rank_%d", dataset, rank);
    return SCR_Route_file(name, path) == SCR_SUCCESS ? fopen(path, mode) : NULL;
}

static int write_checkpoint(long step, const double *u, size_t bytes) {
    char dataset[64];
    snprintf(dataset, sizeof dataset, "step_%ld", step);
    SCR_Start_output(dataset, SCR_FLAG_CHECKPOINT);
    FILE *f = checkpoint_file(dataset, "wb");
    int good = f != NULL && fwrite(&step, sizeof step, 1, f) == 1 && fwrite(u, 1, bytes, f) == bytes;
    if (f != NULL && fclose(f) != 0) good = 0;
    return SCR_Complete_output(good) == SCR_SUCCESS;
}

/* Read the newest checkpoint, if there is one. */
static int read_checkpoint(long *step, double *u, size_t bytes) {
    char dataset[SCR_MAX_FILENAME];
    int flag = 0;
    SCR_Have_restart(&flag, dataset);
    if (!flag) return 1;
    SCR_Start_restart(dataset);
    FILE *f = checkpoint_file(dataset, "rb");
    int good = f != NULL && fread(step, sizeof *step, 1, f) == 1 && fread(u, 1, bytes, f) == bytes;
    if (f != NULL) fclose(f);
    return SCR_Complete_restart(good) == SCR_SUCCESS;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3) {
        if (rank == 0) fprintf(stderr, "usage: heat SIZE STEPS [FILE]\n");
        MPI_Finalize();
        return 2;
    }
    n = atol(argv[1]);
    long steps = atol(argv[2]);
    first_row = n * rank / size;
    rows = n * (rank + 1) / size - first_row;

    size_t bytes = (size_t)(rows + 2) * (size_t)(n + 2) * sizeof(double);
    double *u = malloc(bytes), *v = malloc(bytes);
    if (u == NULL || v == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    fill(u);

    long step = 0;
    if (SCR_Init() != SCR_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 2);
    if (!read_checkpoint(&step, u, bytes)) MPI_Abort(MPI_COMM_WORLD, 2);
    while (step < steps) {
        exchange(u);
        double change = relax(u, v);
        if (++step % 100 == 0) report(step, change);
        int flag = 0;
        SCR_Need_checkpoint(&flag);
        if (flag && !write_checkpoint(step, u, bytes) && rank == 0) fprintf(stderr, "checkpoint %ld failed\n", step);
        SCR_Should_exit(&flag);
        if (flag) return SCR_Finalize(), MPI_Finalize();
    }

    int failed = write_field(argc > 3 ? argv[3] : "heat.out", u, v);
    SCR_Finalize();
    free(u);
    free(v);
    MPI_Finalize();
    return failed;
}
