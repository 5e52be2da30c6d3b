/*
 * ckpt_view.h: blocks of a file, read and written as if they lay next to each other.
 *
 * One header, C99 or C++11, nothing but libc on Linux. A view says which bytes of a file are
 * wanted. Reads and writes count wanted bytes only, and join several blocks and the holes
 * between them into one call where that takes less time on this storage (data sieving).
 *
 *     struct ckpt_view column;
 *     long long shape[2] = {1000, 1000};
 *     struct ckpt_view_slice part[2] = {{0, 1000, 1}, {0, 250, 4}};   // u[:, ::4]
 *     if (ckpt_view_slices(&column, 0, sizeof(double), 2, shape, part) != 0)
 *         fprintf(stderr, "%s\n", column.error);
 *     n = ckpt_view_read(&column, fd, u, 1000 * 250 * sizeof(double), 0);
 *     ckpt_view_free(&column);
 *
 * What a call costs comes from the file that the variable CKPT_VIEW_STORAGE names.
 * `ckpt bench sieve --dir DIR -o FILE` measures it. Without the variable, a call costs as
 * much as 200 KiB.
 *
 * Promises: the bytes are the same under every rule. No call is longer than the buffer. A
 * write changes no byte outside of its blocks: joined over a hole, it reads the hole and
 * writes it back under a lock of the range, and plain writes take the lock as well. So no
 * update is lost among writers that use views on open files of their own. The locks are
 * those of open file descriptions (fcntl_locking(2)): threads that share a descriptor, or a
 * view, take turns by themselves. A write is not atomic and not durable.
 *
 * The method is Zickler's (thesis, Hamburg 2015), with offsets of 64 bits.
 */
#ifndef CKPT_VIEW_H
#define CKPT_VIEW_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#elif defined(__STRICT_ANSI__)
/* -std=c99 hides them. */
ssize_t pread(int, void *, size_t, off_t);
ssize_t pwrite(int, const void *, size_t, off_t);
ssize_t preadv(int, const struct iovec *, int, off_t);
#endif

/* The calls to the file, for programs that put others in their place. */
#ifndef CKPT_VIEW_PREAD
#define CKPT_VIEW_PREAD pread
#define CKPT_VIEW_PREADV preadv
#define CKPT_VIEW_PWRITE pwrite
#define CKPT_VIEW_FCNTL fcntl
#endif

/* Which blocks one call takes in. */
enum ckpt_view_rule {
	CKPT_VIEW_ADAPTIVE, /* joins what saves time: device blocks, stripes, reads and writes apart */
	CKPT_VIEW_NAIVE,    /* a call for each block */
	CKPT_VIEW_ROMIO,    /* joins always, and fills the buffer */
	CKPT_VIEW_EXTENT,   /* joins always, from the first wanted byte to the last */
	CKPT_VIEW_SCANFILE, /* reads the whole range in whole stripes */
	CKPT_VIEW_PERFORMANCE_MODEL /* joins over holes that take less time than a call */
};

/* A block of size ≥ 1 cells, and the hole after it. */
struct ckpt_view_block {
	long long size, hole;
};

/* count cells of an axis: first, first + step, and so on. */
struct ckpt_view_slice {
	long long first, count, step;
};

struct ckpt_view_calls {
	long long reads, writes, locks, rewrites; /* calls; a rewrite reads and writes */
	long long bytes_read, bytes_written;      /* with holes */
};

struct ckpt_view_tuple_; /* a block and the sums up to it */

struct ckpt_view {
	/* Change these between calls as you like. */
	int rule;           /* enum ckpt_view_rule; the variable CKPT_VIEW_RULE names another */
	long long buffer;   /* the most bytes of a call; 4 MiB */
	double bytes_per_s; /* of this storage */
	double call_s;      /* what a call costs however short it is */
	long long stripe_bytes, block_bytes; /* 0: not known */
	int alone; /* not 0: nobody else writes to the file, locks are left out */
	void (*trace)(void *arg, int write, long long offset, long long length); /* before each call */
	void *trace_arg;

	/* Read these. */
	long long size; /* wanted bytes of the view */
	struct ckpt_view_calls calls;
	char error[240]; /* after a failure: what failed, and what to do */

	/* The rest belongs to the header. */
	long long initial_, wanted_, extent_;
	struct ckpt_view_tuple_ *tuples_;
	size_t n_;
	double even_;
	char *buf_;
	size_t cap_;
};

#define CKPT_VIEW_FOREVER (-1LL)

/*
 * ckpt_view_blocks makes a view that begins at a byte of the file and goes through n blocks
 * repeat times, or CKPT_VIEW_FOREVER. Sizes and holes count cells of so many bytes (the
 * etype of MPI). 0, or -1 with errno, and view->error says why.
 */
