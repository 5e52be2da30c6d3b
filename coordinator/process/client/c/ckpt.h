/*
 * ckpt.h: checkpoints for programs in C and C++.
 *
 * One header, C99 or C++11, nothing but libc on Linux. Include it in as many files of a
 * program as you like. Include it after mpi.h where you use MPI.
 *
 *     ckpt_init(rank, size);
 *     ckpt_protect("u", u, n * sizeof *u, CKPT_FLOAT64);
 *     for (long it = ckpt_restore(); it < steps; it++) {
 *         step(u);
 *         if (ckpt_boundary(it + 1) == CKPT_STOP) break;
 *     }
 *     ckpt_finalize();
 *
 * `ckpt launch … -- mpiexec -n 8 ./program` runs such a program with checkpoints. Started
 * in any other way, the program runs as ever: all functions do nothing, and rank 0 prints
 * one line that says so.
 *
 * Threads: one thread at a time calls ckpt functions. With MPI it is a thread that may
 * call MPI, because MPI makes progress while a function waits. During a call that saves or
 * restores, no other thread changes protected memory.
 *
 * Failures: a process that ckpt launch cannot protect ends in ckpt_init. From then on, no
 * failure of a checkpoint ends the program. The call that finds it, often the one after,
 * returns a negative status, and ckpt_error() says what failed and what to do.
 */
#ifndef CKPT_H
#define CKPT_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The results of the functions. Negative ones are errors. */
#define CKPT_OK 0        /* all is well */
#define CKPT_STOP 1      /* leave the loop: a checkpoint of this state is stored */
#define CKPT_NONE (-1)     /* there is no checkpoint, or it has no such region */
#define CKPT_ARGUMENT (-2) /* an argument is wrong, or the call comes at the wrong time */
#define CKPT_SERVICE (-3)  /* the coordinator or the agent is gone: no more checkpoints */
#define CKPT_DAMAGE (-4)   /* a checkpoint is damaged */
#define CKPT_FULL (-5)     /* the disk of the store is full */
#define CKPT_MISMATCH (-6) /* the checkpoint does not fit the program */
#define CKPT_IO (-7)       /* another error of a disk */

/* The types of values in memory. They help to pack it; nothing else depends on them. */
#define CKPT_BYTES 0
#define CKPT_FLOAT64 1
#define CKPT_FLOAT32 2
#define CKPT_INT32 3
#define CKPT_INT64 4
#define CKPT_FLOAT16 5  /* IEEE half precision */
#define CKPT_BFLOAT16 6 /* the upper half of a float */
#define CKPT_INT16 7
#define CKPT_FLOAT8 8 /* any format of eight bits */
#define CKPT_INT8 9

/*
 * ckpt_init connects this process with the coordinator. Call it once, after MPI_Init, with
 * the rank of this process and the number of ranks.
 *
 * CKPT_OK: connected, or started without a coordinator. CKPT_ARGUMENT: a second call, or
 * numbers that make no sense. CKPT_SERVICE: the coordinator refused, and ends the process.
 * A process whose agent cannot start ends here: it would compute without protection.
 */
int ckpt_init(int rank, int size);

/*
 * ckpt_protect adds memory to all later checkpoints, under a name: printable ASCII, at
 * most 255 characters, each name once. Call it again with the same name when the memory
 * has moved or has another size. Ranks may protect different regions. Zero bytes are fine.
 * The memory must stay mapped until ckpt_forget, or until it is protected elsewhere.
 * Only the same number of ranks can resume from it: see ckpt_protect_global.
 *
 * CKPT_OK. CKPT_ARGUMENT: a bad name, an unknown type, a null pointer, or bytes that are
 * no whole number of values; the region stays as it was. CKPT_SERVICE.
 */
int ckpt_protect(const char *name, void *ptr, size_t bytes, int type);

/*
 * A part of an array that all ranks hold together, for ckpt_protect_global. The axes are
 * in the order of the indices in the program; indices begin at 0. This is the part of a
 * rank that has rows first to first + rows - 1 of n rows of n values, and in memory a
 * row and a column more on each side:
 *
 *     struct ckpt_global part = {.dims = 2, .shape = {n, n}, .first = {first, 0},
 *                                .count = {rows, n}, .halo = {1, 1}};
 *
 * Fields that are left out are 0.
 */
#define CKPT_DIMS 8
#define CKPT_ROW_MAJOR 0    /* as in C: the last index runs fastest in memory */
#define CKPT_COLUMN_MAJOR 1 /* as in Fortran: the first index runs fastest */
struct ckpt_global {
	int dims;                    /* number of axes, 1 to CKPT_DIMS */
	long long shape[CKPT_DIMS];  /* cells of the whole array along each axis */
	long long first[CKPT_DIMS];  /* index of the first cell of this rank */
	long long count[CKPT_DIMS];  /* cells of this rank; 0: none */
	long long halo[CKPT_DIMS];   /* cells more in memory, on either side */
	long long block[CKPT_DIMS];  /* 0: the cells follow each other; else they come in blocks of so many, */
	long long stride[CKPT_DIMS]; /* whose first cells are so far apart: see ckpt_deal; without halo */
	int order;                   /* CKPT_ROW_MAJOR or CKPT_COLUMN_MAJOR */
	long long lower[CKPT_DIMS];  /* more cells of the halo on the side of index 0 only, */
	long long upper[CKPT_DIMS];  /* and on the other side only */
	long long pad[CKPT_DIMS];    /* cells of memory after all these that are no part of the array */
	const char *array;           /* NULL: the region names the array. A rank that holds several
					blocks of an array protects each under a name of its own,
					and names the array here. */
};

/*
 * ckpt_protect_global is ckpt_protect for the part that this rank has of an array of all
 * ranks. Another number of ranks can resume from such a checkpoint: each gets the part
 * that it names, and its halo. The parts of all ranks make up the whole array, each cell
 * once. Cells of a halo beyond the edge of the array, boundary values, are restored too.
 * A cell has bytes / cells bytes, a whole number of values; halo cells count.
 *
 * As ckpt_protect. CKPT_ARGUMENT: the part does not fit the array or the bytes.
 */
int ckpt_protect_global(const char *name, void *ptr, size_t bytes, int type, const struct ckpt_global *part);

/*
 * ckpt_protect_indexed is ckpt_protect for the cells of an array of all ranks that a list
 * names, such as the vertices of a mesh without structure. ids has, for each of the held
 * cells in the order of memory, its number in the whole array, from 0 to cells - 1. The first
 * own of them are this rank's: each cell is of one rank. The others are copies of cells of
 * other ranks. The list is protected as well, as name.ids: it stays where it is until
 * ckpt_forget; call this again when it changes. Another number of ranks, or the same with
 * other lists, gets the cells that it names, copies too. A cell has bytes / held bytes.
 *
 * As ckpt_protect. CKPT_ARGUMENT: a number of the list is out of range.
 */
int ckpt_protect_indexed(const char *name, void *ptr, size_t bytes, int type, long long cells, const int64_t *ids,
			 long long own, long long held);

/*
 * ckpt_deal fills one axis of a part: blocks of so many cells are dealt to ranks in turn,
 * and this rank is at a place among them, from 0. Block 1 is cyclic. Block 0 makes one
 * block for each, as equal as can be. These are the distributions of
 * MPI_Type_create_darray and ScaLAPACK.
 *
 * CKPT_OK. CKPT_ARGUMENT: an axis, place or number out of range.
 */
int ckpt_deal(struct ckpt_global *part, int axis, long long cells, long long block, int places, int place);

/*
 * ckpt_protect_replicated is ckpt_protect for memory that has the same contents on all
 * ranks, such as the time: another number of ranks can resume with it, and all of them get
 * that of rank 0.
 */
int ckpt_protect_replicated(const char *name, void *ptr, size_t bytes, int type);

/*
 * ckpt_forget leaves a region out of all later checkpoints. Memory of ckpt_alloc is freed.
 *
 * CKPT_OK. CKPT_ARGUMENT: no region has the name. CKPT_SERVICE.
 */
int ckpt_forget(const char *name);

/*
 * ckpt_restore fills the protected regions from the checkpoint to resume from. Call it
 * once, after the first ckpt_protect calls and before the loop.
 *
 * The step of that checkpoint, as ckpt_boundary or ckpt_save got it: continue from there.
 * 0: start from scratch, the memory is untouched. Negative: CKPT_DAMAGE, CKPT_MISMATCH,
 * CKPT_SERVICE, CKPT_IO; the protected memory may hold anything, so end the program.
 */
long ckpt_restore(void);

