/*
 * ckpt_pmpi counts the messages of an MPI program, so that ckpt can predict what groups of
 * ranks would log (ckpt predict fit --messages). It needs no change of the program:
 *
 *     mpicc -O2 -shared -fPIC ckpt_pmpi.c -o libckpt_pmpi.so
 *     LD_PRELOAD=$PWD/libckpt_pmpi.so CKPT_MESSAGES=messages mpiexec -n 8 ./program
 *
 * or compile it with the program. Each rank writes messages/RANK.csv when it calls
 * MPI_Finalize: a line with the ranks, the seconds and the steps of the run, and one for each
 * rank that it has sent to. MPI_Pcontrol(1) ends a step; a program without it is one step.
 *
 * Collective operations count as the messages of the usual algorithms: a binomial tree, recursive
 * doubling, or one message to each rank.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static long long *sent, *bytes, any_source, steps;
static int me, size;
static double began;

static void begin(void)
{
	PMPI_Comm_rank(MPI_COMM_WORLD, &me);
	PMPI_Comm_size(MPI_COMM_WORLD, &size);
	sent = calloc(2 * (size_t)size, sizeof *sent);
	bytes = sent + size;
	began = PMPI_Wtime();
}

/* The rank in MPI_COMM_WORLD of a rank of another communicator; -1 if there is none. */
static int world(int rank, MPI_Comm comm)
{
	MPI_Group all, part;
	int is = -1, inter = 0;
	if (rank < 0 || comm == MPI_COMM_WORLD)
		return rank;
	PMPI_Comm_test_inter(comm, &inter);
	if (inter)
		PMPI_Comm_remote_group(comm, &part);
	else
		PMPI_Comm_group(comm, &part);
	PMPI_Comm_group(MPI_COMM_WORLD, &all);
	PMPI_Group_translate_ranks(part, 1, &rank, all, &is);
	PMPI_Group_free(&part);
	PMPI_Group_free(&all);
	return is;
}

static long long length(int count, MPI_Datatype type)
{
	int n = 0;
	PMPI_Type_size(type, &n);
	return (long long)count * n;
}

static void count(int to, long long n, MPI_Comm comm)
{
	to = world(to, comm);
	if (sent == NULL || to < 0 || to >= size)
		return;
	sent[to]++;
	bytes[to] += n;
}

/* A rank sends to each other one, in a binomial tree from root, or to its partners of recursive
 * doubling. */
static void to_all(long long n, MPI_Comm comm)
{
	int r, k, np;
	PMPI_Comm_rank(comm, &r);
	PMPI_Comm_size(comm, &np);
	for (k = 0; k < np; k++)
		if (k != r)
			count(k, n, comm);
}

static void tree(long long n, int root, int down, MPI_Comm comm)
{
	int r, k, np, at;
	PMPI_Comm_rank(comm, &r);
	PMPI_Comm_size(comm, &np);
	at = (r - root + np) % np;
	for (k = 1; k < np; k <<= 1) {
		if (down && at < k && at + k < np)
			count((at + k + root) % np, n, comm);
		if (!down && at & k) {
			count((at - k + root) % np, n, comm);
			return;
		}
	}
}

static void doubling(long long n, int grows, MPI_Comm comm)
{
	int r, k, np;
	PMPI_Comm_rank(comm, &r);
	PMPI_Comm_size(comm, &np);
	for (k = 1; k < np; k <<= 1, n *= grows ? 2 : 1)
		if ((r ^ k) < np)
			count(r ^ k, n, comm);
}

int MPI_Init(int *argc, char ***argv)
{
	int status = PMPI_Init(argc, argv);
	begin();
	return status;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	int status = PMPI_Init_thread(argc, argv, required, provided);
	begin();
	return status;
}

int MPI_Pcontrol(const int level, ...)
{
	steps += level > 0;
	return MPI_SUCCESS;
}