static inline int ckpt_view_blocks(struct ckpt_view *view, long long displacement, long long cell,
                                   const struct ckpt_view_block *blocks, size_t n, long long repeat);

/*
 * ckpt_view_slices makes a view of a part of an array with up to 16 axes that begins at a
 * byte of the file. The last axis runs fastest, as in C; for Fortran give the axes in
 * reverse order. Cells have so many bytes. 0, or -1 with errno.
 */
static inline int ckpt_view_slices(struct ckpt_view *view, long long displacement, long long cell, int dims,
                                   const long long *shape, const struct ckpt_view_slice *slices);

static inline void ckpt_view_free(struct ckpt_view *view);

/*
 * ckpt_view_read reads n wanted bytes from the wanted byte at offset on. It returns how many
 * it read, fewer where the view or the file ends, or -1 with errno, and view->error.
 */
static inline ssize_t ckpt_view_read(struct ckpt_view *view, int fd, void *p, size_t n, long long offset);

/*
 * ckpt_view_write writes n wanted bytes from the wanted byte at offset on, and nothing if
 * that goes beyond the view. Writes with holes read them: open the file with O_RDWR, and
 * without O_APPEND, with which all bytes would go to the end. It returns n, or -1 with errno,
 * and view->error; the blocks before the error are written.
 */
static inline ssize_t ckpt_view_write(struct ckpt_view *view, int fd, const void *p, size_t n, long long offset);

/* ---- what follows is no interface ---- */

struct ckpt_view_tuple_ {
	long long size, hole, start, until;
};

static inline int ckpt_view_fail_(struct ckpt_view *v, int code, const char *what, long long a, long long b)
{
	snprintf(v->error, sizeof v->error, what, a, b);
	errno = code;
	return -1;
}

static inline const char *ckpt_view_name_(int rule)
{
	static const char *const names[] = {"adaptive", "naive", "romio", "extent", "scanfile", "performance-model"};
	return rule >= 0 && rule < 6 ? names[rule] : NULL;
}

/* The number after "key": in a text of JSON, in units of 1, fractions cut; -1 without one. */
static inline long long ckpt_view_number_(const char *text, const char *key)
{
	char quoted[32];
	const char *at;
	char *end;
	long long n;
	snprintf(quoted, sizeof quoted, "\"%s\"", key);
	at = strstr(text, quoted);
	if (!at)
		return -1;
	at += strlen(quoted);
	at += strspn(at, " \t\n:");
	errno = 0;
	n = strtoll(at, &end, 10);
	end += *end == '.' ? 1 + strspn(end + 1, "0123456789") : 0;
	return end == at || errno || *end == 'e' || *end == 'E' ? -1 : n;
}

static inline int ckpt_view_storage_(struct ckpt_view *v, const char *name)
{
	char text[4096];
	long long rate, call, n;
	FILE *f = fopen(name, "r");
	if (!f) {
		int code = errno;
		snprintf(v->error, sizeof v->error, "CKPT_VIEW_STORAGE=%.120s: %s; ckpt bench sieve -o writes such a file", name, strerror(code));
		errno = code;
		return -1;
	}
	text[fread(text, 1, sizeof text - 1, f)] = 0;
	fclose(f);
	rate = ckpt_view_number_(text, "bytes_per_s");
	call = ckpt_view_number_(text, "call_ns");
	if (rate < 1024 || rate > 1LL << 50 || call < 1 || call > 60000000000LL) {
		snprintf(v->error, sizeof v->error, "CKPT_VIEW_STORAGE=%.120s: no bytes_per_s and call_ns that a storage can have; ckpt bench sieve -o writes such a file", name);
		errno = EINVAL;
		return -1;
	}
	v->bytes_per_s = (double)rate;
	v->call_s = (double)call / 1e9;
	n = ckpt_view_number_(text, "stripe_bytes");
	v->stripe_bytes = n > 0 ? n : 0;
	n = ckpt_view_number_(text, "block_bytes");
	v->block_bytes = n > 0 ? n : 0;
	return 0;
}

/* The settings of a new view. */
static inline int ckpt_view_begin_(struct ckpt_view *v)
{
	const char *text = getenv("CKPT_VIEW_RULE");
	memset(v, 0, sizeof *v);
	v->buffer = 4 << 20;
	v->bytes_per_s = 2147483648.0;
	v->call_s = 100e-6;
	v->block_bytes = 4096;
	if (text && *text) {
		while (ckpt_view_name_(v->rule) && strcmp(text, ckpt_view_name_(v->rule)) != 0)
			v->rule++;
		if (!ckpt_view_name_(v->rule)) {
			v->rule = CKPT_VIEW_ADAPTIVE;
			snprintf(v->error, sizeof v->error, "CKPT_VIEW_RULE=%.40s: want adaptive, naive, romio, extent, scanfile or performance-model", text);
			errno = EINVAL;
			return -1;
		}
	}
	text = getenv("CKPT_VIEW_STORAGE");
	return text && *text ? ckpt_view_storage_(v, text) : 0;
}