/*
 * ckpt_boundary marks a place where a checkpoint may be taken: all that the program needs
 * is in protected memory, and no message is on its way. All ranks call it equally often.
 * step is the number to resume from. It costs no system call while nothing is due.
 *
 * When a checkpoint is due, the call returns as soon as the memory may change again.
 *
 * CKPT_OK: continue. CKPT_STOP: all ranks got it; leave the loop. Negative: an earlier
 * checkpoint failed, with CKPT_FULL, CKPT_IO or CKPT_SERVICE; continue all the same.
 */
int ckpt_boundary(long step);

/*
 * ckpt_save is ckpt_boundary that takes a checkpoint in any case. All ranks call it at
 * the same step.
 */
int ckpt_save(long step);

/*
 * ckpt_epoch is ckpt_boundary at the end of an epoch: ckpt launch --every epoch takes a
 * checkpoint there. All ranks call it at the same step.
 */
int ckpt_epoch(long step);

/*
 * ckpt_wait returns when the checkpoint that is written behind the computation is stored,
 * or has failed.
 *
 * CKPT_OK: the last checkpoint is stored, or there was none. Negative: it failed.
 */
int ckpt_wait(void);

/*
 * ckpt_query returns the bytes of a region in the checkpoint to resume from, for programs
 * that allocate before they protect. An empty name asks for the step of that checkpoint.
 * -1 (CKPT_NONE): there is no checkpoint, or it has no such region. Other errors are
 * negative as well.
 */
long long ckpt_query(const char *name);

/*
 * ckpt_alloc returns memory of zeros, on a page boundary, and protects it. Called again
 * with the same name it resizes: the contents stay, the address may change. ckpt_forget
 * frees the memory; ckpt_finalize does not.
 *
 * NULL: no memory, or a bad argument.
 */
void *ckpt_alloc(const char *name, size_t bytes, int type);

/*
 * ckpt_file has a file that grows, such as a log or a table of results, belong to the
 * checkpoint: its length is kept, and ckpt_restore cuts off what was written after. So the
 * file ends as in a run without failures. The rank that writes it calls this,
 * before ckpt_restore, and flushes it (fflush) before each boundary. Bytes that were written
 * over are not kept. The path is printable ASCII, at most 250 characters, and means the same
 * file after a restart.
 *
 * CKPT_OK. CKPT_ARGUMENT: a bad path. ckpt_restore returns CKPT_MISMATCH if a file is
 * shorter than it was.
 */
int ckpt_file(const char *path);

/*
 * ckpt_finalize says that the program ends on purpose, so that nothing is restarted. Call
 * it before MPI_Finalize. Afterwards all functions but ckpt_error return CKPT_ARGUMENT.
 *
 * CKPT_OK. Negative: the last checkpoint failed.
 */
int ckpt_finalize(void);

/*
 * ckpt_error returns a text about the last failure, with a hint, or an empty text. It is
 * valid until the next call of a ckpt function.
 */
const char *ckpt_error(void);

/*
 * ckpt_progress sets a function that runs again and again while a ckpt function waits, so
 * that the messages of other ranks make progress. NULL: none. A file that includes mpi.h
 * before this header has MPI_Iprobe set.
 */
void ckpt_progress(void (*function)(void));

/* ---- The rest is no interface. It may change with each version. ---- */

#if !defined(__linux__)
#error "ckpt.h needs Linux"
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "ckpt.h needs a little-endian processor"
#endif

#ifndef __cplusplus
/* Strict C99 hides these declarations of libc, and O_CLOEXEC, which SOCK_CLOEXEC equals. */
extern long syscall(long number, ...);
extern int truncate(const char *path, off_t length);
extern int ftruncate(int fd, off_t length);
extern int madvise(void *mem, size_t bytes, int advice);
extern char **environ;
#endif
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
#define CKPT_I_CLOSEFROM 1
#ifndef __cplusplus
extern int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int from);
#endif
#endif
#endif

#define CKPT_I_API __attribute__((weak, visibility("default")))
#define CKPT_I_OWN static __attribute__((unused))

#define CKPT_I_VERSION 4
#define CKPT_I_MESSAGE 65536
#define CKPT_I_MAGIC INT64_C(0x6567617074706b63)
#define CKPT_I_PASSED 64
#define CKPT_I_LIMIT 128
#define CKPT_I_STEP 192
#define CKPT_I_PENDING 256
#define CKPT_I_EPOCHS 320
#define CKPT_I_FORKS 16 /* children at a time */
#define CKPT_I_STREAM ((size_t)1 << 20) /* bytes, more than are read again while they are in a cache */
#define CKPT_I_PAGE 4096

enum {
	CKPT_I_HELLO = 1, CKPT_I_PROTECT, CKPT_I_FORGET, CKPT_I_RESTORE, CKPT_I_BOUNDARY,
	CKPT_I_WAIT, CKPT_I_QUERY, CKPT_I_FINALIZE, CKPT_I_COPIED, CKPT_I_TRACKED, CKPT_I_FORKED,
	CKPT_I_WELCOME = 100, CKPT_I_GO, CKPT_I_MAP, CKPT_I_UNMAP, CKPT_I_OUT, CKPT_I_IN,
	CKPT_I_TRACK, CKPT_I_TRACER, CKPT_I_FORK
};

/* How a region relates to those of the other ranks. */
enum { CKPT_I_LOCAL, CKPT_I_REPLICATED, CKPT_I_GLOBAL, CKPT_I_INDEXED };

/* A list of cells, as the agent learns of it. */
struct ckpt_i_index {
	int64_t cells, own, held, low, high;
	uint64_t set, print;
};

enum { CKPT_I_NEW, CKPT_I_ALONE, CKPT_I_CONNECTED, CKPT_I_BROKEN, CKPT_I_FINISHED };

struct ckpt_i_header {
	uint32_t kind, value;
	int64_t a, b, c;
};

struct ckpt_i_range {
	uint64_t address, offset, bytes;
};

/* A range that a child copies, and to which window. */
struct ckpt_i_piece {
	struct ckpt_i_range range;
	uint64_t window;
};

struct ckpt_i_region {
	struct ckpt_i_region *next;
	void *ptr;
	size_t bytes, owned; /* owned: bytes that ckpt_alloc mapped */
	int type, sharing;
	struct ckpt_global part; /* zeros, unless sharing is CKPT_I_GLOBAL */
	struct ckpt_i_index index; /* zeros, unless sharing is CKPT_I_INDEXED */
	char *name, *array; /* array: NULL, or a copy of part.array */
};

struct ckpt_i_window {
	struct ckpt_i_window *next;
	uint32_t id;
	unsigned char *mem;
	size_t bytes;
};

/* A file of the program, and its length at the last boundary that asked. */
struct ckpt_i_file {
	struct ckpt_i_file *next;
	int64_t length;
	char path[256];
};

struct ckpt_i_state {
	int phase, rank, link, changed; /* changed: the agent has written to regions */
	char *page;
	char *mine; /* the kernel clears it in a child of fork */
	uint64_t *buffer;
	struct ckpt_i_region *regions;
	struct ckpt_i_window *windows;
	struct ckpt_i_file *files;
	void (*progress)(void);
	char error[512];
	pid_t children[CKPT_I_FORKS]; /* that copy, or have ended and were not reaped yet */
	void (*flush)(void); /* of Fortran's output, or NULL */
};

/* One state for all files of the program. */
CKPT_I_API struct ckpt_i_state ckpt_i_state_1;
#define CKPT_I (&ckpt_i_state_1)

__attribute__((format(printf, 2, 3))) CKPT_I_OWN int ckpt_i_fail(int status, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(CKPT_I->error, sizeof CKPT_I->error, format, args);
	va_end(args);
	return status;
}

/* ckpt_i_broken ends the link. The program continues without checkpoints. */
CKPT_I_OWN int ckpt_i_broken(const char *what)
{
	if (CKPT_I->phase == CKPT_I_CONNECTED) {
		close(CKPT_I->link);
		CKPT_I->phase = CKPT_I_BROKEN;
		fprintf(stderr, "ckpt: rank %d: %s: the program continues without checkpoints\n", CKPT_I->rank, what);
	}
	return ckpt_i_fail(CKPT_SERVICE, "%s", what);
}

CKPT_I_OWN void *ckpt_i_map(int fd, size_t bytes, int flags)
{
	void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);
	return mem == MAP_FAILED ? NULL : mem;
}

CKPT_I_OWN void *ckpt_i_memory(size_t bytes)
{
#ifdef MAP_ANONYMOUS
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#else
	const int flags = MAP_PRIVATE | 0x20;
#endif
	void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
	return mem == MAP_FAILED ? NULL : mem;
}

CKPT_I_OWN int64_t *ckpt_i_word(int offset)
{
	return (int64_t *)(void *)(CKPT_I->page + offset);
}

