// MPI programs for the corpus (see make). Rank 0 prints what all moved:
// operation,count,bytes. Count is that of the calls of the program; MPI libraries turn
// them into other calls if they are collective.
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks;
static long long reads, writes, read_bytes, written_bytes;
static char *buffer;

static void check(int e, const char *what) {
	if (e == MPI_SUCCESS) return;
	fprintf(stderr, "%s failed\n", what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static MPI_File opened(const char *name, int mode) {
	MPI_File f;
	check(MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, &f), "open");
	return f;
}

static void wrote(long long bytes) { writes++, written_bytes += bytes; }
static void got(long long bytes) { reads++, read_bytes += bytes; }

// A block of n pieces for each rank, one behind the other.
static void collective(const char *name, long size, long n) {
	MPI_File f = opened(name, MPI_MODE_CREATE | MPI_MODE_WRONLY);
	for (long i = 0; i < n; i++) {
		check(MPI_File_write_at_all(f, ((long long)rank * n + i) * size, buffer, size, MPI_BYTE, MPI_STATUS_IGNORE), "write");
		wrote(size);
	}
	MPI_File_close(&f);
}

// The pieces of the ranks in turn, all with one collective call.
static void interleaved(const char *name, long size, long n, int write) {
	MPI_File f = opened(name, write ? MPI_MODE_CREATE | MPI_MODE_WRONLY : MPI_MODE_RDONLY);
	MPI_Datatype view;
	MPI_Type_vector(n, size, size * ranks, MPI_BYTE, &view);
	MPI_Type_commit(&view);
	check(MPI_File_set_view(f, (long long)rank * size, MPI_BYTE, view, "native", MPI_INFO_NULL), "view");
	if (write) {
		check(MPI_File_write_all(f, buffer, size * n, MPI_BYTE, MPI_STATUS_IGNORE), "write");
		wrote(size * n);
	} else {
		check(MPI_File_read_all(f, buffer, size * n, MPI_BYTE, MPI_STATUS_IGNORE), "read");
		got(size * n);
	}
	MPI_Type_free(&view);
	MPI_File_close(&f);
}

static void interleaved_write(const char *name, long size, long n) { interleaved(name, size, n, 1); }
static void interleaved_read(const char *name, long size, long n) { interleaved(name, size, n, 0); }

// A block of n pieces for each rank, each piece by itself.
static void independent(const char *name, long size, long n) {
	MPI_File f = opened(name, MPI_MODE_CREATE | MPI_MODE_WRONLY);
	for (long i = 0; i < n; i++) {
		check(MPI_File_write_at(f, ((long long)rank * n + i) * size, buffer, size, MPI_BYTE, MPI_STATUS_IGNORE), "write");
		wrote(size);
	}
	MPI_File_close(&f);
}

// The pieces of the ranks in turn, each by itself.
static void pieces(const char *name, long size, long n) {
	MPI_File f = opened(name, MPI_MODE_CREATE | MPI_MODE_WRONLY);
	for (long i = 0; i < n; i++) {
		check(MPI_File_write_at(f, ((long long)i * ranks + rank) * size, buffer, size, MPI_BYTE, MPI_STATUS_IGNORE), "write");
		wrote(size);
	}
	MPI_File_close(&f);
}

// Every rank reads all of the file.
static void same(const char *name, long size, long n) {
	MPI_File f = opened(name, MPI_MODE_RDONLY);
	for (long i = 0; i < n; i++) {
		check(MPI_File_read_at(f, (long long)i * size, buffer, size, MPI_BYTE, MPI_STATUS_IGNORE), "read");
		got(size);
	}
	MPI_File_close(&f);
}

// Rank 0 writes for all.
static void one(const char *name, long size, long n) {
	for (int r = 0; r < ranks; r++) {
		if (rank == 0 && r > 0) MPI_Recv(buffer, 1, MPI_BYTE, r, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank == r && r > 0) MPI_Send(buffer, 1, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
	}
	if (rank == 0) {
		int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
		for (long i = 0; i < n * ranks; i++) {
			if (write(fd, buffer, size) != size) MPI_Abort(MPI_COMM_WORLD, 1);
			wrote(size);
		}
		close(fd);
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

// A file for each rank.
static void own(const char *name, long size, long n) {
	char mine[4096];
	snprintf(mine, sizeof mine, "%s.%d", name, rank);
	int fd = open(mine, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	for (long i = 0; i < n; i++) {
		if (write(fd, buffer, size) != size) MPI_Abort(MPI_COMM_WORLD, 1);
		wrote(size);
	}
	close(fd);
}

int main(int argc, char **argv) {
	struct { const char *name; void (*run)(const char *, long, long); } all[] = {
		{"collective", collective}, {"interleaved", interleaved_write}, {"interleaved-read", interleaved_read},
		{"independent", independent}, {"pieces", pieces}, {"same", same}, {"one", one}, {"own", own},
	};
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc != 5) MPI_Abort(MPI_COMM_WORLD, 2);
	long size = atol(argv[3]), n = atol(argv[4]);
	buffer = calloc(size, n);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!strcmp(argv[1], all[i].name)) all[i].run(argv[2], size, n);
	long long mine[4] = {reads, read_bytes, writes, written_bytes}, sum[4];
	MPI_Reduce(mine, sum, 4, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0 && sum[0]) printf("read,%lld,%lld\n", sum[0], sum[1]);
	if (rank == 0 && sum[2]) printf("write,%lld,%lld\n", sum[2], sum[3]);
	free(buffer);
	MPI_Finalize();
	return 0;
}