static inline int ckpt_view_tuples_(struct ckpt_view *v, long long initial, const struct ckpt_view_block *b, size_t n, long long cell, long long repeat)
{
	long long space = LLONG_MAX - initial, most;
	size_t i;
	if (initial < 0)
		return ckpt_view_fail_(v, EINVAL, "view: displacement %lld is negative", initial, 0);
	if (n == 0)
		return ckpt_view_fail_(v, EINVAL, "view: no blocks", 0, 0);
	if (repeat < 1 && repeat != CKPT_VIEW_FOREVER)
		return ckpt_view_fail_(v, EINVAL, "view: %lld repetitions: must be at least 1, or CKPT_VIEW_FOREVER", repeat, 0);
	if (n > SIZE_MAX / sizeof *v->tuples_ || !(v->tuples_ = (struct ckpt_view_tuple_ *)malloc(n * sizeof *v->tuples_)))
		return ckpt_view_fail_(v, ENOMEM, "view: no memory for %lld blocks", (long long)n, 0);
	for (i = 0; i < n; i++) {
		struct ckpt_view_tuple_ *t = &v->tuples_[i];
		if (b[i].size < 1 || b[i].hole < 0)
			return ckpt_view_fail_(v, EINVAL, "view: block %lld has size %lld: must be at least 1, and its hole at least 0", (long long)i, b[i].size);
		if (b[i].size > LLONG_MAX / cell || b[i].hole > LLONG_MAX / cell ||
		    b[i].hole * cell > space - v->extent_ - b[i].size * cell)
			return ckpt_view_fail_(v, EINVAL, "view: block %lld ends beyond the largest offset of a file", (long long)i, 0);
		t->size = b[i].size * cell;
		t->hole = b[i].hole * cell;
		t->start = v->extent_;
		t->until = v->wanted_ += t->size;
		v->extent_ += t->size + t->hole;
	}
	most = space / v->extent_;
	if (repeat == CKPT_VIEW_FOREVER)
		repeat = most;
	if (repeat > most)
		return ckpt_view_fail_(v, EINVAL, "view: %lld repetitions of %lld bytes end beyond the largest offset of a file", repeat, v->extent_);
	v->initial_ = initial;
	v->n_ = n;
	v->size = repeat * v->wanted_;
	return 0;
}

static inline int ckpt_view_blocks(struct ckpt_view *v, long long displacement, long long cell,
                                   const struct ckpt_view_block *blocks, size_t n, long long repeat)
{
	if (ckpt_view_begin_(v) != 0)
		return -1;
	if (cell < 1)
		return ckpt_view_fail_(v, EINVAL, "view: cells of %lld bytes: must be at least 1", cell, 0);
	if (ckpt_view_tuples_(v, displacement, blocks, n, cell, repeat) == 0)
		return 0;
	free(v->tuples_);
	v->tuples_ = NULL;
	return -1;
}

#define CKPT_VIEW_AXES_ 16
#define CKPT_VIEW_MOST_ (1LL << 20)