CKPT_I_OWN int ckpt_i_send(uint32_t kind, uint32_t value, int64_t a, int64_t b, int64_t c,
			   const void *payload, size_t bytes, const int *fds, size_t count)
{
	struct ckpt_i_header header;
	struct iovec parts[2];
	struct msghdr message;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control;
	ssize_t n;

	header.kind = kind;
	header.value = value;
	header.a = a;
	header.b = b;
	header.c = c;
	parts[0].iov_base = &header;
	parts[0].iov_len = sizeof header;
	parts[1].iov_base = (void *)(uintptr_t)payload;
	parts[1].iov_len = bytes;
	memset(&message, 0, sizeof message);
	message.msg_iov = parts;
	message.msg_iovlen = bytes > 0 ? 2 : 1;
	if (count > 0) {
		struct cmsghdr *first;
		memset(&control, 0, sizeof control);
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		first = CMSG_FIRSTHDR(&message);
		first->cmsg_level = SOL_SOCKET;
		first->cmsg_type = SCM_RIGHTS;
		first->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(first), fds, count * sizeof(int));
	}
	do
		n = sendmsg(CKPT_I->link, &message, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -1 : 0;
}

/* ckpt_i_receive waits for a message. It returns the bytes of the payload, or -1. */
CKPT_I_OWN long ckpt_i_receive(struct ckpt_i_header *header, int *fd)
{
	struct iovec parts[2];
	struct msghdr message;
	struct cmsghdr *first;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	ssize_t n;

	for (;;) {
		if (CKPT_I->progress != NULL) {
			struct pollfd wait;
			wait.fd = CKPT_I->link;
			wait.events = POLLIN;
			wait.revents = 0;
			if (poll(&wait, 1, 1) == 0) {
				CKPT_I->progress();
				continue;
			}
		}
		parts[0].iov_base = header;
		parts[0].iov_len = sizeof *header;
		parts[1].iov_base = CKPT_I->buffer;
		parts[1].iov_len = CKPT_I_MESSAGE;
		memset(&message, 0, sizeof message);
		message.msg_iov = parts;
		message.msg_iovlen = 2;
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof control.bytes;
		n = recvmsg(CKPT_I->link, &message, MSG_CMSG_CLOEXEC);
		if (n >= 0 || errno != EINTR)
			break;
	}
	*fd = -1;
	if (n < (ssize_t)sizeof *header)
		return -1;
	first = CMSG_FIRSTHDR(&message);
	if (first != NULL && first->cmsg_level == SOL_SOCKET && first->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(first), sizeof *fd);
	return (long)n - (long)sizeof *header;
}

CKPT_I_OWN struct ckpt_i_window *ckpt_i_window(uint32_t id)
{
	struct ckpt_i_window *w = CKPT_I->windows;
	while (w != NULL && w->id != id)
		w = w->next;
	return w;
}

CKPT_I_OWN void ckpt_i_add_window(uint32_t id, int64_t bytes, int fd)
{
	struct ckpt_i_window *w = (struct ckpt_i_window *)malloc(sizeof *w);
	void *mem = w == NULL || bytes <= 0 || fd < 0 ? NULL : ckpt_i_map(fd, (size_t)bytes, 0x8000); /* MAP_POPULATE */
	if (fd >= 0)
		close(fd);
	if (mem == NULL) { /* the next order to copy fails */
		free(w);
		return;
	}
	w->id = id;
	w->mem = (unsigned char *)mem;
	w->bytes = (size_t)bytes;
	w->next = CKPT_I->windows;
	CKPT_I->windows = w;
}

CKPT_I_OWN void ckpt_i_remove_window(uint32_t id)
{
	struct ckpt_i_window **at = &CKPT_I->windows;
	while (*at != NULL && (*at)->id != id)
		at = &(*at)->next;
	if (*at != NULL) {
		struct ckpt_i_window *w = *at;
		*at = w->next;
		munmap(w->mem, w->bytes);
		free(w);
	}
}

/* ckpt_i_mapped reports whether all of a region is mapped. Copying would crash otherwise. */
CKPT_I_OWN int ckpt_i_mapped(uint64_t address, uint64_t bytes)
{
	uint64_t start = address & ~(uint64_t)(CKPT_I_PAGE - 1);
	if (bytes == 0)
		return 1;
	return msync((void *)(uintptr_t)start, (size_t)(address + bytes - start), MS_ASYNC) == 0 || errno != ENOMEM;
}

/* ckpt_i_stream copies memory past the caches. A plain copy reads what it is about to replace, and
   takes almost twice as long. */
CKPT_I_OWN void ckpt_i_stream(unsigned char *to, const unsigned char *from, size_t bytes)
{
#ifdef __SSE2__
	size_t head = (size_t)-(uintptr_t)to & 63;
	if (bytes >= CKPT_I_STREAM) {
		memcpy(to, from, head);
		for (to += head, from += head, bytes -= head; bytes >= 64; to += 64, from += 64, bytes -= 64) {
			__m128i a = _mm_loadu_si128((const __m128i *)(const void *)from);
			__m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
			__m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + 32));
			__m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + 48));
			_mm_stream_si128((__m128i *)(void *)to, a);
			_mm_stream_si128((__m128i *)(void *)(to + 16), b);
			_mm_stream_si128((__m128i *)(void *)(to + 32), c);
			_mm_stream_si128((__m128i *)(void *)(to + 48), d);
		}
		_mm_sfence();
	}
#endif
	memcpy(to, from, bytes);
}

/* ckpt_i_copy copies between memory and a window. It returns an errno. */
CKPT_I_OWN int ckpt_i_copy(const struct ckpt_i_header *order, long payload)
{
	const struct ckpt_i_window *w = ckpt_i_window(order->value);
	const char *ranges = (const char *)CKPT_I->buffer;
	int64_t i;
	if (w == NULL)
		return ENOMEM;
	if (order->a < 0 || order->a != payload / (long)sizeof(struct ckpt_i_range))
		return EINVAL;
	if (!ckpt_i_mapped((uint64_t)order->b, (uint64_t)order->c))
		return EFAULT;
	for (i = 0; i < order->a; i++) {
		struct ckpt_i_range r;
		void *mem;
		memcpy(&r, ranges + i * (int64_t)sizeof r, sizeof r);
		if (r.offset > w->bytes || r.bytes > w->bytes - r.offset)
			return EINVAL;
		mem = (void *)(uintptr_t)r.address;
		if (order->kind == CKPT_I_OUT) {
			ckpt_i_stream(w->mem + r.offset, (const unsigned char *)mem, (size_t)r.bytes);
		} else {
			memcpy(mem, w->mem + r.offset, (size_t)r.bytes);
			CKPT_I->changed = 1;
		}
	}
	return 0;
}

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* ckpt_i_reap forgets the children that have ended. It returns a free place, or NULL. */
CKPT_I_OWN pid_t *ckpt_i_reap(void)
{
	pid_t *place = NULL;
	int i;
	for (i = 0; i < CKPT_I_FORKS; i++) {
		pid_t *child = &CKPT_I->children[i];
		if (*child != 0 && waitpid(*child, NULL, WNOHANG | 0x40000000) != 0) /* __WALL */
			*child = 0;
		if (*child == 0)
			place = child;
	}
	return place;
}

/* ckpt_i_faults returns how many nanoseconds the first write to a page takes in the child, at
   least 1: as long as the program needs for each page that it writes. */
CKPT_I_OWN int64_t ckpt_i_faults(const struct ckpt_i_range *range)
{
	volatile char *mem = (volatile char *)(uintptr_t)range->address;
	int64_t began[2] = {0, 0}, end[2] = {0, 0}, pages = (int64_t)(range->bytes / CKPT_I_PAGE), i;
	if (pages > 64)
		pages = 64;
	if (pages == 0)
		return 1;
	syscall(SYS_clock_gettime, 1L, began); /* CLOCK_MONOTONIC */
	for (i = 0; i < pages; i++)
		mem[i * CKPT_I_PAGE] = mem[i * CKPT_I_PAGE];
	syscall(SYS_clock_gettime, 1L, end);
	return ((end[0] - began[0]) * 1000000000 + end[1] - began[1]) / pages + 1;
}

/* ckpt_i_copier is the child: it copies the pieces and tells so in a word of the shared page.
   Other threads may have held locks when it began, so it calls nothing but the kernel and
   memcpy. */
