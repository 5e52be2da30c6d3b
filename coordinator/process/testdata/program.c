/*
 * A program that does what the test tells it, one command a line:
 *     init RANK SIZE | protect NAME BYTES TYPE | fill NAME SEED | write NAME OFFSET BYTES VALUE | …
 * Each command is answered by a line: the result, then the text of ckpt_error.
 */
#include "program.h"

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

static void progress(void)
{
	static int once;
	if (!once++)
		fprintf(stderr, "progress\n");
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
	if (strcmp(command, "again") == 0)
		return ckpt_protect(name, v->mem, (size_t)a, (int)b);
	if (strcmp(command, "gone") == 0) { /* memory that is unmapped, and still protected */
		/* its neighbours stay, so that nothing else is mapped here */
		char *mem = (char *)mmap(NULL, 3 * (size_t)a, PROT_READ, MAP_PRIVATE | 0x20, -1, 0);
		long long status = ckpt_protect(name, mem + a, (size_t)a, (int)b);
		munmap(mem + a, (size_t)a);
		return status;
	}
	if (strcmp(command, "fill") == 0)
		return fill(v, (unsigned)a), 0;
	if (strcmp(command, "write") == 0)
		return memset(v->mem + a, (int)c, (size_t)b), 0;
	if (strcmp(command, "sum") == 0)
		return (long long)(sum(v) >> 1);
	return -99;
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