static inline int ckpt_view_slices(struct ckpt_view *v, long long displacement, long long cell, int dims,
                                   const long long *shape, const struct ckpt_view_slice *slices)
{
	long long count[CKPT_VIEW_AXES_], distance[CKPT_VIEW_AXES_]; /* levels, the innermost first */
	long long stride = cell, first = displacement, block = cell, extent, repeat = 1, n = 1, i;
	struct ckpt_view_block *b;
	int levels = 0, k, failed;
	if (ckpt_view_begin_(v) != 0)
		return -1;
	if (displacement < 0)
		return ckpt_view_fail_(v, EINVAL, "view: displacement %lld is negative", displacement, 0);
	if (cell < 1)
		return ckpt_view_fail_(v, EINVAL, "view: cells of %lld bytes: must be at least 1", cell, 0);
	if (dims < 1 || dims > CKPT_VIEW_AXES_)
		return ckpt_view_fail_(v, EINVAL, "view: %lld axes: must be between 1 and %lld", dims, CKPT_VIEW_AXES_);
	for (k = dims - 1; k >= 0; k--) {
		const struct ckpt_view_slice *s = &slices[k];
		if (s->first < 0 || s->count < 1 || s->step < 1 || s->first >= shape[k] ||
		    s->count - 1 > (shape[k] - 1 - s->first) / s->step)
			return ckpt_view_fail_(v, EINVAL, "view: the slice of axis %lld leaves its %lld cells", k, shape[k]);
		if (shape[k] > (LLONG_MAX - displacement) / stride)
			return ckpt_view_fail_(v, EINVAL, "view: the array ends beyond the largest offset of a file", 0, 0);
		first += s->first * stride;
		if (s->count == 1)
			;
		else if (levels == 0 && s->step * stride == block)
			block *= s->count;
		else if (levels > 0 && count[levels - 1] * distance[levels - 1] == s->step * stride)
			count[levels - 1] *= s->count;
		else {
			count[levels] = s->count;
			distance[levels++] = s->step * stride;
		}
		stride *= shape[k];
	}
	for (k = 0; k < levels - 1; k++) {
		if (count[k] > CKPT_VIEW_MOST_ / n)
			return ckpt_view_fail_(v, EINVAL, "view: more than %lld blocks before the outermost axis repeats: read that axis cell by cell", CKPT_VIEW_MOST_, 0);
		n *= count[k];
	}
	b = (struct ckpt_view_block *)malloc((size_t)n * sizeof *b);
	if (!b)
		return ckpt_view_fail_(v, ENOMEM, "view: no memory for %lld blocks", n, 0);
	b[0].size = extent = block;
	b[0].hole = 0;
	n = 1;
	for (k = 0; k < levels; k++) {
		b[n - 1].hole = distance[k] - extent;
		if (k == levels - 1) {
			repeat = count[k];
			break;
		}
		for (i = 1; i < count[k]; i++)
			memcpy(b + i * n, b, (size_t)n * sizeof *b);
		n *= count[k];
		extent += (count[k] - 1) * distance[k];
		b[n - 1].hole = 0;
	}
	failed = ckpt_view_tuples_(v, first, b, (size_t)n, 1, repeat);
	free(b);
	if (failed) {
		free(v->tuples_);
		v->tuples_ = NULL;
	}
	return failed;
}

static inline void ckpt_view_free(struct ckpt_view *v)
{
	free(v->tuples_);
	free(v->buf_);
	v->tuples_ = NULL;
	v->buf_ = NULL;
	v->cap_ = 0;
	v->size = 0;
}

/* A byte of a view. */
struct ckpt_view_cursor_ {
	long long base, in;
	size_t i;
};

/* One call: a range of the file, and what is wanted of it. */
struct ckpt_view_window_ {
	long long off, len, lead, data, pieces;
	struct ckpt_view_cursor_ at;
};

struct ckpt_view_plan_ {
	struct ckpt_view *v;
	int write;
	struct ckpt_view_cursor_ at;
	long long left, end;
};

struct ckpt_view_step_ {
	int write;
	long long start, len, data, hole, size, rest;
};

struct ckpt_view_decision_ {
	long long take, lead, fill;
};

static inline long long ckpt_view_min_(long long a, long long b) { return a < b ? a : b; }
static inline long long ckpt_view_max_(long long a, long long b) { return a > b ? a : b; }

static inline struct ckpt_view_cursor_ ckpt_view_at_(const struct ckpt_view *v, long long offset)
{
	struct ckpt_view_cursor_ c;
	long long rest = offset % v->wanted_;
	size_t low = 0, high = v->n_ - 1;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (v->tuples_[mid].until > rest)
			high = mid;
		else
			low = mid + 1;
	}
	c.base = v->initial_ + offset / v->wanted_ * v->extent_;
	c.i = low;
	c.in = rest - (v->tuples_[low].until - v->tuples_[low].size);
	return c;
}

/* The hole that a step of n bytes, at most to the end of the block, jumps over. */
static inline long long ckpt_view_advance_(const struct ckpt_view *v, struct ckpt_view_cursor_ *c, long long n)
{
	const struct ckpt_view_tuple_ *t = &v->tuples_[c->i];
	c->in += n;
	if (c->in < t->size)
		return 0;
	c->in = 0;
	if (++c->i == v->n_) {
		c->i = 0;
		c->base += v->extent_;
	}
	return t->hole;
}

/* The bytes of the device blocks that n bytes at off touch. */
static inline long long ckpt_view_moved_(const struct ckpt_view *v, long long off, long long n)
{
	long long unit = v->block_bytes;
	if (unit <= 1)
		return n;
	n += off % unit;
	return (n + unit - 1) / unit * unit;
}

static inline long long ckpt_view_multiple_(long long off, long long n, long long unit)
{
	long long end = off + ckpt_view_min_(n, LLONG_MAX - off);
	return end - end % unit;
}

