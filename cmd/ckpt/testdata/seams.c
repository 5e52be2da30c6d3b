/* A ring of cells that mix with their neighbours. The result is exact, whatever died.
   usage: seams STEPS SEED */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "ckpt.h"

enum { CELLS = 500 };

static uint64_t mix(uint64_t a, uint64_t b, uint64_t c, uint64_t step)
{
	uint64_t x = a * 6364136223846793005u + b * 0x9E3779B97F4A7C15u + c * 0xD1B54A32D192ED03u + step;
	x ^= x >> 29;
	return x * 0xBF58476D1CE4E5B9u;
}

int main(int argc, char **argv)
{
	int rank, size;
	long steps = argc > 1 ? atol(argv[1]) : 100, seed = argc > 2 ? atol(argv[2]) : 1;
	static uint64_t u[CELLS + 2], next[CELLS + 2];
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int i = 1; i <= CELLS; i++)
		u[i] = mix(rank, i, seed, 0);
	ckpt_init(rank, size);
	ckpt_protect("u", u, sizeof u, CKPT_INT64);
	long step = ckpt_restore();
	if (step < 0) {
		fprintf(stderr, "restore: %s\n", ckpt_error());
		MPI_Abort(MPI_COMM_WORLD, 3);
	}
	int left = (rank + size - 1) % size, right = (rank + 1) % size;
	for (; step < steps; step++) {
		MPI_Sendrecv(u + CELLS, 1, MPI_UINT64_T, right, 0, u, 1, MPI_UINT64_T, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Sendrecv(u + 1, 1, MPI_UINT64_T, left, 1, u + CELLS + 1, 1, MPI_UINT64_T, right, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int i = 1; i <= CELLS; i++)
			next[i] = mix(u[i - 1], u[i], u[i + 1], step);
		for (int i = 1; i <= CELLS; i++)
			u[i] = next[i];
		usleep(2000);
		if (ckpt_boundary(step + 1) == CKPT_STOP) {
			ckpt_finalize();
			return MPI_Finalize();
		}
	}
	uint64_t mine = 0, all[4] = {0};
	for (int i = 1; i <= CELLS; i++)
		mine = mix(mine, u[i], rank, i);
	MPI_Reduce(&mine, all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
	for (int i = 1; i < 4; i++)
		all[i] = mix(all[i - 1], i, 0, 0);
	if (rank == 0) {
		printf("digest %016lx%016lx%016lx%016lx\n", all[0], all[1], all[2], all[3]);
		fflush(stdout);
	}
	ckpt_finalize();
	return MPI_Finalize();
}
