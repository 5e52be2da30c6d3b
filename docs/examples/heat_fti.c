/* The heat equation on a square of SIZE x SIZE cells, with checkpoints by FTI's basic
 * interface. It is an ordinary program for FTI: the configuration says how often.
 *
 *     mpicc heat_veloc.c -o heat && mpiexec -n 4 ./heat SIZE STEPS [FILE]
 *
 * Each rank has a block of rows, and a halo row above and below it. The upper
 * edge is hot. The final field goes to FILE (heat.out): SIZE x SIZE doubles.
 */
#include <fti.h>
#include <mpi.h>
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
                 FTI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(row(u, rows), width, MPI_DOUBLE, down, 1, row(u, 0), width, MPI_DOUBLE, up, 1,
                 FTI_COMM_WORLD, MPI_STATUS_IGNORE);
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
    MPI_Allreduce(&change, &largest, 1, MPI_DOUBLE, MPI_MAX, FTI_COMM_WORLD);
    if (rank == 0) printf("step %ld: largest change %.6e\n", step, largest);
    if (rank == 0) fflush(stdout);
}

/* Rank 0 writes its rows, then those of the others in order. */
static int write_field(const char *path, double *u, double *v) {
    if (rank > 0) {
        for (long i = 1; i <= rows; i++)
            MPI_Send(row(u, i) + 1, (int)n, MPI_DOUBLE, 0, 2, FTI_COMM_WORLD);
        return 0;
    }
    FILE *f = fopen(path, "wb");
    if (f == NULL) return perror(path), 1;
    for (long i = 1; i <= rows; i++) fwrite(row(u, i) + 1, sizeof *u, (size_t)n, f);
    for (int r = 1; r < size; r++)
        for (long i = n * r / size; i < n * (r + 1) / size; i++) {
            MPI_Recv(v, (int)n, MPI_DOUBLE, r, 2, FTI_COMM_WORLD, MPI_STATUS_IGNORE);
            fwrite(v, sizeof *v, (size_t)n, f);
        }
    if (fclose(f) != 0) return perror(path), 1;
    return 0;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    if (FTI_Init("config.fti", MPI_COMM_WORLD) != FTI_SCES) MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_rank(FTI_COMM_WORLD, &rank);
    MPI_Comm_size(FTI_COMM_WORLD, &size);
    if (argc < 3) {
        if (rank == 0) fprintf(stderr, "usage: heat SIZE STEPS [FILE]\n");
        FTI_Finalize();
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

    int step = 0;
    FTI_Protect(0, &step, 1, FTI_INTG);
    FTI_Protect(1, u, (int64_t)(bytes / sizeof *u), FTI_DBLE);
    for (; step < steps; step++) {
        FTI_Snapshot(); /* a restart continues here */
        exchange(u);
        double change = relax(u, v);
        if ((step + 1) % 100 == 0) report(step + 1, change);
    }

    int failed = write_field(argc > 3 ? argv[3] : "heat.out", u, v);
    FTI_Finalize();
    free(u);
    free(v);
    MPI_Finalize();
    return failed;
}