static inline struct ckpt_view_decision_ ckpt_view_scanfile_(const struct ckpt_view *v, const struct ckpt_view_step_ *s)
{
	struct ckpt_view_decision_ d = {0, 0, 0};
	long long unit = v->stripe_bytes, end, space;
	if (unit < 1 || unit > v->buffer)
		unit = v->block_bytes;
	if (unit < 1 || unit > v->buffer)
		unit = 1;
	if (s->len == 0) {
		d.lead = s->write ? 0 : ckpt_view_max_(s->hole, s->start % unit);
		end = ckpt_view_multiple_(s->start - d.lead, v->buffer, unit);
		d.take = ckpt_view_max_(0, end - s->start);
		d.fill = end - (s->start - d.lead);
		return d;
	}
	end = s->start + s->len;
	space = ckpt_view_multiple_(s->start, v->buffer, unit) - end;
	if (s->size == 0)
		d.fill = ckpt_view_min_(space, (unit - end % unit) % unit);
	else if (s->hole >= space)
		d.fill = space;
	else
		d.take = space - s->hole;
	return d;
}

/* A block beyond the buffer is cut where a stripe or a device block ends. */
static inline long long ckpt_view_first_(const struct ckpt_view *v, const struct ckpt_view_step_ *s)
{
	long long units[2], end;
	int i;
	if (s->size <= v->buffer)
		return s->size;
	units[0] = v->stripe_bytes;
	units[1] = v->block_bytes;
	for (i = 0; i < 2; i++) {
		if (units[i] < 1)
			continue;
		end = ckpt_view_multiple_(s->start, v->buffer, units[i]);
		if (end > s->start)
			return end - s->start;
	}
	return v->buffer;
}

/* Whether joining a write over a hole pays. The first hole costs as much as two blocks save,
 * so the blocks to come count, as if all were like the next. */
static inline int ckpt_view_rewrite_(const struct ckpt_view *v, const struct ckpt_view_step_ *s, long long room)
{
	double apart = (double)ckpt_view_moved_(v, s->start + s->len + s->hole, s->size) + v->even_, join, plain;
	long long step = s->hole + s->size, n;
	if (s->data < s->len)
		return 2 * (double)(ckpt_view_moved_(v, s->start, s->len + step) - ckpt_view_moved_(v, s->start, s->len)) < apart;
	n = ckpt_view_min_(ckpt_view_min_((v->buffer - s->len) / step, room / step), s->rest / s->size);
	join = 2 * ((double)ckpt_view_moved_(v, s->start, s->len + n * step) + v->even_);
	plain = (double)ckpt_view_moved_(v, s->start, s->len) + v->even_;
	return join < plain + (double)n * apart;
}

static inline struct ckpt_view_decision_ ckpt_view_adaptive_(const struct ckpt_view *v, const struct ckpt_view_step_ *s)
{
	struct ckpt_view_decision_ d = {0, 0, 0};
	long long room = v->buffer, join;
	if (s->len == 0) {
		d.take = ckpt_view_first_(v, s);
		return d;
	}
	if (s->size == 0 || s->hole > v->buffer - s->len - s->size)
		return d;
	if (v->stripe_bytes > 0)
		room = v->stripe_bytes - 1 - (s->start + s->len - 1) % v->stripe_bytes;
	if (s->hole == 0 && s->data == s->len) {
		d.take = s->size;
		return d;
	}
	if (s->hole + s->size > room)
		return d;
	if (s->write) {
		d.take = ckpt_view_rewrite_(v, s, room) ? s->size : 0;
		return d;
	}
	join = ckpt_view_moved_(v, s->start, s->len + s->hole + s->size) - ckpt_view_moved_(v, s->start, s->len);
	if ((double)join < (double)ckpt_view_moved_(v, s->start + s->len + s->hole, s->size) + v->even_)
		d.take = s->size;
	return d;
}

static inline struct ckpt_view_decision_ ckpt_view_decide_(const struct ckpt_view *v, const struct ckpt_view_step_ *s)
{
	struct ckpt_view_decision_ d = {0, 0, 0};
	switch (v->rule) {
	case CKPT_VIEW_NAIVE:
		d.take = s->len > 0 ? 0 : s->size;
		return d;
	case CKPT_VIEW_ROMIO:
		if (s->len > 0 && s->hole >= v->buffer - s->len)
			d.fill = v->buffer - s->len;
		else
			d.take = s->size;
		return d;
	case CKPT_VIEW_EXTENT:
		d.take = s->size;
		return d;
	case CKPT_VIEW_SCANFILE:
		return ckpt_view_scanfile_(v, s);
	case CKPT_VIEW_PERFORMANCE_MODEL:
		d.take = s->len > 0 && (double)s->hole >= v->even_ ? 0 : s->size;
		return d;
	default:
		return ckpt_view_adaptive_(v, s);
	}
}

