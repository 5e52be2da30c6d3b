/* Checks ckpt_view.h against the table of conform_test.go, which comes on standard input. */
#include "ckpt_view.h"

#define MOST 4096

static char line[1 << 16], calls[1 << 16];

static void note(void *arg, int write, long long off, long long len)
{
	char *end = calls + strlen(calls);
	(void)arg;
	snprintf(end, (size_t)(calls + sizeof calls - end), " %c %lld %lld", write ? 'w' : 'r', off, len);
}

static char *word(void) { return strtok(NULL, " \n"); }
static long long number(void) { return atoll(word()); }

static unsigned char *pattern(long long n, unsigned char seed)
{
	unsigned char *p = (unsigned char *)malloc((size_t)n + 1);
	long long i;
	for (i = 0; i < n; i++)
		p[i] = (unsigned char)((unsigned char)(i * 7 + i / 251) ^ seed);
	return p;
}

static int make(struct ckpt_view *v, int slices)
{
	static struct ckpt_view_block blocks[MOST];
	long long at = number(), cell = number(), shape[16], first = number(), n, i;
	struct ckpt_view_slice part[16];
	if (!slices) {
		n = number();
		for (i = 0; i < n; i++) {
			blocks[i].size = number();
			blocks[i].hole = number();
		}
		return ckpt_view_blocks(v, at, cell, blocks, (size_t)n, first);
	}
	for (i = 0; i < first; i++)
		shape[i] = number();
	for (i = 0; i < first; i++) {
		part[i].first = number();
		part[i].count = number();
		part[i].step = number();
	}
	return ckpt_view_slices(v, at, cell, (int)first, shape, part);
}

int main(int argc, char **argv)
{
	int lines = 0, wrong = 0;
	while (argc == 2 && fgets(line, sizeof line, stdin)) {
		char copy[sizeof line], got[sizeof calls + 80], *want, *rule;
		struct ckpt_view v;
		unsigned char *file, *p, *hashed;
		unsigned long long hash = 14695981039346656037ULL;
		long long off, n, end, m, i;
		int made, write, fd;
		strcpy(copy, line);
		want = strstr(copy, " = ") + 3;
		want[strcspn(want, "\n")] = 0;
		lines++;
		made = make(&v, strcmp(strtok(line, " "), "slices") == 0);
		want[-3] = 0;
		rule = word();
		for (v.rule = 0; strcmp(ckpt_view_name_(v.rule), rule) != 0;)
			v.rule++;
		v.buffer = number();
		v.bytes_per_s = (double)number();
		v.call_s = (double)number() / 1e9;
		v.stripe_bytes = number();
		v.block_bytes = number();
		write = strcmp(word(), "write") == 0;
		off = number();
		n = number();
		end = number();
		v.trace = note;
		calls[0] = 0;
		file = pattern(end, 0);
		p = pattern(n, 0xA5);
		fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
		if (fd < 0 || pwrite(fd, file, (size_t)end, 0) != (ssize_t)end) {
			perror(argv[1]);
			return 2;
		}
		m = made != 0 ? -2 : write ? ckpt_view_write(&v, fd, p, (size_t)n, off) : ckpt_view_read(&v, fd, p, (size_t)n, off);
		if (m < 0 && !v.error[0])
			printf("line %d: failed without a text\n", lines);
		hashed = p;
		end = m;
		if (m >= 0 && write) {
			end = (long long)lseek(fd, 0, SEEK_END);
			hashed = (unsigned char *)malloc((size_t)end + 1);
			if (pread(fd, hashed, (size_t)end, 0) != (ssize_t)end)
				return 2;
		}
		for (i = 0; i < end; i++)
			hash = (hash ^ hashed[i]) * 1099511628211ULL;
		if (m < 0)
			snprintf(got, sizeof got, "%lld 0", m);
		else
			snprintf(got, sizeof got, "%lld %llx%s", m, hash, calls);
		if (strcmp(got, want) != 0) {
			printf("%s\n got %s\nwant %s\n%s\n", copy, got, want, m < 0 ? v.error : "");
			wrong++;
		}
		if (hashed != p)
			free(hashed);
		free(file);
		free(p);
		close(fd);
		if (made == 0)
			ckpt_view_free(&v);
	}
	unlink(argv[1]);
	if (wrong == 0)
		printf("%d lines conform\n", lines);
	return wrong != 0;
}