CKPT_I_OWN void ckpt_i_copier(int64_t pieces, int64_t *told)
{
	const char *list = (const char *)CKPT_I->buffer;
	struct ckpt_i_piece p = {{0, 0, 0}, 0};
	int64_t i;
	syscall(SYS_prctl, 4L, 0L, 0L, 0L, 0L); /* PR_SET_DUMPABLE: its death leaves no core */
	/* It must keep no pipe or connection of the program open. */
	if (syscall(SYS_close_range, 0L, (unsigned long)~0u, 2L) == 0) { /* CLOSE_RANGE_UNSHARE */
		for (i = 0; i < pieces; i++) {
			memcpy(&p, list + i * (int64_t)sizeof p, sizeof p);
			ckpt_i_stream(ckpt_i_window((uint32_t)p.window)->mem + p.range.offset, (const unsigned char *)(uintptr_t)p.range.address, (size_t)p.range.bytes);
		}
		__atomic_store_n(told, ckpt_i_faults(&p.range), __ATOMIC_SEQ_CST);
	}
	for (;;)
		syscall(SYS_exit_group, 0L);
}

/* ckpt_i_keep undoes MADV_WIPEONFORK, with which the child would copy zeros. */
CKPT_I_OWN void ckpt_i_keep(uint64_t address, uint64_t bytes)
{
	uint64_t start = address & ~(uint64_t)(CKPT_I_PAGE - 1);
	madvise((void *)(uintptr_t)start, (size_t)(address + bytes - start), 19); /* MADV_KEEPONFORK */
}

/* ckpt_i_fork has a child copy pieces, all of which lie in regions that are mapped, while the
   program goes on: the child has memory as it is now. It returns an errno, or 0 and the child.
   It is fork without what fork does for children that go on: no handlers of pthread_atfork, no
   SIGCHLD, no signal that runs a handler of the program. */
CKPT_I_OWN int ckpt_i_fork(const struct ckpt_i_header *order, long payload, pid_t *child)
{
	uint64_t all = ~(uint64_t)0, before = 0;
	const char *list = (const char *)CKPT_I->buffer;
	pid_t *place = ckpt_i_reap();
	int64_t i;
	int error = 0;
	if (place == NULL)
		return EAGAIN;
	if (order->a < 0 || order->a != payload / (long)sizeof(struct ckpt_i_piece) || order->b < CKPT_I_EPOCHS + 64 ||
	    order->b > CKPT_I_PAGE - 8 || order->b % 8 != 0)
		return EINVAL;
	for (i = 0; i < order->a; i++) {
		const struct ckpt_i_window *w;
		struct ckpt_i_piece p;
		memcpy(&p, list + i * (int64_t)sizeof p, sizeof p);
		w = ckpt_i_window((uint32_t)p.window);
		if (w == NULL)
			return ENOMEM;
		if (p.range.offset > w->bytes || p.range.bytes > w->bytes - p.range.offset)
			return EINVAL;
		if (!ckpt_i_mapped(p.range.address, p.range.bytes))
			return EFAULT;
		ckpt_i_keep(p.range.address, p.range.bytes);
	}
	if (syscall(SYS_close_range, (unsigned long)~0u, (unsigned long)~0u, 0L) != 0)
		return errno;
	if (syscall(SYS_rt_sigprocmask, 2L, &all, &before, 8L) != 0) /* SIG_SETMASK */
		return errno;
	*child = (pid_t)syscall(SYS_clone, 0x400L, 0L, 0L, 0L, 0L); /* CLONE_FILES, until it closes them */
	if (*child == 0)
		ckpt_i_copier(order->a, ckpt_i_word((int)order->b));
	if (*child < 0)
		error = errno;
	else
		*place = *child;
	syscall(SYS_rt_sigprocmask, 2L, &before, NULL, 8L);
	return error;
}

/* ckpt_i_track opens what the agent needs to find pages that change. */
CKPT_I_OWN int ckpt_i_track(void)
{
	int fds[2], sent;
	uint32_t error = 0;
#ifdef SYS_userfaultfd
	fds[0] = (int)syscall(SYS_userfaultfd, (long)(SOCK_CLOEXEC | O_NONBLOCK | 1)); /* 1: UFFD_USER_MODE_ONLY */
#else
	fds[0] = -1;
	errno = ENOSYS;
#endif
	if (fds[0] < 0)
		return ckpt_i_send(CKPT_I_TRACKED, (uint32_t)errno, 0, 0, 0, NULL, 0, NULL, 0);
	fds[1] = open("/proc/self/pagemap", O_RDONLY | SOCK_CLOEXEC);
	if (fds[1] < 0)
		error = (uint32_t)errno;
	sent = ckpt_i_send(CKPT_I_TRACKED, error, 0, 0, 0, NULL, 0, fds, error == 0 ? 2 : 0);
	close(fds[0]);
	if (fds[1] >= 0)
		close(fds[1]);
	return sent;
}

/* ckpt_i_obey carries out an order. */
CKPT_I_OWN int ckpt_i_obey(const struct ckpt_i_header *order, long payload, int fd)
{
	switch (order->kind) {
	case CKPT_I_MAP:
		ckpt_i_add_window(order->value, order->a, fd);
		return 0;
	case CKPT_I_UNMAP:
		ckpt_i_remove_window(order->value);
		return 0;
	case CKPT_I_OUT:
	case CKPT_I_IN:
		return ckpt_i_send(CKPT_I_COPIED, (uint32_t)ckpt_i_copy(order, payload), 0, 0, 0, NULL, 0, NULL, 0);
	case CKPT_I_FORK: {
		pid_t child = 0;
		int error = ckpt_i_fork(order, payload, &child);
		return ckpt_i_send(CKPT_I_FORKED, (uint32_t)error, (int64_t)child, 0, 0, NULL, 0, NULL, 0);
	}
	case CKPT_I_TRACK:
		return ckpt_i_track();
	case CKPT_I_TRACER:
		/* 0x59616d61: PR_SET_PTRACER, which only Yama knows */
		prctl(0x59616d61, (unsigned long)order->a, 0L, 0L, 0L);
		return 0;
	}
	if (fd >= 0)
		close(fd);
	return 0; /* an order of a later version that needs no answer */
}

/* ckpt_i_await carries out orders until the message that ends a call comes. */
CKPT_I_OWN int ckpt_i_await(uint32_t kind, struct ckpt_i_header *end, int *fd, long *text)
{
	for (;;) {
		long n = ckpt_i_receive(end, fd);
		if (n < 0)
			return ckpt_i_broken("the agent (ckpt rank) is gone");
		if (end->kind == kind) {
			*text = n;
			return CKPT_OK;
		}
		if (ckpt_i_obey(end, n, *fd) != 0)
			return ckpt_i_broken("the agent (ckpt rank) is gone");
	}
}

/* ckpt_i_call makes a call and waits for its end. It returns the status. */
CKPT_I_OWN int ckpt_i_call(uint32_t kind, uint32_t value, int64_t a, int64_t b, const char *name, int64_t *result)
{
	struct ckpt_i_header end;
	long text = 0;
	int fd = -1, status;
	if (ckpt_i_send(kind, value, a, b, 0, name, name == NULL ? 0 : strlen(name), NULL, 0) != 0)
		return ckpt_i_broken("the agent (ckpt rank) is gone");
	status = ckpt_i_await(CKPT_I_GO, &end, &fd, &text);
	if (status != CKPT_OK)
		return status;
	if (fd >= 0)
		close(fd);
	if (result != NULL)
		*result = end.a;
	status = (int)(int32_t)end.value;
	if (status < 0)
		ckpt_i_fail(status, "%.*s", (int)(text < 500 ? text : 500), (const char *)CKPT_I->buffer);
	return status;
}

/* ckpt_i_ready reports whether a function has a coordinator to talk to. If not, *status
   is its result. */
CKPT_I_OWN int ckpt_i_ready(const char *function, int *status)
{
	switch (CKPT_I->phase) {
	case CKPT_I_CONNECTED:
		*status = CKPT_OK;
		return *CKPT_I->mine; /* a child of fork is no rank */
	case CKPT_I_ALONE:
		*status = CKPT_OK;
		return 0;
	case CKPT_I_BROKEN:
		*status = CKPT_SERVICE;
		return 0;
	case CKPT_I_NEW:
		*status = ckpt_i_fail(CKPT_ARGUMENT, "%s: call ckpt_init first", function);
		return 0;
	}
	*status = ckpt_i_fail(CKPT_ARGUMENT, "%s: called after ckpt_finalize", function);
	return 0;
}

/* ckpt_i_environment returns the environment of the agent: that of the program and three
   variables, which are written to own. */
CKPT_I_OWN char **ckpt_i_environment(char own[3][32], int rank, int size)
{
	size_t n = 0, i = 0, k = 0;
	char **list;
	snprintf(own[0], 32, "CKPT_RANK=%d", rank);
	snprintf(own[1], 32, "CKPT_SIZE=%d", size);
	snprintf(own[2], 32, "CKPT_CLIENT=3");
	while (environ[n] != NULL)
		n++;
	list = (char **)malloc((n + 4) * sizeof *list);
	if (list == NULL)
		return NULL;
	for (i = 0; i < n; i++)
		if (strncmp(environ[i], "CKPT_RANK=", 10) != 0 && strncmp(environ[i], "CKPT_SIZE=", 10) != 0 &&
		    strncmp(environ[i], "CKPT_CLIENT=", 12) != 0)
			list[k++] = environ[i];
	for (i = 0; i < 3; i++)
		list[k++] = own[i];
	list[k] = NULL;
	return list;
}