static inline struct ckpt_view_decision_ ckpt_view_ask_(const struct ckpt_view_plan_ *p, const struct ckpt_view_window_ *w, long long hole)
{
	struct ckpt_view_step_ s;
	s.write = p->write;
	s.start = w->off;
	s.len = w->len;
	s.data = w->data;
	s.hole = hole;
	s.size = ckpt_view_min_(p->v->tuples_[p->at.i].size - p->at.in, p->left);
	s.rest = p->left;
	return ckpt_view_decide_(p->v, &s);
}

/* Adds up to n bytes of the block to the window; whether that was its end, and the hole. */
static inline int ckpt_view_take_(struct ckpt_view_plan_ *p, struct ckpt_view_window_ *w, long long n, long long *hole)
{
	long long run = p->v->tuples_[p->at.i].size - p->at.in;
	n = ckpt_view_min_(ckpt_view_min_(n, run), ckpt_view_min_(p->left, p->v->buffer - w->len));
	w->len += n;
	w->data += n;
	w->pieces++;
	p->left -= n;
	*hole = ckpt_view_advance_(p->v, &p->at, n);
	return n == run;
}

/* The next window, or 0 after the last. */
static inline int ckpt_view_next_(struct ckpt_view_plan_ *p, struct ckpt_view_window_ *w)
{
	struct ckpt_view_decision_ d;
	long long gap, reach, hole = 0, space, buffer = p->v->buffer;
	int whole;
	if (p->left == 0)
		return 0;
	memset(w, 0, sizeof *w);
	w->off = p->at.base + p->v->tuples_[p->at.i].start + p->at.in;
	w->at = p->at;
	gap = p->end >= 0 ? w->off - p->end : 0;
	reach = p->end >= 0 ? gap : w->off;
	d = ckpt_view_ask_(p, w, gap);
	if (!p->write) {
		long long lead = ckpt_view_min_(ckpt_view_max_(0, d.lead), reach);
		if (d.take <= 0 && lead > 0 && d.fill > 0) {
			w->off -= lead;
			w->len = ckpt_view_min_(ckpt_view_min_(d.fill, lead), buffer);
			p->end = w->off + w->len;
			return 1;
		}
		w->lead = ckpt_view_min_(lead, buffer - 1);
		w->off -= w->lead;
		w->len = w->lead;
	}
	whole = ckpt_view_take_(p, w, d.take > 0 ? d.take : buffer, &hole);
	while (whole || p->left == 0) {
		d = ckpt_view_ask_(p, w, hole);
		space = buffer - w->len;
		if (p->left == 0 || d.take <= 0 || hole >= space) {
			if (p->left > 0)
				space = ckpt_view_min_(space, hole);
			if (!p->write)
				w->len += ckpt_view_min_(ckpt_view_min_(ckpt_view_max_(0, d.fill), space), LLONG_MAX - w->off - w->len);
			break;
		}
		w->len += hole;
		whole = ckpt_view_take_(p, w, d.take, &hole);
	}
	p->end = w->off + w->len;
	return 1;
}

static inline int ckpt_view_error_(struct ckpt_view *v, const char *op, long long off, long long len)
{
	int code = errno;
	snprintf(v->error, sizeof v->error, "%s %lld bytes at offset %lld: %s", op, len, off, strerror(code));
	errno = code;
	return -1;
}

static inline long long ckpt_view_all_(struct ckpt_view *v, int fd, char *p, long long n, long long off)
{
	long long done = 0;
	while (done < n) {
		ssize_t m = CKPT_VIEW_PREAD(fd, p + done, (size_t)(n - done), (off_t)(off + done));
		if (m == 0)
			break;
		if (m > 0)
			done += m;
		else if (errno != EINTR)
			return ckpt_view_error_(v, "read", off, n);
	}
	v->calls.bytes_read += done;
	return done;
}

static inline int ckpt_view_reserve_(struct ckpt_view *v, long long n)
{
	char *buf;
	if ((size_t)n <= v->cap_)
		return 0;
	n = ckpt_view_max_(n, ckpt_view_min_(2 * (long long)v->cap_, v->buffer));
	buf = (char *)malloc((size_t)n);
	if (!buf)
		return ckpt_view_fail_(v, ENOMEM, "view: no memory for a buffer of %lld bytes; set buffer", n, 0);
	free(v->buf_);
	v->buf_ = buf;
	v->cap_ = (size_t)n;
	return 0;
}