#define SEND(name) \
	int name(const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c) \
	{ count(to, length(n, t), c); return P##name(b, n, t, to, tag, c); }
#define ISEND(name) \
	int name(const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r) \
	{ count(to, length(n, t), c); return P##name(b, n, t, to, tag, c, r); }
SEND(MPI_Send)
SEND(MPI_Ssend)
SEND(MPI_Rsend)
SEND(MPI_Bsend)
ISEND(MPI_Isend)
ISEND(MPI_Issend)
ISEND(MPI_Irsend)
ISEND(MPI_Ibsend)

int MPI_Sendrecv(const void *b, int n, MPI_Datatype t, int to, int tag, void *in, int m, MPI_Datatype u, int from, int itag, MPI_Comm c, MPI_Status *s)
{
	count(to, length(n, t), c);
	any_source += from == MPI_ANY_SOURCE;
	return PMPI_Sendrecv(b, n, t, to, tag, in, m, u, from, itag, c, s);
}

int MPI_Recv(void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status *s)
{
	any_source += from == MPI_ANY_SOURCE;
	return PMPI_Recv(b, n, t, from, tag, c, s);
}

int MPI_Irecv(void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *r)
{
	any_source += from == MPI_ANY_SOURCE;
	return PMPI_Irecv(b, n, t, from, tag, c, r);
}

int MPI_Barrier(MPI_Comm c)
{
	doubling(0, 0, c);
	return PMPI_Barrier(c);
}

int MPI_Bcast(void *b, int n, MPI_Datatype t, int root, MPI_Comm c)
{
	tree(length(n, t), root, 1, c);
	return PMPI_Bcast(b, n, t, root, c);
}

int MPI_Reduce(const void *b, void *out, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm c)
{
	tree(length(n, t), root, 0, c);
	return PMPI_Reduce(b, out, n, t, op, root, c);
}

int MPI_Allreduce(const void *b, void *out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c)
{
	doubling(length(n, t), 0, c);
	return PMPI_Allreduce(b, out, n, t, op, c);
}

int MPI_Allgather(const void *b, int n, MPI_Datatype t, void *out, int m, MPI_Datatype u, MPI_Comm c)
{
	doubling(length(m, u), 1, c);
	return PMPI_Allgather(b, n, t, out, m, u, c);
}

int MPI_Alltoall(const void *b, int n, MPI_Datatype t, void *out, int m, MPI_Datatype u, MPI_Comm c)
{
	to_all(length(m, u), c);
	return PMPI_Alltoall(b, n, t, out, m, u, c);
}

int MPI_Gather(const void *b, int n, MPI_Datatype t, void *out, int m, MPI_Datatype u, int root, MPI_Comm c)
{
	int r;
	PMPI_Comm_rank(c, &r);
	if (r != root)
		count(root, length(n, t), c);
	return PMPI_Gather(b, n, t, out, m, u, root, c);
}

int MPI_Scatter(const void *b, int n, MPI_Datatype t, void *out, int m, MPI_Datatype u, int root, MPI_Comm c)
{
	int r;
	PMPI_Comm_rank(c, &r);
	if (r == root)
		to_all(length(n, t), c);
	return PMPI_Scatter(b, n, t, out, m, u, root, c);
}

static void report(void)
{
	const char *dir = getenv("CKPT_MESSAGES");
	char name[4096];
	FILE *f;
	int to;
	if (sent == NULL)
		return;
	dir = dir != NULL && *dir ? dir : "messages";
	mkdir(dir, 0777);
	if (snprintf(name, sizeof name, "%s/%d.csv", dir, me) >= (int)sizeof name || (f = fopen(name, "w")) == NULL) {
		perror(dir);
		return;
	}
	fprintf(f, "ranks,seconds,steps,any_source\n%d,%.6f,%lld,%lld\nto,messages,bytes\n", size, PMPI_Wtime() - began, steps, any_source);
	for (to = 0; to < size; to++)
		if (sent[to] > 0)
			fprintf(f, "%d,%lld,%lld\n", to, sent[to], bytes[to]);
	if (fclose(f) != 0)
		perror(name);
}

int MPI_Finalize(void)
{
	report();
	return PMPI_Finalize();
}
