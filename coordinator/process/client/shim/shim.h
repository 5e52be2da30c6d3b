/* ---- What the interfaces of other libraries share. It is no interface itself. ---- */
#ifndef CKPT_SHIM_H
#define CKPT_SHIM_H

#include <mpi.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Many files of a program may include this: the linker keeps one copy. */
#define CKPT_SHIM __attribute__((weak))

/* A file whose contents belong to a checkpoint. It is memory without a name, which this
   process and its children can open, and a region. */
struct ckpt_shim_file {
    int fd;
    void *at;
    size_t bytes;
    char region[256];
};

/* A region of the checkpoint whose memory waits until the program asks for it. */
struct ckpt_shim_staged {
    struct ckpt_shim_staged *next;
    void *mem;
    size_t bytes;
    char name[256];
};

struct ckpt_shim_state {
    MPI_Comm comm; /* our own, so that our messages are not the program's */
    int rank, begun;
    struct ckpt_shim_file *files;
    int file_count;
    struct ckpt_shim_staged *staged;
};
CKPT_SHIM struct ckpt_shim_state ckpt_shim = {MPI_COMM_NULL, 0, 0, NULL, 0, NULL};

CKPT_SHIM int ckpt_shim_refuse(const char *call, const char *reason) {
    fprintf(stderr, "ckpt: rank %d: %s: %s\n", ckpt_shim.rank, call, reason);
    return -1;
}

/* Say whether no rank has failed. */
CKPT_SHIM int ckpt_shim_all(int good) {
    int all = 0;
    good = good != 0;
    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_LAND, ckpt_shim.comm);
    return all;
}

CKPT_SHIM int ckpt_shim_begin(const char *call, MPI_Comm comm) {
    int size = 0;
    if (ckpt_shim.begun) return ckpt_shim_refuse(call, "called twice");
    MPI_Comm_dup(comm, &ckpt_shim.comm);
    MPI_Comm_rank(ckpt_shim.comm, &ckpt_shim.rank);
    MPI_Comm_size(ckpt_shim.comm, &size);
    if (ckpt_init(ckpt_shim.rank, size) < 0) return -1;
    ckpt_shim.begun = 1;
    return 0;
}

CKPT_SHIM void ckpt_shim_unstage(void) {
    while (ckpt_shim.staged != NULL) {
        struct ckpt_shim_staged *s = ckpt_shim.staged;
        ckpt_shim.staged = s->next;
        free(s->mem);
        free(s);
    }
}

CKPT_SHIM void ckpt_shim_file_end(struct ckpt_shim_file *f) {
    ckpt_forget(f->region);
    if (f->at != NULL) munmap(f->at, f->bytes);
    close(f->fd);
}

/* Forget files from the i-th on. */
CKPT_SHIM void ckpt_shim_files_end(int i) {
    for (int k = i; k < ckpt_shim.file_count; k++) ckpt_shim_file_end(&ckpt_shim.files[k]);
    if (i < ckpt_shim.file_count) ckpt_shim.file_count = i;
}

CKPT_SHIM int ckpt_shim_end(void) {
    if (!ckpt_shim.begun) return -1;
    int status = ckpt_finalize();
    ckpt_shim_files_end(0);
    ckpt_shim_unstage();
    MPI_Comm_free(&ckpt_shim.comm);
    ckpt_shim.begun = 0;
    return status < 0 ? -1 : 0;
}

/* End a program that ckpt has stopped, and that cannot be told so. */
CKPT_SHIM void ckpt_shim_leave(void) {
    ckpt_shim_end();
    MPI_Finalize();
    exit(0);
}

/* Take a checkpoint. A stopped job ends here, after it. */
CKPT_SHIM int ckpt_shim_save(long step) {
    int status = ckpt_save(step);
    if (status == CKPT_STOP) ckpt_shim_leave();
    return status;
}

/* Add a file under the name of its region, empty or as long as it was. */
CKPT_SHIM struct ckpt_shim_file *ckpt_shim_file_make(const char *call, const char *region, long long bytes) {
    int n = ckpt_shim.file_count;
    struct ckpt_shim_file *f = (struct ckpt_shim_file *)realloc(ckpt_shim.files, (size_t)(n + 1) * sizeof *f);
    if (f == NULL) return ckpt_shim_refuse(call, "out of memory"), (struct ckpt_shim_file *)NULL;
    ckpt_shim.files = f;
    f += n;
    memset(f, 0, sizeof *f);
    snprintf(f->region, sizeof f->region, "%s", region);
    f->fd = (int)syscall(SYS_memfd_create, "ckpt", 1 /* MFD_CLOEXEC */);
    if (f->fd < 0 || (bytes > 0 && ftruncate(f->fd, bytes) != 0)) {
        ckpt_shim_refuse(call, strerror(errno));
        if (f->fd >= 0) close(f->fd);
        return NULL;
    }
    ckpt_shim.file_count++;
    return f;
}

