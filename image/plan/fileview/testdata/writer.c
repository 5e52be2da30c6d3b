/* One of several processes that write interleaved blocks: FILE WHO OF BLOCK BLOCKS ROUNDS. */
#include <poll.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

/* Leaves others time between read and write. */
#define CKPT_VIEW_PREAD slow
#define CKPT_VIEW_PREADV preadv
#define CKPT_VIEW_PWRITE pwrite
#define CKPT_VIEW_FCNTL fcntl
ssize_t pread(int, void *, size_t, off_t);
static ssize_t slow(int fd, void *p, size_t n, off_t off)
{
	ssize_t m = pread(fd, p, n, off);
	poll(NULL, 0, 1);
	return m;
}
#include "ckpt_view.h"

int main(int argc, char **argv)
{
	long long who, of, size, blocks, rounds, round, i;
	struct ckpt_view v;
	struct ckpt_view_block block;
	static unsigned char last[1 << 16], got[1 << 16];
	ssize_t n;
	int fd;
	if (argc != 7 || (fd = open(argv[1], O_RDWR | O_CREAT, 0600)) < 0)
		return 2;
	who = atoll(argv[2]);
	of = atoll(argv[3]);
	block.size = size = atoll(argv[4]);
	block.hole = (of - 1) * size;
	blocks = atoll(argv[5]);
	rounds = atoll(argv[6]);
	if (ckpt_view_blocks(&v, who * size, 1, &block, 1, blocks) != 0)
		return 2;
	v.rule = CKPT_VIEW_EXTENT;
	v.buffer = 700;
	puts("ready");
	fflush(stdout);
	getchar(); /* the end, when all are ready */
	for (round = 0; round < rounds; round++) {
		n = ckpt_view_read(&v, fd, got, (size_t)(size * blocks), 0);
		for (i = 0; i < n; i++)
			if (got[i] != last[i]) {
				printf("round %lld: the bytes of the round before are gone\n", round);
				return 1;
			}
		memset(last, (int)(1 + who + round * of), (size_t)(size * blocks));
		if (ckpt_view_write(&v, fd, last, (size_t)(size * blocks), 0) < 0) {
			printf("round %lld: %s\n", round, v.error);
			return 1;
		}
	}
	if (v.calls.rewrites == 0)
		printf("no write had a hole\n");
	return v.calls.rewrites == 0;
}
