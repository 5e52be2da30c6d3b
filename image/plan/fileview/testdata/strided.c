/* Reads drawn parts of a field of N x N numbers, by a loop of pread and through ckpt_view.h in
 * turns: FILE N SEED PATTERNS ROUNDS. Seconds are those of the processor, since the file is in
 * the page cache. */
#define _GNU_SOURCE
#include "ckpt_view.h"
#include <time.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static unsigned long long state;

static long long pick(long long low, long long high)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return low + (long long)(state % (unsigned long long)(high - low + 1));
}

static void draw(struct ckpt_view_slice *p, long long n)
{
	static const long long steps[] = {1, 1, 2, 3, 4, 8, 16, 50, 200, 700};
	int a;
	for (a = 0; a < 2; a++) {
		long long most;
		p[a].first = pick(0, n / 4);
		p[a].step = steps[pick(0, a == 0 ? 5 : 9)];
		most = 1 + (n - 1 - p[a].first) / p[a].step;
		p[a].count = pick(most / 3 + 1, most);
	}
	if (pick(0, 2) == 0) {
		p[1].step = 1;
		p[1].count = pick(1, n - p[1].first);
	}
	while (p[1].step != 1 && p[0].count * p[1].count > 150000)
		p[0].count = (p[0].count + 1) / 2;
}

/* What a program does without views. */
static int naive(int fd, char *to, const struct ckpt_view_slice *p, long long n)
{
	long long run = p[1].step == 1 ? p[1].count : 1, runs = p[1].count / run, i, j;
	for (i = 0; i < p[0].count; i++)
		for (j = 0; j < runs; j++) {
			long long off = ((p[0].first + i * p[0].step) * n + p[1].first + j * p[1].step) * 8;
			if (pread(fd, to, (size_t)(run * 8), (off_t)off) != (ssize_t)(run * 8))
				return -1;
			to += run * 8;
		}
	return 0;
}

int main(int argc, char **argv)
{
	long long n = argc == 6 ? atoll(argv[2]) : 0, shape[2], blocks;
	int patterns, rounds, fd, k, i, way, gain = 0, good = 0, slow = 0, same = 0;
	char *u, *w;
	if (n < 1 || (fd = open(argv[1], O_RDONLY)) < 0 || (rounds = atoi(argv[5])) > 64)
		return 2;
	state = strtoull(argv[3], NULL, 10) * 2654435761u + 88172645463325252ULL;
	patterns = atoi(argv[4]);
	shape[0] = shape[1] = n;
	u = (char *)malloc((size_t)(n * n * 8));
	w = (char *)malloc((size_t)(n * n * 8));
	for (k = 0; k < patterns; k++) {
		struct ckpt_view v;
		struct ckpt_view_slice p[2];
		double ratio[64], model, t[2];
		draw(p, n);
		if (ckpt_view_slices(&v, 0, 8, 2, shape, p) != 0) {
			puts(v.error);
			return 2;
		}
		for (i = 0; i < rounds; i++) {
			for (way = 0; way < 2; way++) {
				int view = (way + i) % 2;
				double begin = now();
				memset(&v.calls, 0, view ? sizeof v.calls : 0);
				if (view ? ckpt_view_read(&v, fd, w, (size_t)v.size, 0) != v.size : naive(fd, u, p, n) != 0)
					return 2;
				t[view] = now() - begin;
			}
			ratio[i] = t[0] / t[1];
		}
		if (memcmp(u, w, (size_t)v.size) != 0) {
			puts("other bytes");
			return 1;
		}
		qsort(ratio, (size_t)rounds, sizeof ratio[0], order);
		blocks = p[0].count * (p[1].step == 1 ? 1 : p[1].count);
		model = ((double)blocks * v.call_s + (double)v.size / v.bytes_per_s) /
		        ((double)v.calls.reads * v.call_s + (double)v.calls.bytes_read / v.bytes_per_s);
		printf("%lld:%lld:%lld,%lld:%lld:%lld calls %lld of %lld, expected %.2f, %.2f times as fast (%.2f to %.2f)\n", p[0].first,
		       p[0].count, p[0].step, p[1].first, p[1].count, p[1].step, v.calls.reads, blocks, model, ratio[rounds / 2], ratio[0], ratio[rounds - 1]);
		gain += model >= 5;
		good += model >= 5 && ratio[rounds / 2] >= 5;
		same += v.calls.reads == blocks;
		slow += ratio[rounds / 2] < 1 / 1.1;
		ckpt_view_free(&v);
	}
	printf("of %d patterns %d were expected 5 times as fast and %d were; %d took over 1.1 of naive; %d made its calls\n", patterns, gain, good, slow, same);
	return 0;
}