/* Protect the bytes that a file has now. */
CKPT_SHIM int ckpt_shim_file_map(const char *call, struct ckpt_shim_file *f) {
    off_t end = lseek(f->fd, 0, SEEK_END);
    void *old = f->at;
    size_t had = f->bytes;
    if (end < 0) return ckpt_shim_refuse(call, strerror(errno));
    f->at = NULL;
    f->bytes = (size_t)end;
    if (end > 0) {
        f->at = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
        if (f->at == MAP_FAILED) return f->at = NULL, ckpt_shim_refuse(call, strerror(errno));
    }
    int status = ckpt_protect(f->region, f->at, f->bytes, CKPT_BYTES);
    if (old != NULL) munmap(old, had);
    return status < 0 ? ckpt_shim_refuse(call, ckpt_error()) : 0;
}

/* The path under which this process and its children open a file. */
CKPT_SHIM void ckpt_shim_path(const struct ckpt_shim_file *f, char *to, size_t room) {
    snprintf(to, room, "/proc/%d/fd/%d", (int)getpid(), f->fd);
}

/* Take regions whose names begin with a prefix out of the list. */
CKPT_SHIM struct ckpt_i_region *ckpt_shim_set_aside(const char *prefix) {
    struct ckpt_i_region **at = &CKPT_I->regions, *aside = NULL;
    while (*at != NULL) {
        struct ckpt_i_region *r = *at;
        if (strncmp(r->name, prefix, strlen(prefix)) != 0) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        if (CKPT_I->phase == CKPT_I_CONNECTED)
            ckpt_i_send(CKPT_I_FORGET, 0, 0, 0, 0, r->name, strlen(r->name), NULL, 0);
        r->next = aside;
        aside = r;
    }
    return aside;
}

/* Read the checkpoint's regions whose names begin with a prefix into memory of their own, and
   fill all other memory. Returns what ckpt_restore does. */
CKPT_SHIM long ckpt_shim_stage(const char *call, const char *prefix) {
    struct ckpt_i_region *aside = ckpt_shim_set_aside(prefix);
    struct ckpt_shim_staged *s;
    long long bytes;
    char name[256];
    int type = 0, good = 1;
    for (int i = 0; good && ckpt_i_list(i, name, sizeof name, &bytes, &type) == CKPT_OK; i++) {
        if (strncmp(name, prefix, strlen(prefix)) != 0) continue;
        s = (struct ckpt_shim_staged *)calloc(1, sizeof *s);
        if (s != NULL) s->mem = malloc((size_t)bytes + 1);
        good = s != NULL && s->mem != NULL;
        if (!good) break;
        s->bytes = (size_t)bytes;
        memcpy(s->name, name, sizeof name);
        s->next = ckpt_shim.staged;
        ckpt_shim.staged = s;
        good = ckpt_protect(name, s->mem, s->bytes, type) >= 0;
    }
    long step = good ? ckpt_restore() : (long)ckpt_shim_refuse(call, "the memory of the checkpoint does not fit beside the program's");
    for (s = ckpt_shim.staged; s != NULL; s = s->next) ckpt_forget(s->name);
    while (aside != NULL) {
        struct ckpt_i_region *r = aside;
        aside = r->next;
        ckpt_i_note(call, r->name, r);
        free(r);
    }
    return step;
}

/* Fill memory from a staged region of at most so many bytes. Returns its bytes, or -1. */
CKPT_SHIM long long ckpt_shim_take(const char *name, void *ptr, size_t bytes) {
    for (struct ckpt_shim_staged *s = ckpt_shim.staged; s != NULL; s = s->next)
        if (strcmp(s->name, name) == 0 && s->bytes <= bytes) {
            memcpy(ptr, s->mem, s->bytes);
            return (long long)s->bytes;
        }
    return -1;
}

#ifdef __cplusplus
}
#endif
#endif