/* Copies between the blocks of the window, which is at buf, and p; up to got bytes of it. */
static inline long long ckpt_view_sieve_(const struct ckpt_view *v, const struct ckpt_view_window_ *w, char *buf, char *p, long long got, int out)
{
	struct ckpt_view_cursor_ c = w->at;
	long long pos = w->lead, left = w->data, done = 0, n;
	while (left > 0 && pos < got) {
		long long run = ckpt_view_min_(v->tuples_[c.i].size - c.in, left);
		n = ckpt_view_min_(run, got - pos);
		if (!out && n == 8)
			memcpy(p + done, buf + pos, 8);
		else if (!out)
			memcpy(p + done, buf + pos, (size_t)n);
		else
			memcpy(buf + pos, p + done, (size_t)n);
		done += n;
		left -= run;
		pos += run + ckpt_view_advance_(v, &c, run);
	}
	return done;
}

#define CKPT_VIEW_PIECES_ 128

/* Reads the blocks of the window in place and the holes into the buffer, with one call. -2:
 * this file takes no such call, or not all bytes came. */
static inline long long ckpt_view_scatter_(struct ckpt_view *v, int fd, const struct ckpt_view_window_ *w, char *p)
{
	struct iovec io[2 * CKPT_VIEW_PIECES_ + 1];
	struct ckpt_view_cursor_ c = w->at;
	long long pos = w->lead, left = w->data, hole, n;
	ssize_t m;
	int k = 0;
	if (pos > 0) {
		io[k].iov_base = v->buf_;
		io[k++].iov_len = (size_t)pos;
	}
	while (left > 0) {
		n = ckpt_view_min_(v->tuples_[c.i].size - c.in, left);
		io[k].iov_base = p;
		io[k++].iov_len = (size_t)n;
		p += n;
		left -= n;
		pos += n;
		hole = left > 0 ? ckpt_view_advance_(v, &c, n) : w->len - pos;
		if (hole > 0) {
			io[k].iov_base = v->buf_;
			io[k++].iov_len = (size_t)hole;
			pos += hole;
		}
	}
	m = CKPT_VIEW_PREADV(fd, io, k, (off_t)w->off);
	if (m != (ssize_t)w->len)
		return -2;
	v->calls.bytes_read += m;
	return w->data;
}

static inline long long ckpt_view_readwindow_(struct ckpt_view *v, int fd, const struct ckpt_view_window_ *w, char *p, int *ended)
{
	long long got, done;
	v->calls.reads++;
	if (v->trace)
		v->trace(v->trace_arg, 0, w->off, w->len);
	if (w->len == w->data) {
		got = ckpt_view_all_(v, fd, p, w->len, w->off);
		*ended = got >= 0 && got < w->len;
		return got;
	}
	if (ckpt_view_reserve_(v, w->len) != 0)
		return -1;
	if (w->pieces > 0 && w->pieces <= CKPT_VIEW_PIECES_ && w->data / w->pieces >= 2048) {
		done = ckpt_view_scatter_(v, fd, w, p);
		if (done >= 0)
			return done;
	}
	got = ckpt_view_all_(v, fd, v->buf_, w->len, w->off);
	if (got < 0)
		return -1;
	done = ckpt_view_sieve_(v, w, v->buf_, p, got, 0);
	*ended = w->data > 0 ? done < w->data : got < w->len;
	return done;
}

static inline int ckpt_view_usable_(struct ckpt_view *v, long long offset)
{
	if (!v->tuples_)
		return ckpt_view_fail_(v, EINVAL, "view: it was not made, or freed", 0, 0);
	if (offset < 0)
		return ckpt_view_fail_(v, EINVAL, "view: offset %lld is negative", offset, 0);
	if (v->buffer < 1 || v->buffer > 1LL << 30)
		return ckpt_view_fail_(v, EINVAL, "view: buffer of %lld bytes: must be between 1 byte and 1 GiB", v->buffer, 0);
	if (!ckpt_view_name_(v->rule))
		return ckpt_view_fail_(v, EINVAL, "view: no rule %lld: use one of enum ckpt_view_rule", v->rule, 0);
	if (!(v->bytes_per_s >= 0 && v->bytes_per_s <= 1e18) || !(v->call_s >= 0 && v->call_s <= 1e9) ||
	    v->stripe_bytes < 0 || v->stripe_bytes > 1LL << 40 || v->block_bytes < 0 || v->block_bytes > 1LL << 40)
		return ckpt_view_fail_(v, EINVAL, "view: a number of the storage is out of range: bytes_per_s, call_s, stripe_bytes, block_bytes", 0, 0);
	v->even_ = v->bytes_per_s * v->call_s;
	return 0;
}

static inline void ckpt_view_start_(struct ckpt_view_plan_ *p, struct ckpt_view *v, int write, size_t n, long long offset)
{
	memset(p, 0, sizeof *p);
	p->v = v;
	p->write = write;
	p->end = -1;
	if (offset < v->size && n > 0) {
		p->at = ckpt_view_at_(v, offset);
		p->left = n > (size_t)(v->size - offset) ? v->size - offset : (long long)n;
	}
}