/* ckpt_i_actions says which descriptors the agent gets: the null device and the link. */
CKPT_I_OWN int ckpt_i_actions(posix_spawn_file_actions_t *actions, int link)
{
	int error = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDWR, 0);
	if (error == 0)
		error = posix_spawn_file_actions_adddup2(actions, 0, 1);
	if (error == 0)
		error = posix_spawn_file_actions_adddup2(actions, 0, 2);
	if (error == 0)
		error = posix_spawn_file_actions_adddup2(actions, link, 3);
#ifdef CKPT_I_CLOSEFROM
	if (error == 0)
		error = posix_spawn_file_actions_addclosefrom_np(actions, 4);
#endif
	return error;
}

/* ckpt_i_spawn starts the agent. It returns an errno. The process that it starts ends at
   once, having started the agent proper, so that the program has no child. */
CKPT_I_OWN int ckpt_i_spawn(const char *agent, int rank, int size, int link)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t all, none;
	char own[3][32], program[] = "ckpt", command[] = "rank";
	char *args[3], **env = ckpt_i_environment(own, rank, size);
	int error, status = 0;
	pid_t pid = -1, ended;

	args[0] = program;
	args[1] = command;
	args[2] = NULL;
	if (env == NULL)
		return ENOMEM;
	memset(&all, 0xff, sizeof all);
	memset(&none, 0, sizeof none);
	error = posix_spawn_file_actions_init(&actions);
	if (error == 0) {
		error = posix_spawnattr_init(&attributes);
		if (error == 0) {
			posix_spawnattr_setsigmask(&attributes, &none);
			posix_spawnattr_setsigdefault(&attributes, &all);
			posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
			error = ckpt_i_actions(&actions, link);
			if (error == 0)
				error = posix_spawn(&pid, agent, &actions, &attributes, args, env);
			posix_spawnattr_destroy(&attributes);
		}
		posix_spawn_file_actions_destroy(&actions);
	}
	free(env);
	if (error != 0)
		return error;
	do
		ended = waitpid(pid, &status, 0);
	while (ended < 0 && errno == EINTR);
	/* Without a child to wait for, the program ignores SIGCHLD or waited itself. */
	return ended == pid && status != 0 ? ECHILD : 0;
}

/* ckpt_i_above moves a descriptor out of the way of those that the agent gets. */
CKPT_I_OWN int ckpt_i_above(int fd)
{
#ifdef F_DUPFD_CLOEXEC
	int moved = fcntl(fd, F_DUPFD_CLOEXEC, 10);
#else
	int moved = fcntl(fd, 1030, 10);
#endif
	close(fd);
	return moved;
}

/* ckpt_i_prepare allocates what a connected client needs. */
CKPT_I_OWN int ckpt_i_prepare(void)
{
	CKPT_I->buffer = (uint64_t *)ckpt_i_memory(CKPT_I_MESSAGE);
	CKPT_I->mine = (char *)ckpt_i_memory(CKPT_I_PAGE);
	if (CKPT_I->buffer == NULL || CKPT_I->mine == NULL)
		return -1;
	madvise(CKPT_I->mine, CKPT_I_PAGE, 18); /* MADV_WIPEONFORK */
	*CKPT_I->mine = 1;
	return 0;
}

/* ckpt_i_greet waits for the agent's welcome, with the page. *refused says whether the
   agent itself says no. */
CKPT_I_OWN int ckpt_i_greet(int rank, int size, int *refused)
{
	struct ckpt_i_header end;
	long text = 0;
	int fd = -1, status;
	if (ckpt_i_send(CKPT_I_HELLO, CKPT_I_VERSION, rank, size, (int64_t)getpid(), "c", 1, NULL, 0) != 0)
		return ckpt_i_broken("the agent (ckpt rank) is gone");
	status = ckpt_i_await(CKPT_I_WELCOME, &end, &fd, &text);
	if (status != CKPT_OK)
		return status;
	*refused = 1;
	if ((int32_t)end.value < 0) {
		char what[sizeof CKPT_I->error];
		snprintf(what, sizeof what, "%.*s", (int)(text < 500 ? text : 500), (const char *)CKPT_I->buffer);
		if (fd >= 0)
			close(fd);
		ckpt_i_broken(what);
		return (int)(int32_t)end.value;
	}
	CKPT_I->page = fd < 0 ? NULL : (char *)ckpt_i_map(fd, CKPT_I_PAGE, 0);
	if (fd >= 0)
		close(fd);
	if (CKPT_I->page == NULL || *ckpt_i_word(0) != CKPT_I_MAGIC)
		return ckpt_i_broken("the agent (ckpt rank) has another version");
	return CKPT_OK;
}

/* ckpt_i_start starts an agent, and waits for its welcome. */
CKPT_I_OWN int ckpt_i_start(const char *agent, int rank, int size, int *refused)
{
	int pair[2], error;
	if (CKPT_I->link >= 0)
		close(CKPT_I->link);
	CKPT_I->link = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return ckpt_i_fail(CKPT_SERVICE, "ckpt_init: socketpair: %s", strerror(errno));
	pair[0] = ckpt_i_above(pair[0]);
	pair[1] = ckpt_i_above(pair[1]);
	CKPT_I->link = pair[0];
	error = ckpt_i_spawn(agent, rank, size, pair[1]);
	close(pair[1]);
	if (error != 0)
		return ckpt_i_fail(CKPT_SERVICE, "start the agent %.300s: %s", agent, error == ECHILD ? "it failed" : strerror(error));
	return ckpt_i_greet(rank, size, refused);
}

/* ckpt_i_leave ends a process that has a coordinator and no agent: it would compute
   without protection and, after a restart, from the beginning. */
CKPT_I_OWN void ckpt_i_leave(const char *what)
{
	fflush(NULL);
	fprintf(stderr, "ckpt: rank %d: %s: the process ends, since it cannot be protected\n", CKPT_I->rank, what);
	_exit(1);
}

CKPT_I_API int ckpt_init(int rank, int size)
{
	const char *agent = getenv("CKPT_AGENT"), *address = getenv("CKPT_SOCKET");
	char what[sizeof CKPT_I->error];
	int status = CKPT_SERVICE, refused = 0, tries;
	if (CKPT_I->phase != CKPT_I_NEW)
		return ckpt_i_fail(CKPT_ARGUMENT, "ckpt_init: called twice");
	if (rank < 0 || size <= rank)
		return ckpt_i_fail(CKPT_ARGUMENT, "ckpt_init: rank %d of %d is out of range", rank, size);
	CKPT_I->rank = rank;
	CKPT_I->phase = CKPT_I_ALONE;
	if (agent == NULL || address == NULL || *agent == 0 || *address == 0) {
		if (rank == 0)
			fprintf(stderr, "ckpt: no coordinator: the program runs without checkpoints (start it with ckpt launch -- COMMAND)\n");
		return CKPT_OK;
	}
	if (ckpt_i_prepare() != 0)
		ckpt_i_leave(strerror(errno));
	CKPT_I->link = -1;
	/* The other ranks wait for this one: an agent that was killed at its start, as when
	   memory is short, has a successor. */
	for (tries = 0; tries < 3 && !refused; tries++) {
		status = ckpt_i_start(agent, rank, size, &refused);
		if (status == CKPT_OK) {
			CKPT_I->phase = CKPT_I_CONNECTED;
			return CKPT_OK;
		}
	}
	memcpy(what, CKPT_I->error, sizeof what);
	if (!refused)
		ckpt_i_leave(what);
	CKPT_I->phase = CKPT_I_CONNECTED;
	ckpt_i_broken(what); /* the agent ends this process */
	return status;
}

CKPT_I_OWN struct ckpt_i_region *ckpt_i_find(const char *name)
{
	struct ckpt_i_region *r = CKPT_I->regions;
	while (r != NULL && strcmp(r->name, name) != 0)
		r = r->next;
	return r;
}

