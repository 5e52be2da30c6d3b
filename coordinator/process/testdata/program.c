/*
 * A program that does what the test tells it, one command a line:
 *     init RANK SIZE | protect NAME BYTES TYPE | fill NAME SEED | write NAME OFFSET BYTES VALUE | …
 * Each command is answered by a line: the result, then the text of ckpt_error.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for mremap; the header needs nothing of it */
#endif
#include "program.h"
#include <pthread.h>
#include <time.h>

enum { HUGE_PAGE = 2 << 20 };

struct array {
	char name[64];
	unsigned char *mem;
	size_t bytes;
	int allocated; /* by ckpt_alloc */
} arrays[64];

static struct array *find(const char *name)
{
	int i, free_one = -1;
	for (i = 63; i >= 0; i--) {
		if (strcmp(arrays[i].name, name) == 0)
			return &arrays[i];
		if (arrays[i].name[0] == 0)
			free_one = i;
	}
	strcpy(arrays[free_one].name, name);
	return &arrays[free_one];
}

static void fill(struct array *a, unsigned seed)
{
	size_t i;
	for (i = 0; i < a->bytes; i++) {
		seed = seed * 1664525u + 1013904223u;
		a->mem[i] = (unsigned char)(seed >> 24);
	}
}

static unsigned long sum(const struct array *a)
{
	unsigned long h = 14695981039346656037ul;
	size_t i;
	for (i = 0; i < a->bytes; i++)
		h = (h ^ a->mem[i]) * 1099511628211ul;
	return h;
}

struct part {
	struct array *array;
	size_t from, to;
	unsigned seed;
};

static void *write_part(void *p)
{
	const struct part *part = (const struct part *)p;
	size_t i;
	unsigned seed = part->seed;
	for (i = part->from; i < part->to; i += 1 + (seed >> 18)) { /* a byte in each few pages */
		seed = seed * 1664525u + 1013904223u;
		part->array->mem[i] = (unsigned char)(seed >> 24);
	}
	return NULL;
}

