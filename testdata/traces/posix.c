// Programs of one process for the corpus (see make). Each prints what it moved:
// operation,count,bytes.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static long long reads, writes, syncs, read_bytes, written_bytes;
static char *buffer;

static void fail(const char *what) {
	perror(what);
	exit(1);
}

static void must_read(int fd, long size, long long at) {
	if (pread(fd, buffer, size, at) != size) fail("read");
	reads++, read_bytes += size;
}

static void must_write(int fd, long size, long long at) {
	if (pwrite(fd, buffer, size, at) != size) fail("write");
	writes++, written_bytes += size;
}

static void must_sync(int fd) {
	if (fsync(fd)) fail("fsync");
	syncs++;
}

static int must_open(const char *name, int flags) {
	int fd = open(name, flags, 0644);
	if (fd < 0) fail(name);
	return fd;
}

static void sleep_ms(long ms) {
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};
	nanosleep(&t, NULL);
}

// rmw reads each block, changes it, and writes it back.
static void rmw(const char *name, long size, long n) {
	int fd = must_open(name, O_RDWR);
	for (long i = 0; i < n; i++) {
		must_read(fd, size, i * size);
		buffer[0]++;
		must_write(fd, size, i * size);
	}
	close(fd);
}

// sync_each makes each write durable before the next.
static void sync_each(const char *name, long size, long n) {
	int fd = must_open(name, O_WRONLY | O_CREAT | O_TRUNC);
	for (long i = 0; i < n; i++) {
		must_write(fd, size, i * size);
		must_sync(fd);
	}
	close(fd);
}

// append opens the file anew for each record.
static void append(const char *name, long size, long n) {
	for (long i = 0; i < n; i++) {
		int fd = must_open(name, O_WRONLY | O_CREAT | O_APPEND);
		if (write(fd, buffer, size) != size) fail("write");
		writes++, written_bytes += size;
		close(fd);
	}
}

// storm makes, looks at and removes empty files.
static void storm(const char *dir, long size, long n) {
	char name[4096];
	(void)size;
	for (long i = 0; i < n; i++) {
		struct stat s;
		snprintf(name, sizeof name, "%s/f%05ld", dir, i);
		close(must_open(name, O_WRONLY | O_CREAT | O_EXCL));
		if (stat(name, &s)) fail("stat");
	}
	for (long i = 0; i < n; i++) {
		snprintf(name, sizeof name, "%s/f%05ld", dir, i);
		if (unlink(name)) fail("unlink");
	}
}

// again reads the whole file n times.
static void again(const char *name, long size, long n) {
	int fd = must_open(name, O_RDONLY);
	struct stat s;
	if (fstat(fd, &s)) fail("fstat");
	for (long i = 0; i < n; i++)
		for (long long at = 0; at < s.st_size; at += size) must_read(fd, size, at);
	close(fd);
}

// strided reads every other block.
static void strided(const char *name, long size, long n) {
	int fd = must_open(name, O_RDONLY);
	for (long i = 0; i < n; i++) must_read(fd, size, 2 * i * size);
	close(fd);
}

// backwards reads from the end of n blocks to their start.
static void backwards(const char *name, long size, long n) {
	int fd = must_open(name, O_RDONLY);
	for (long i = n - 1; i >= 0; i--) must_read(fd, size, i * size);
	close(fd);
}

// periodic writes a file of four blocks every 214 ms, by up to 8.5 % earlier or later.
static void periodic(const char *dir, long size, long n) {
	char name[4096];
	srand(20);
	for (long i = 0; i < n; i++) {
		snprintf(name, sizeof name, "%s/step%03ld", dir, i);
		int fd = must_open(name, O_WRONLY | O_CREAT | O_TRUNC);
		for (int k = 0; k < 4; k++) must_write(fd, size, k * size);
		close(fd);
		sleep_ms(214 + rand() % 37 - 18);
	}
}

// record prints lines through the C library, whose buffer is 4 KiB.
static void record(const char *name, long size, long n) {
	FILE *f = fopen(name, "w");
	if (!f) fail(name);
	setvbuf(f, NULL, _IOFBF, 4096);
	for (long i = 0; i < n; i++)
		if (fwrite(buffer, 1, size, f) != (size_t)size) fail("fwrite");
	if (fclose(f)) fail("fclose");
	written_bytes = (long long)size * n;
	writes = (written_bytes + 4095) / 4096;
}

int main(int argc, char **argv) {
	struct { const char *name; void (*run)(const char *, long, long); } all[] = {
		{"rmw", rmw}, {"sync", sync_each}, {"append", append}, {"storm", storm}, {"again", again},
		{"strided", strided}, {"backwards", backwards}, {"periodic", periodic}, {"record", record},
	};
	if (argc != 5) return fprintf(stderr, "usage: posix KIND FILE SIZE COUNT\n"), 2;
	long size = atol(argv[3]), n = atol(argv[4]);
	if (posix_memalign((void **)&buffer, 4096, size + 4096)) fail("memory");
	memset(buffer, 7, size);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!strcmp(argv[1], all[i].name)) {
			all[i].run(argv[2], size, n);
			if (reads) printf("read,%lld,%lld\n", reads, read_bytes);
			if (writes) printf("write,%lld,%lld\n", writes, written_bytes);
			if (syncs) printf("sync,%lld,0\n", syncs);
			return 0;
		}
	return fprintf(stderr, "no kind %s\n", argv[1]), 2;
}