/* ckpt_i_check refuses arguments that the agent would refuse. */
CKPT_I_OWN int ckpt_i_check(const char *function, const char *name, const void *ptr, size_t bytes, int type)
{
	static const unsigned sizes[] = {1, 8, 4, 4, 8, 2, 2, 2, 1, 1};
	size_t i;
	if (name == NULL || *name == 0 || strlen(name) > 255)
		return ckpt_i_fail(CKPT_ARGUMENT, "%s: a name has 1 to 255 characters", function);
	for (i = 0; name[i] != 0; i++)
		if (name[i] < ' ' || name[i] > '~')
			return ckpt_i_fail(CKPT_ARGUMENT, "%s: character %d of the name is not printable ASCII", function, (int)i + 1);
	if (type < CKPT_BYTES || type > CKPT_INT8)
		return ckpt_i_fail(CKPT_ARGUMENT, "%s %s: unknown type %d", function, name, type);
	if (bytes % sizes[type] != 0)
		return ckpt_i_fail(CKPT_ARGUMENT, "%s %s: %lu bytes are no whole number of values of %u bytes",
				   function, name, (unsigned long)bytes, sizes[type]);
	if (bytes >= (size_t)1 << 47)
		return ckpt_i_fail(CKPT_ARGUMENT, "%s %s: %lu bytes are more than memory has", function, name, (unsigned long)bytes);
	if (ptr == NULL && bytes > 0)
		return ckpt_i_fail(CKPT_ARGUMENT, "%s %s: null pointer", function, name);
	return CKPT_OK;
}

/* ckpt_i_put appends a number to a payload. */
CKPT_I_OWN size_t ckpt_i_put(char *payload, size_t at, int64_t number)
{
	memcpy(payload + at, &number, sizeof number);
	return at + sizeof number;
}

/* ckpt_i_tell tells the agent of a region. */
CKPT_I_OWN int ckpt_i_tell(const struct ckpt_i_region *r)
{
	char payload[(3 + 9 * CKPT_DIMS) * sizeof(int64_t) + 512];
	size_t at = 0, array = r->array == NULL ? 0 : strlen(r->array);
	int i;
	if (r->sharing == CKPT_I_GLOBAL) {
		const struct ckpt_global *p = &r->part;
		at = ckpt_i_put(payload, at, p->dims);
		at = ckpt_i_put(payload, at, p->order);
		for (i = 0; i < p->dims; i++) {
			at = ckpt_i_put(payload, at, p->shape[i]);
			at = ckpt_i_put(payload, at, p->first[i]);
			at = ckpt_i_put(payload, at, p->count[i]);
			at = ckpt_i_put(payload, at, p->halo[i]);
			at = ckpt_i_put(payload, at, p->block[i]);
			at = ckpt_i_put(payload, at, p->stride[i]);
			at = ckpt_i_put(payload, at, p->lower[i]);
			at = ckpt_i_put(payload, at, p->upper[i]);
			at = ckpt_i_put(payload, at, p->pad[i]);
		}
		at = ckpt_i_put(payload, at, (int64_t)array);
		if (array > 0)
			memcpy(payload + at, r->array, array);
		at += array;
	}
	if (r->sharing == CKPT_I_INDEXED) {
		memcpy(payload, &r->index, sizeof r->index);
		at = sizeof r->index;
	}
	memcpy(payload + at, r->name, strlen(r->name));
	return ckpt_i_send(CKPT_I_PROTECT, (uint32_t)r->type, (int64_t)(uintptr_t)r->ptr, (int64_t)r->bytes, r->sharing,
			   payload, at + strlen(r->name), NULL, 0);
}

/* ckpt_i_note keeps a region in the list, and tells the agent. */
CKPT_I_OWN int ckpt_i_note(const char *function, const char *name, const struct ckpt_i_region *want)
{
	struct ckpt_i_region *r = ckpt_i_find(name);
	int status, ready = ckpt_i_ready(function, &status);
	if (status == CKPT_ARGUMENT)
		return status;
	if (r == NULL) {
		r = (struct ckpt_i_region *)calloc(1, sizeof *r + strlen(name) + 257);
		if (r == NULL)
			return ckpt_i_fail(CKPT_ARGUMENT, "%s %s: out of memory", function, name);
		r->name = (char *)(r + 1);
		strcpy(r->name, name);
		r->next = CKPT_I->regions;
		CKPT_I->regions = r;
	} else if (r->ptr == want->ptr && r->bytes == want->bytes && r->type == want->type && r->sharing == want->sharing &&
		   memcmp(&r->part, &want->part, sizeof r->part) == 0 && memcmp(&r->index, &want->index, sizeof r->index) == 0 &&
		   strcmp(r->array == NULL ? "" : r->array, want->array == NULL ? "" : want->array) == 0) {
		return status;
	}
	r->array = NULL;
	if (want->array != NULL) { /* there is room behind the name */
		r->array = r->name + strlen(name) + 1;
		memmove(r->array, want->array, strlen(want->array) + 1);
	}
	r->index = want->index;
	r->ptr = want->ptr;
	r->bytes = want->bytes;
	r->type = want->type;
	r->owned = want->owned;
	r->sharing = want->sharing;
	r->part = want->part;
	if (ready && ckpt_i_tell(r) != 0)
		return ckpt_i_broken("the agent (ckpt rank) is gone");
	return status;
}

/* ckpt_i_protect is ckpt_protect with what the region is to the other ranks. */
CKPT_I_OWN int ckpt_i_protect(const char *function, const char *name, void *ptr, size_t bytes, int type, int sharing,
			      const struct ckpt_global *part)
{
	const struct ckpt_i_region *r;
	struct ckpt_i_region want;
	int status = ckpt_i_check(function, name, ptr, bytes, type);
	if (status != CKPT_OK)
		return status;
	r = ckpt_i_find(name);
	if (r != NULL && r->owned > 0 && r->ptr != ptr)
		return ckpt_i_fail(CKPT_ARGUMENT, "%s %s: ckpt_alloc has memory of this name", function, name);
	memset(&want, 0, sizeof want);
	want.ptr = ptr;
	want.bytes = bytes;
	want.type = type;
	want.owned = r == NULL ? 0 : r->owned;
	want.sharing = sharing;
	if (part != NULL) {
		want.part = *part;
		want.part.array = NULL; /* it may be gone when the parts are compared */
		want.array = (char *)(uintptr_t)part->array;
	}
	return ckpt_i_note(function, name, &want);
}

CKPT_I_API int ckpt_protect(const char *name, void *ptr, size_t bytes, int type)
{
	return ckpt_i_protect("ckpt_protect", name, ptr, bytes, type, CKPT_I_LOCAL, NULL);
}

CKPT_I_API int ckpt_protect_replicated(const char *name, void *ptr, size_t bytes, int type)
{
	return ckpt_i_protect("ckpt_protect_replicated", name, ptr, bytes, type, CKPT_I_REPLICATED, NULL);
}

/* ckpt_i_dealt returns how many cells the blocks of a part have up to the end of an axis. */
CKPT_I_OWN long long ckpt_i_dealt(const struct ckpt_global *p, int i)
{
	long long rest = p->shape[i] - p->first[i], last;
	if (rest <= 0)
		return 0;
	last = rest % p->stride[i];
	return rest / p->stride[i] * p->block[i] + (last < p->block[i] ? last : p->block[i]);
}

/* ckpt_i_axis reports whether the numbers of an axis make sense. */
CKPT_I_OWN int ckpt_i_axis(const struct ckpt_global *p, int i)
{
	const long long most = 1ll << 47;
	if (p->shape[i] < 1 || p->shape[i] > most || p->first[i] < 0 || p->first[i] > p->shape[i] || p->count[i] < 0 ||
	    p->count[i] > p->shape[i] - p->first[i] || p->halo[i] < 0 || p->halo[i] > p->shape[i] || p->lower[i] < 0 ||
	    p->lower[i] > p->shape[i] || p->upper[i] < 0 || p->upper[i] > p->shape[i] || p->pad[i] < 0 || p->pad[i] > most)
		return 0;
	if (p->block[i] == 0)
		return p->stride[i] == 0;
	return p->block[i] > 0 && p->block[i] <= p->stride[i] && p->stride[i] <= most && p->halo[i] + p->lower[i] + p->upper[i] == 0 &&
	       (p->count[i] == 0 || p->first[i] + p->block[i] <= p->stride[i]) && p->count[i] == ckpt_i_dealt(p, i);
}

/* ckpt_i_part refuses a part that the agent would refuse, and copies it to *to without
   what is of no account. */