/* in_threads has four threads write here and there at the same time. */
static long long in_threads(struct array *v, unsigned seed)
{
	pthread_t threads[4];
	struct part parts[4];
	size_t i;
	for (i = 0; i < 4; i++) {
		parts[i].array = v;
		parts[i].from = v->bytes / 4 * i;
		parts[i].to = i == 3 ? v->bytes : v->bytes / 4 * (i + 1);
		parts[i].seed = seed + (unsigned)i;
		if (pthread_create(&threads[i], NULL, write_part, &parts[i]) != 0)
			return -1;
	}
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

/* map_array maps memory by itself; of huge pages if asked to. */
static void map_array(struct array *v, size_t bytes, int huge)
{
	char *mem = (char *)mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (huge) {
		mem = (char *)(((uintptr_t)mem + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
		madvise(mem, bytes, MADV_HUGEPAGE);
	}
	v->mem = (unsigned char *)mem;
	v->bytes = bytes;
}

/* change does to an array what programs do to memory. */
static long long change(const char *command, struct array *v, long a, long b, long c)
{
	if (strcmp(command, "readin") == 0) { /* the kernel writes */
		int ends[2];
		long n, done = 0;
		char text[4096];
		if (pipe(ends) != 0)
			return -1;
		memset(text, (int)c, sizeof text);
		while (done < b) {
			n = b - done < 4096 ? b - done : 4096;
			if (write(ends[1], text, (size_t)n) != n || read(ends[0], v->mem + a + done, (size_t)n) != n)
				return -1;
			done += n;
		}
		close(ends[0]);
		close(ends[1]);
		return 0;
	}
	if (strcmp(command, "threads") == 0)
		return in_threads(v, (unsigned)a);
	if (strcmp(command, "dontneed") == 0)
		return madvise(v->mem + a, (size_t)b, MADV_DONTNEED);
	if (strcmp(command, "advise") == 0) /* a: the advice */
		return madvise(v->mem, v->bytes, (int)a);
	if (strcmp(command, "unmap") == 0)
		return munmap(v->mem + a, (size_t)b);
	if (strcmp(command, "forbid") == 0)
		return mprotect(v->mem + a, (size_t)b, PROT_NONE);
	if (strcmp(command, "remap") == 0) /* other memory at the same address */
		return munmap(v->mem + a, (size_t)b) != 0 ||
		       mmap(v->mem + a, (size_t)b, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED;
	if (strcmp(command, "mremap") == 0) { /* moved, and back: the same address again */
		void *other = mmap(NULL, v->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		other = mremap(v->mem, v->bytes, v->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, other);
		if (other == MAP_FAILED) /* after remap the kernel may not move it as a whole */
			return 0;
		memset((char *)other + a, (int)c, (size_t)b);
		return mremap(other, v->bytes, v->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, v->mem) == MAP_FAILED;
	}
	if (strcmp(command, "realloc") == 0) {
		v->mem = (unsigned char *)realloc(v->mem, (size_t)a);
		if (v->bytes < (size_t)a)
			memset(v->mem + v->bytes, (int)c, (size_t)a - v->bytes);
		v->bytes = (size_t)a;
		return ckpt_protect(v->name, v->mem, v->bytes, CKPT_BYTES);
	}
	if (strcmp(command, "child") == 0) { /* copies on write, on both sides */
		int status = 0;
		pid_t child = fork();
		if (child == 0) {
			memset(v->mem + a, (int)c, (size_t)b);
			_exit(0);
		}
		memset(v->mem + a, (int)c + 1, (size_t)b);
		waitpid(child, &status, 0);
		return status;
	}
	return -98;
}

static void progress(void)
{
	static int once;
	if (!once++)
		fprintf(stderr, "progress\n");
}

/* share protects parts of arrays of all ranks, of a rows, from row b on, c of them. */
static long long share(const char *command, struct array *v, long a, long b, long c)
{
	struct ckpt_global part;
	memset(&part, 0, sizeof part);
	part.dims = 2;
	part.shape[0] = a;
	part.first[0] = b;
	part.count[0] = c;
	part.halo[0] = 1;
	part.shape[1] = part.count[1] = 5;
	v->bytes = (size_t)(c + 2) * 5 * 16; /* two values a cell */
	if (strcmp(command, "columns") == 0)
		part.order = CKPT_COLUMN_MAJOR;
	if (strcmp(command, "dealt") == 0) { /* in blocks of b, at place c of 3 */
		if (ckpt_deal(&part, 0, a, b, 3, (int)c) != CKPT_OK)
			return CKPT_ARGUMENT;
		v->bytes = (size_t)part.count[0] * 5 * 16;
	}
	if (strcmp(command, "uneven") == 0)
		v->bytes -= 8;
	v->mem = (unsigned char *)calloc(1, v->bytes + 1);
	return ckpt_protect_global(v->name, v->mem, v->bytes, CKPT_FLOAT64, &part);
}

static long long run(const char *command, char *name, long a, long b, long c)
{
	struct array *v;
	if (strcmp(command, "init") == 0)
		return ckpt_init((int)a, (int)b);
	if (strcmp(command, "restore") == 0)
		return ckpt_restore();
	if (strcmp(command, "boundary") == 0)
		return ckpt_boundary(a);
	if (strcmp(command, "boundaries") == 0) {
		long i;
		for (i = 0; i < a; i++)
			if (ckpt_boundary(i) != CKPT_OK)
				return i;
		return a;
	}
	if (strcmp(command, "save") == 0)
		return ckpt_save(a);
	if (strcmp(command, "wait") == 0)
		return ckpt_wait();
	if (strcmp(command, "query") == 0)
		return ckpt_query(name);
	if (strcmp(command, "forget") == 0)
		return ckpt_forget(name);
	if (strcmp(command, "finalize") == 0)
		return ckpt_finalize();
	if (strcmp(command, "other") == 0)
		return from_the_other_file();
	if (strcmp(command, "progress") == 0) {
		ckpt_progress(progress);
		return 0;
	}
	if (strcmp(command, "fork") == 0) { /* a child that calls as if it were the rank */
		int status = -1;
		pid_t child = fork();
		if (child == 0)
			_exit(ckpt_boundary(1) == CKPT_OK ? 42 : 1);
		waitpid(child, &status, 0);
		return status >> 8;
	}
	if (strcmp(command, "children") == 0)
		return waitpid(-1, NULL, 0) < 0 && errno == ECHILD ? 0 : 1;
	v = find(name);
	if (strcmp(command, "alloc") == 0) {
		v->mem = (unsigned char *)ckpt_alloc(name, (size_t)a, (int)b);
		v->bytes = (size_t)a;
		return v->mem == NULL ? -1 : 0;
	}
	if (strcmp(command, "protect") == 0) { /* one byte off, as malloc may be */
		v->mem = (unsigned char *)malloc((size_t)a + 1);
		v->mem++;
		v->bytes = (size_t)a;
		return ckpt_protect(name, v->mem, v->bytes, (int)b);
	}
	if (strcmp(command, "map") == 0) {
		map_array(v, (size_t)a, (int)b);
		return ckpt_protect(name, v->mem, v->bytes, CKPT_BYTES);
	}
	if (strcmp(command, "heap") == 0) {
		v->mem = (unsigned char *)calloc(1, (size_t)a);
		v->bytes = (size_t)a;
		return ckpt_protect(name, v->mem, v->bytes, CKPT_BYTES);
	}
	if (strcmp(command, "release") == 0) { /* b: by free */
		int status = ckpt_forget(name);
		if (b)
			free(v->mem);
		else
			munmap(v->mem, v->bytes);
		v->name[0] = 0;
		return status;
	}
	if (strcmp(command, "many") == 0) { /* a regions of 1 to b bytes in one piece of memory */
		long i;
		v->bytes = (size_t)(a * b);
		v->mem = (unsigned char *)malloc(v->bytes);
		for (i = 0; i < a; i++) {
			char one[80];
			sprintf(one, "%s-%ld", name, i);
			if (ckpt_protect(one, v->mem + i * b, (size_t)(i % b + 1), CKPT_BYTES) != CKPT_OK)
				return -1;
		}
		return 0;
	}
	if (strcmp(command, "split") == 0) { /* memory of a bytes, protected as two regions that meet at b */
		char one[80];
		v->bytes = (size_t)a;
		v->mem = (unsigned char *)calloc(1, v->bytes);
		sprintf(one, "%s-0", name);
		if (ckpt_protect(one, v->mem, (size_t)b, CKPT_BYTES) != CKPT_OK)
			return -1;
		sprintf(one, "%s-1", name);
		return ckpt_protect(one, v->mem + b, (size_t)(a - b), CKPT_BYTES);
	}
	if (strcmp(command, "rewrite") == 0) { /* how long that takes, in nanoseconds */
		struct timespec start, end;
		clock_gettime(CLOCK_MONOTONIC, &start);
		memset(v->mem, (int)a, v->bytes);
		clock_gettime(CLOCK_MONOTONIC, &end);
		return (long long)(end.tv_sec - start.tv_sec) * 1000000000 + end.tv_nsec - start.tv_nsec;
	}
	if (strcmp(command, "memcpy") == 0) { /* how long a plain copy takes, in nanoseconds */
		static void *to;
		struct timespec start, end;
		if (to == NULL) {
			to = malloc((size_t)a);
			memset(to, 1, (size_t)a);
		}
		clock_gettime(CLOCK_MONOTONIC, &start);
		memcpy(to, v->mem, (size_t)a);
		clock_gettime(CLOCK_MONOTONIC, &end);
		return (long long)(end.tv_sec - start.tv_sec) * 1000000000 + end.tv_nsec - start.tv_nsec;
	}
	if (strcmp(command, "scatter") == 0) { /* a byte in each b-th page, from page c */
		size_t i;
		for (i = (size_t)c * 4096; i < v->bytes; i += (size_t)b * 4096)
			v->mem[i] = (unsigned char)(v->mem[i] + a);
		return 0;
	}
	if (strcmp(command, "again") == 0)
		return ckpt_protect(name, v->mem, (size_t)a, (int)b);
	if (strcmp(command, "gone") == 0) { /* memory that is unmapped, and still protected */
		/* its neighbours stay, so that nothing else is mapped here */
		char *mem = (char *)mmap(NULL, 3 * (size_t)a, PROT_READ, MAP_PRIVATE | 0x20, -1, 0);
		long long status = ckpt_protect(name, mem + a, (size_t)a, (int)b);
		munmap(mem + a, (size_t)a);
		return status;
	}
	if (strcmp(command, "replicated") == 0) {
		v->mem = (unsigned char *)calloc(1, (size_t)a);
		v->bytes = (size_t)a;
		return ckpt_protect_replicated(name, v->mem, v->bytes, CKPT_INT32);
	}
	if (strcmp(command, "rows") == 0 || strcmp(command, "columns") == 0 || strcmp(command, "dealt") == 0 || strcmp(command, "uneven") == 0)
		return share(command, v, a, b, c);
	if (strcmp(command, "fill") == 0)
		return fill(v, (unsigned)a), 0;
	if (strcmp(command, "write") == 0)
		return memset(v->mem + a, (int)c, (size_t)b), 0;
	if (strcmp(command, "sum") == 0)
		return (long long)(sum(v) >> 1);
	return change(command, v, a, b, c);
}

int main(void)
{
	char line[256], command[64], name[64];
	while (fgets(line, sizeof line, stdin) != NULL) {
		long a = 0, b = 0, c = 0;
		long long result;
		command[0] = name[0] = 0;
		sscanf(line, "%63s %63s %ld %ld %ld", command, name, &a, &b, &c);
		result = run(command, name, a, b, c);
		printf("%lld %s\n", result, result < 0 ? ckpt_error() : "");
		fflush(stdout);
	}
	return 0;
}