static inline ssize_t ckpt_view_read(struct ckpt_view *v, int fd, void *p, size_t n, long long offset)
{
	struct ckpt_view_plan_ plan;
	struct ckpt_view_window_ w;
	long long done = 0;
	int ended = 0;
	if (ckpt_view_usable_(v, offset) != 0)
		return -1;
	ckpt_view_start_(&plan, v, 0, n, offset);
	while (!ended && ckpt_view_next_(&plan, &w)) {
		long long m = ckpt_view_readwindow_(v, fd, &w, (char *)p + done, &ended);
		if (m < 0)
			return -1;
		done += m;
	}
	return (ssize_t)done;
}

#ifdef F_OFD_SETLKW
#define CKPT_VIEW_SETLKW_ F_OFD_SETLKW
#else
#define CKPT_VIEW_SETLKW_ 38 /* hidden by -std=c99 */
#endif

static inline int ckpt_view_lock_(struct ckpt_view *v, int fd, short type, const struct ckpt_view_window_ *w)
{
	struct flock l;
	if (v->alone)
		return 0;
	memset(&l, 0, sizeof l);
	l.l_type = type;
	l.l_whence = SEEK_SET;
	l.l_start = (off_t)w->off;
	l.l_len = (off_t)w->len;
	while (CKPT_VIEW_FCNTL(fd, CKPT_VIEW_SETLKW_, &l) != 0)
		if (errno != EINTR)
			return ckpt_view_error_(v, type == F_UNLCK ? "unlock" : "lock", w->off, w->len);
	return 0;
}

/* What happens under the lock. */
static inline int ckpt_view_store_(struct ckpt_view *v, int fd, const struct ckpt_view_window_ *w, const char *p)
{
	const char *from = p;
	long long done = 0;
	if (w->len != w->data) {
		long long got;
		v->calls.rewrites++;
		v->calls.reads++;
		if (v->trace)
			v->trace(v->trace_arg, 0, w->off, w->len);
		got = ckpt_view_all_(v, fd, v->buf_, w->len, w->off);
		if (got < 0)
			return -1;
		memset(v->buf_ + got, 0, (size_t)(w->len - got));
		ckpt_view_sieve_(v, w, v->buf_, (char *)(uintptr_t)p, w->len, 1);
		from = v->buf_;
	}
	v->calls.writes++;
	if (v->trace)
		v->trace(v->trace_arg, 1, w->off, w->len);
	while (done < w->len) {
		ssize_t m = CKPT_VIEW_PWRITE(fd, from + done, (size_t)(w->len - done), (off_t)(w->off + done));
		if (m == 0)
			errno = ENOSPC;
		if (m > 0)
			done += m;
		else if (m == 0 || errno != EINTR)
			return ckpt_view_error_(v, "write", w->off, w->len);
	}
	v->calls.bytes_written += done;
	return 0;
}

static inline ssize_t ckpt_view_write(struct ckpt_view *v, int fd, const void *p, size_t n, long long offset)
{
	struct ckpt_view_plan_ plan;
	struct ckpt_view_window_ w;
	long long done = 0;
	int flags;
	if (ckpt_view_usable_(v, offset) != 0)
		return -1;
	if (n > 0 && (offset > v->size || n > (size_t)(v->size - offset)))
		return ckpt_view_fail_(v, EINVAL, "view: %lld bytes at offset %lld go beyond its end", (long long)n, offset);
	flags = fcntl(fd, F_GETFL);
	if (flags != -1 && flags & O_APPEND)
		return ckpt_view_fail_(v, EINVAL, "view: a file that is open with O_APPEND is written at its end only", 0, 0);
	ckpt_view_start_(&plan, v, 1, n, offset);
	while (ckpt_view_next_(&plan, &w)) {
		char first[sizeof v->error];
		int failed, code;
		if (w.len != w.data && ckpt_view_reserve_(v, w.len) != 0)
			return -1;
		v->calls.locks++;
		if (ckpt_view_lock_(v, fd, F_WRLCK, &w) != 0)
			return -1;
		failed = ckpt_view_store_(v, fd, &w, (const char *)p + done);
		code = errno;
		if (failed) /* the text of the first error stays */
			memcpy(first, v->error, sizeof first);
		if (ckpt_view_lock_(v, fd, F_UNLCK, &w) != 0 && !failed)
			return -1;
		if (failed) {
			memcpy(v->error, first, sizeof first);
			errno = code;
			return -1;
		}
		done += w.data;
	}
	return (ssize_t)done;
}

#ifdef __cplusplus
}
#endif
#endif