CKPT_I_OWN int ckpt_i_part(const char *name, size_t bytes, int type, const struct ckpt_global *part, struct ckpt_global *to)
{
	static const unsigned sizes[] = {1, 8, 4, 4, 8, 2, 2, 2, 1, 1};
	unsigned long long cells = 1, most = 1ull << 47;
	int i;
	memset(to, 0, sizeof *to);
	if (part == NULL || part->dims < 1 || part->dims > CKPT_DIMS)
		return ckpt_i_fail(CKPT_ARGUMENT, "ckpt_protect_global %s: an array has 1 to %d axes", name, CKPT_DIMS);
	if (part->order != CKPT_ROW_MAJOR && part->order != CKPT_COLUMN_MAJOR)
		return ckpt_i_fail(CKPT_ARGUMENT, "ckpt_protect_global %s: unknown order %d", name, part->order);
	if (part->array != NULL && ckpt_i_check("ckpt_protect_global", part->array, "", 0, CKPT_BYTES) != CKPT_OK)
		return CKPT_ARGUMENT;
	to->dims = part->dims;
	to->order = part->order;
	to->array = part->array;
	for (i = 0; i < part->dims; i++) {
		unsigned long long side;
		if (!ckpt_i_axis(part, i))
			return ckpt_i_fail(CKPT_ARGUMENT, "ckpt_protect_global %s: axis %d: %lld cells from %lld, halo %lld, block %lld, stride %lld are no part of %lld",
					   name, i, part->count[i], part->first[i], part->halo[i], part->block[i], part->stride[i], part->shape[i]);
		side = (unsigned long long)(part->count[i] + 2 * part->halo[i] + part->lower[i] + part->upper[i] + part->pad[i]);
		if (side > 0 && cells > most / side)
			return ckpt_i_fail(CKPT_ARGUMENT, "ckpt_protect_global %s: the part is larger than memory", name);
		cells *= side;
		to->shape[i] = part->shape[i];
		to->first[i] = part->first[i];
		to->count[i] = part->count[i];
		to->halo[i] = part->halo[i];
		to->block[i] = part->block[i];
		to->stride[i] = part->stride[i];
		to->lower[i] = part->lower[i];
		to->upper[i] = part->upper[i];
		to->pad[i] = part->pad[i];
	}
	if (cells == 0 ? bytes != 0 : bytes == 0 || bytes % (cells * sizes[type]) != 0)
		return ckpt_i_fail(CKPT_ARGUMENT, "ckpt_protect_global %s: %lu bytes do not hold %llu cells of values of %u bytes, halo included",
				   name, (unsigned long)bytes, cells, sizes[type]);
	return CKPT_OK;
}

CKPT_I_API int ckpt_protect_global(const char *name, void *ptr, size_t bytes, int type, const struct ckpt_global *part)
{
	struct ckpt_global plain;
	int status = ckpt_i_check("ckpt_protect_global", name, ptr, bytes, type);
	if (status == CKPT_OK)
		status = ckpt_i_part(name, bytes, type, part, &plain);
	if (status != CKPT_OK)
		return status;
	return ckpt_i_protect("ckpt_protect_global", name, ptr, bytes, type, CKPT_I_GLOBAL, &plain);
}

