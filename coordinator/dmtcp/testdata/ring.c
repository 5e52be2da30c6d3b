/* A program that knows nothing of checkpoints: with -DMPI its ranks pass sums around. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#ifdef MPI
#include <mpi.h>
#endif

int main(int argc, char **argv) {
    int rank = 0, size = 1;
#ifdef MPI
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
#endif
    long steps = argc > 1 ? atol(argv[1]) : 100;
    size_t n = 1 << 18;
    double *a = malloc(n * sizeof *a), sum = rank;
    for (size_t i = 0; i < n; i++)
        a[i] = (double)i + rank;
    for (long it = 1; it <= steps; it++) {
        for (size_t i = it % 7; i < n; i += 7)
            a[i] = a[i] * 1.0000001 + it;
        double got = a[(it * 31) % n];
#ifdef MPI
        double mine = got;
        MPI_Sendrecv(&mine, 1, MPI_DOUBLE, (rank + 1) % size, 5, &got, 1, MPI_DOUBLE, (rank + size - 1) % size, 5,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allreduce(MPI_IN_PLACE, &got, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
#endif
        sum = sum * 0.5 + got;
        if (rank == 0) {
            printf("%ld\n", it);
            fflush(stdout);
        }
        struct timespec t = {0, 20 * 1000 * 1000};
        nanosleep(&t, 0);
    }
    if (rank == 0)
        printf("sum %.17g\n", sum);
#ifdef MPI
    MPI_Finalize();
#endif
    return 0;
}