/* ckpt_i_mix is the hash of a number in a list. */
CKPT_I_OWN uint64_t ckpt_i_mix(uint64_t n)
{
	n += UINT64_C(0x9e3779b97f4a7c15);
	n = (n ^ n >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	n = (n ^ n >> 27) * UINT64_C(0x94d049bb133111eb);
	return n ^ n >> 31;
}

CKPT_I_API int ckpt_protect_indexed(const char *name, void *ptr, size_t bytes, int type, long long cells, const int64_t *ids,
				    long long own, long long held)
{
	static const unsigned sizes[] = {1, 8, 4, 4, 8, 2, 2, 2, 1, 1};
	const char *function = "ckpt_protect_indexed";
	char list[256];
	struct ckpt_i_region want;
	long long i;
	int status = ckpt_i_check(function, name, ptr, bytes, type);
	if (status != CKPT_OK)
		return status;
	if (strlen(name) > 251)
		return ckpt_i_fail(CKPT_ARGUMENT, "%s: a name has 1 to 251 characters", function);
	if (cells < 1 || own < 0 || held < own || (held > 0 && ids == NULL) ||
	    (held == 0 ? bytes != 0 : bytes == 0 || bytes % ((size_t)held * sizes[type]) != 0))
		return ckpt_i_fail(CKPT_ARGUMENT, "%s %s: %lu bytes, %lld cells held of %lld, %lld of them own: they do not fit together",
				   function, name, (unsigned long)bytes, held, cells, own);
	memset(&want, 0, sizeof want);
	want.ptr = ptr;
	want.bytes = bytes;
	want.type = type;
	want.sharing = CKPT_I_INDEXED;
	want.index.cells = cells;
	want.index.own = own;
	want.index.held = held;
	for (i = 0; i < held; i++) {
		if (ids[i] < 0 || ids[i] >= cells)
			return ckpt_i_fail(CKPT_ARGUMENT, "%s %s: cell %lld of the list is %lld of %lld", function, name, i, (long long)ids[i], cells);
		want.index.print += ckpt_i_mix((uint64_t)ids[i] ^ ckpt_i_mix((uint64_t)i));
		if (i >= own)
			continue;
		want.index.set += ckpt_i_mix((uint64_t)ids[i]);
		if (i == 0 || ids[i] < want.index.low)
			want.index.low = ids[i];
		if (ids[i] > want.index.high)
			want.index.high = ids[i];
	}
	snprintf(list, sizeof list, "%s.ids", name);
	status = ckpt_protect(list, (void *)(uintptr_t)ids, (size_t)held * sizeof *ids, CKPT_INT64);
	return status == CKPT_ARGUMENT ? status : ckpt_i_note(function, name, &want);
}

CKPT_I_API int ckpt_deal(struct ckpt_global *part, int axis, long long cells, long long block, int places, int place)
{
	long long whole, rest;
	if (part == NULL || axis < 0 || axis >= CKPT_DIMS || cells < 1 || cells > 1ll << 47 || block < 0 || block > 1ll << 31 || places < 1 ||
	    place < 0 || place >= places)
		return ckpt_i_fail(CKPT_ARGUMENT, "ckpt_deal: axis %d, %lld cells in blocks of %lld, place %d of %d: out of range", axis, cells, block, place, places);
	part->shape[axis] = cells;
	part->halo[axis] = part->block[axis] = part->stride[axis] = part->lower[axis] = part->upper[axis] = part->pad[axis] = 0;
	if (block == 0) {
		part->first[axis] = cells / places * place + (place < cells % places ? place : cells % places);
		part->count[axis] = cells / places + (place < cells % places);
		return CKPT_OK;
	}
	whole = cells / block / places; /* rounds in which every place gets a block */
	rest = cells - whole * places * block - place * block;
	part->first[axis] = place * block < cells ? place * block : cells;
	part->count[axis] = whole * block + (rest < 0 ? 0 : rest > block ? block : rest);
	part->block[axis] = block;
	part->stride[axis] = block * places;
	return CKPT_OK;
}

CKPT_I_API int ckpt_forget(const char *name)
{
	struct ckpt_i_region **at = &CKPT_I->regions, *r;
	int status, ready = ckpt_i_ready("ckpt_forget", &status);
	if (status == CKPT_ARGUMENT)
		return status;
	while (*at != NULL && (name == NULL || strcmp((*at)->name, name) != 0))
		at = &(*at)->next;
	if (*at == NULL)
		return ckpt_i_fail(CKPT_ARGUMENT, "ckpt_forget %s: no region has this name", name == NULL ? "(null)" : name);
	r = *at;
	*at = r->next;
	if (ready && ckpt_i_send(CKPT_I_FORGET, 0, 0, 0, 0, r->name, strlen(r->name), NULL, 0) != 0)
		status = ckpt_i_broken("the agent (ckpt rank) is gone");
	if (r->owned > 0)
		munmap(r->ptr, r->owned);
	if (r->sharing == CKPT_I_INDEXED) {
		char list[256];
		snprintf(list, sizeof list, "%.251s.ids", r->name);
		ckpt_forget(list);
	}
	free(r);
	return status;
}

/* ckpt_i_list tells the i-th region of this rank in the checkpoint to resume from, from 0. */
CKPT_I_API int ckpt_i_list(int i, char *name, size_t room, long long *bytes, int *type)
{
	struct ckpt_i_header end;
	long text = 0;
	int fd = -1, status;
	if (!ckpt_i_ready("ckpt_i_list", &status))
		return CKPT_NONE;
	if (ckpt_i_send(CKPT_I_QUERY, 1, i, 0, 0, NULL, 0, NULL, 0) != 0)
		return ckpt_i_broken("the agent (ckpt rank) is gone");
	status = ckpt_i_await(CKPT_I_GO, &end, &fd, &text);
	if (status != CKPT_OK || (int32_t)end.value != CKPT_OK)
		return status != CKPT_OK ? status : (int)(int32_t)end.value;
	snprintf(name, room, "%.*s", (int)text, (const char *)CKPT_I->buffer);
	*bytes = end.a / 16;
	*type = (int)(end.a % 16);
	return CKPT_OK;
}

CKPT_I_API void *ckpt_alloc(const char *name, size_t bytes, int type)
{
	size_t mapped = (bytes + CKPT_I_PAGE) & ~(size_t)(CKPT_I_PAGE - 1); /* a page if there are no bytes */
	struct ckpt_i_region *old, want;
	void *mem, *before = NULL;
	size_t owned = 0;
	if (ckpt_i_check("ckpt_alloc", name, "", bytes, type) != CKPT_OK)
		return NULL;
	old = ckpt_i_find(name);
	if (old != NULL && old->owned == 0) {
		ckpt_i_fail(CKPT_ARGUMENT, "ckpt_alloc %s: ckpt_protect has memory of this name", name);
		return NULL;
	}
	mem = ckpt_i_memory(mapped);
	if (mem == NULL) {
		ckpt_i_fail(CKPT_ARGUMENT, "ckpt_alloc %s: %lu bytes: %s", name, (unsigned long)bytes, strerror(errno));
		return NULL;
	}
	if (old != NULL) {
		before = old->ptr;
		owned = old->owned;
		memcpy(mem, before, old->bytes < bytes ? old->bytes : bytes);
	}
	memset(&want, 0, sizeof want);
	want.ptr = mem;
	want.bytes = bytes;
	want.type = type;
	want.owned = mapped;
	if (ckpt_i_note("ckpt_alloc", name, &want) == CKPT_ARGUMENT) {
		munmap(mem, mapped);
		return NULL;
	}
	if (before != NULL)
		munmap(before, owned);
	return mem;
}

CKPT_I_API int ckpt_file(const char *path)
{
	char name[256];
	struct ckpt_i_file *f;
	int status;
	if (path == NULL || *path == 0 || strlen(path) > 250)
		return ckpt_i_fail(CKPT_ARGUMENT, "ckpt_file: a path has 1 to 250 characters");
	snprintf(name, sizeof name, "file:%s", path);
	for (f = CKPT_I->files; f != NULL; f = f->next)
		if (strcmp(f->path, path) == 0)
			return CKPT_OK;
	f = (struct ckpt_i_file *)calloc(1, sizeof *f);
	if (f == NULL)
		return ckpt_i_fail(CKPT_ARGUMENT, "ckpt_file %s: out of memory", path);
	strcpy(f->path, path);
	status = ckpt_protect(name, &f->length, sizeof f->length, CKPT_INT64);
	if (status == CKPT_ARGUMENT) {
		free(f);
		return status;
	}
	f->next = CKPT_I->files;
	CKPT_I->files = f;
	return status;
}

/* ckpt_i_output is for Fortran, whose output the library of C does not flush. */
CKPT_I_API void ckpt_i_output(void (*flush)(void))
{
	CKPT_I->flush = flush;
}

/* ckpt_i_print lets what was printed leave the process: after a restart it is not printed again. */
CKPT_I_OWN void ckpt_i_print(void)
{
	fflush(stdout);
	if (CKPT_I->flush != NULL)
		CKPT_I->flush();
}

/* ckpt_i_measure notes how long the files are, for the checkpoint that may be taken. */
CKPT_I_OWN void ckpt_i_measure(void)
{
	struct ckpt_i_file *f;
	struct stat s;
	ckpt_i_print();
	for (f = CKPT_I->files; f != NULL; f = f->next)
		f->length = stat(f->path, &s) == 0 ? (int64_t)s.st_size : 0;
}

/* ckpt_i_cut gives the files the lengths of the checkpoint. */
CKPT_I_OWN int ckpt_i_cut(void)
{
	struct ckpt_i_file *f;
	struct stat s;
	for (f = CKPT_I->files; f != NULL; f = f->next) {
		int64_t is = stat(f->path, &s) == 0 ? (int64_t)s.st_size : 0;
		if (is < f->length)
			return ckpt_i_fail(CKPT_MISMATCH, "file %s has %lld bytes, and had %lld at the checkpoint: put it back, or restart from a checkpoint before",
					   f->path, (long long)is, (long long)f->length);
		if (is > f->length && truncate(f->path, f->length) != 0)
			return ckpt_i_fail(CKPT_IO, "file %s: %s", f->path, strerror(errno));
	}
	return CKPT_OK;
}

CKPT_I_API long ckpt_restore(void)
{
	int64_t step = 0;
	int status;
	if (!ckpt_i_ready("ckpt_restore", &status))
		return status == CKPT_SERVICE ? 0 : status;
	CKPT_I->changed = 0;
	status = ckpt_i_call(CKPT_I_RESTORE, 0, 0, 0, NULL, &step);
	if (status == CKPT_NONE || (status == CKPT_SERVICE && !CKPT_I->changed))
		return 0;
	if (status >= 0)
		status = ckpt_i_cut();
	return status < 0 ? status : (long)step;
}

CKPT_I_OWN int64_t ckpt_i_next(void)
{
	return __atomic_load_n(ckpt_i_word(CKPT_I_PASSED), __ATOMIC_RELAXED) + 1;
}

CKPT_I_OWN void ckpt_i_passed(int64_t count, long step)
{
	__atomic_store_n(ckpt_i_word(CKPT_I_STEP), (int64_t)step, __ATOMIC_RELAXED);
	__atomic_store_n(ckpt_i_word(CKPT_I_PASSED), count, __ATOMIC_SEQ_CST);
}

CKPT_I_API int ckpt_boundary(long step)
{
	int64_t count;
	int status;
	if (!ckpt_i_ready("ckpt_boundary", &status))
		return status;
	count = ckpt_i_next();
	ckpt_i_passed(count, step);
	if (count < __atomic_load_n(ckpt_i_word(CKPT_I_LIMIT), __ATOMIC_SEQ_CST) &&
	    __atomic_load_n(ckpt_i_word(CKPT_I_PENDING), __ATOMIC_RELAXED) == 0)
		return CKPT_OK;
	ckpt_i_measure();
	return ckpt_i_call(CKPT_I_BOUNDARY, 0, count, step, NULL, NULL);
}

CKPT_I_API int ckpt_save(long step)
{
	int64_t count;
	int status;
	if (!ckpt_i_ready("ckpt_save", &status))
		return status;
	count = ckpt_i_next();
	ckpt_i_measure();
	status = ckpt_i_call(CKPT_I_BOUNDARY, 1, count, step, NULL, NULL);
	ckpt_i_passed(count, step); /* not before: the other ranks must meet this one here */
	return status;
}

CKPT_I_API int ckpt_epoch(long step)
{
	int status;
	if (!ckpt_i_ready("ckpt_epoch", &status))
		return status;
	if (__atomic_load_n(ckpt_i_word(CKPT_I_EPOCHS), __ATOMIC_RELAXED) != 0)
		return ckpt_save(step);
	return ckpt_boundary(step);
}

CKPT_I_API int ckpt_wait(void)
{
	int status;
	if (!ckpt_i_ready("ckpt_wait", &status))
		return status;
	return ckpt_i_call(CKPT_I_WAIT, 0, 0, 0, NULL, NULL);
}

CKPT_I_API long long ckpt_query(const char *name)
{
	int64_t bytes = 0;
	int status = name != NULL && *name == 0 ? CKPT_OK : ckpt_i_check("ckpt_query", name, "", 0, CKPT_BYTES);
	if (status != CKPT_OK)
		return status;
	if (!ckpt_i_ready("ckpt_query", &status))
		return status == CKPT_OK ? CKPT_NONE : status;
	status = ckpt_i_call(CKPT_I_QUERY, 0, 0, 0, name, &bytes);
	return status < 0 ? status : (long long)bytes;
}

CKPT_I_API int ckpt_finalize(void)
{
	int status;
	if (ckpt_i_ready("ckpt_finalize", &status)) {
		ckpt_i_print();
		status = ckpt_i_call(CKPT_I_FINALIZE, 0, 0, 0, NULL, NULL);
		ckpt_i_reap(); /* the agent has waited for them */
		if (CKPT_I->phase == CKPT_I_CONNECTED)
			close(CKPT_I->link);
	}
	if (CKPT_I->phase != CKPT_I_NEW)
		CKPT_I->phase = CKPT_I_FINISHED;
	return status;
}

CKPT_I_API const char *ckpt_error(void) { return CKPT_I->error; }

CKPT_I_API void ckpt_progress(void (*function)(void)) { CKPT_I->progress = function; }

#if defined(MPI_VERSION)
CKPT_I_OWN void ckpt_i_probe(void)
{
	int begun = 0, ended = 0, found = 0;
	MPI_Initialized(&begun);
	if (begun)
		MPI_Finalized(&ended);
	if (begun && !ended)
		MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
}

/* It runs before main. */
__attribute__((constructor)) CKPT_I_OWN void ckpt_i_choose(void)
{
	if (CKPT_I->progress == NULL)
		CKPT_I->progress = ckpt_i_probe;
}
#endif

#ifdef __cplusplus
}
#endif
#endif
