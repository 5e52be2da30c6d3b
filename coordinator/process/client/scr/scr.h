/* scr.h: SCR's interface in C on top of ckpt.h, and the names that a program in Fortran calls.
 *
 *     ckpt sdk c -o ckpt.h && ckpt sdk scr -o scr.h
 *     mpicc heat_scr.c -o heat
 *     ckpt launch --every 30m --auto-restart -- mpiexec -n 8 ./heat 4096 10000
 *
 * Programs that write a checkpoint into files that SCR_Route_file names compile unchanged. Names
 * and arguments come from SCR's public interface; the code is our own.
 *
 * Differences from SCR:
 *   - Configuration files are not read: the options of "ckpt launch" say where checkpoints go,
 *     and when SCR_Need_checkpoint says yes; with --every N at each N-th call. Of SCR's
 *     parameters SCR_CHECKPOINT_INTERVAL counts beside them.
 *   - A file of a checkpoint is memory of the process, and a part of the checkpoint of ckpt: it
 *     has hashes, levels and retention like all others. Only the rank and its children can open
 *     it. Two ranks cannot write one file of a checkpoint together.
 *   - With SCR_FLAG_OUTPUT, the files are there under their names as well, with that flag alone
 *     only there.
 *   - Only the newest checkpoint is offered. Where the program calls it invalid, ckpt restart
 *     JOB@N has an older one.
 *   - "ckpt stop" and the end of the walltime have SCR_Should_exit say yes after the next
 *     checkpoint. A program that does not ask ends when it begins another one.
 *   - SCR_Drop and SCR_Delete remove nothing: "ckpt prune" does. SCR_Current is refused.
 */
#ifndef SCR_H
#define SCR_H

#define SCR_MAJOR_VERSION "3"
#define SCR_MINOR_VERSION "1"
#define SCR_PATCH_VERSION "0"
#define SCR_VERSION "v3.1.0"
#define SCR_SUCCESS (0)
#define SCR_MAX_FILENAME 1024
#define SCR_FLAG_NONE (0 << 0)
#define SCR_FLAG_CHECKPOINT (1 << 0)
#define SCR_FLAG_OUTPUT (1 << 1)

#ifdef __cplusplus
extern "C" {
#endif

#ifndef __cplusplus
/* Strict C99 hides these declarations of libc. */
extern int setenv(const char *name, const char *value, int replace);
extern int unsetenv(const char *name);
#endif

#define SCR_ONCE CKPT_SHIM
#define SCR_I_FAILURE (1)
#define SCR_I_FILE "scr.file:"

struct scr_state {
    long id;                /* of the newest dataset; itself a region, under the dataset's name */
    char label[256];        /* the name of that region */
    char name[256];         /* of the dataset that is written or read */
    int flags;              /* of that dataset */
    int writing, reading;
    int failed;             /* to route a file of it */
    int stopped;            /* ckpt has stopped the job */
    int invalid;            /* the program has called the checkpoint so */
    int resumed;            /* the memory of the checkpoint was read */
    long calls, period;     /* of SCR_Need_checkpoint since a checkpoint, and between two of them */
    int64_t scheduled;      /* the boundary for which ckpt has planned a checkpoint */
};
SCR_ONCE struct scr_state scr_state = {0, "", "", 0, 0, 0, 0, 0, 0, 0, 0, 0, -1};

SCR_ONCE int scr_refuse(const char *call, const char *reason) {
    ckpt_shim_refuse(call, reason);
    return SCR_I_FAILURE;
}

SCR_ONCE int SCR_Init(void) { return ckpt_shim_begin("SCR_Init", MPI_COMM_WORLD) == 0 ? SCR_SUCCESS : SCR_I_FAILURE; }

SCR_ONCE int SCR_Finalize(void) { return ckpt_shim_end() == 0 ? SCR_SUCCESS : SCR_I_FAILURE; }

SCR_ONCE char *SCR_Get_version(void) { return (char *)(uintptr_t)SCR_VERSION; }

/* KEY=VALUE sets a variable of the environment whose name begins with SCR_, KEY returns it. Other
   settings say where SCR keeps files, and are of no account. */
SCR_ONCE const char *SCR_Config(const char *config) {
    char key[256];
    const char *value = strchr(config, '=');
    size_t n = value == NULL ? strlen(config) : (size_t)(value - config);
    if (strncmp(config, "SCR_", 4) != 0 || strchr(config, ' ') != NULL || n >= sizeof key)
        return value == NULL ? NULL : value + 1;
    memcpy(key, config, n);
    key[n] = '\0';
    if (value == NULL) {
        const char *is = getenv(key);
        char *copy = is == NULL ? NULL : (char *)malloc(strlen(is) + 1);
        return copy == NULL ? NULL : strcpy(copy, is);
    }
    if (value[1] == '\0') return unsetenv(key), (const char *)NULL;
    setenv(key, value + 1, 1);
    return value + 1;
}

__attribute__((format(printf, 1, 2))) SCR_ONCE const char *SCR_Configf(const char *format, ...) {
    static char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return SCR_Config(text);
}

/* Find the checkpoint to resume from: its name, or an empty one. */
SCR_ONCE void scr_newest(char *name) {
    char region[256];
    long long bytes;
    int type;
    name[0] = '\0';
    if (!ckpt_shim.begun || scr_state.resumed) return;
    for (int i = 0; ckpt_i_list(i, region, sizeof region, &bytes, &type) == CKPT_OK; i++)
        if (strncmp(region, "scr:", 4) == 0) snprintf(name, sizeof region, "%s", region + 4);
}

/* A program that calls its checkpoint invalid does not begin anew: its work would be lost. */
SCR_ONCE void scr_usable(const char *call) {
    if (!scr_state.invalid) return;
    scr_refuse(call, "the program has called the checkpoint invalid; ckpt restart JOB@N resumes from an older one");
    sleep(1); /* a launcher loses lines that it gets together with the end */
    MPI_Abort(MPI_COMM_WORLD, 1);
}

SCR_ONCE int SCR_Have_restart(int *flag, char *name) {
    char newest[256];
    *flag = 0;
    if (!ckpt_shim.begun) return scr_refuse("SCR_Have_restart", "call SCR_Init first");
    scr_usable("SCR_Have_restart");
    scr_newest(newest);
    *flag = newest[0] != '\0';
    if (*flag && name != NULL) strcpy(name, newest);
    return SCR_SUCCESS;
}

/* Name the region that holds the number of the dataset after the dataset. */
SCR_ONCE int scr_label(const char *call, const char *name) {
    char label[sizeof scr_state.label];
    int n = snprintf(label, sizeof label, "scr:%s", name);
    if (n < 0 || (size_t)n >= sizeof label) return scr_refuse(call, "the name is longer than 251 bytes");
    if (scr_state.label[0] != '\0') ckpt_forget(scr_state.label);
    memcpy(scr_state.label, label, sizeof label);
    memcpy(scr_state.name, label + 4, sizeof label - 4);
    if (ckpt_protect(label, &scr_state.id, sizeof scr_state.id, CKPT_INT64) < 0) return scr_refuse(call, ckpt_error());
    return SCR_SUCCESS;
}

/* The files are read here. */
SCR_ONCE int SCR_Start_restart(char *name) {
    const char *call = "SCR_Start_restart";
    char region[256];
    long long bytes;
    int type, flag = 0;
    if (scr_state.writing || scr_state.reading) return scr_refuse(call, "another dataset has not ended");
    if (SCR_Have_restart(&flag, name) != SCR_SUCCESS || !flag) return scr_refuse(call, "there is no checkpoint");
    scr_newest(region);
    if (scr_label(call, region) != SCR_SUCCESS) return SCR_I_FAILURE;
    for (int i = 0; ckpt_i_list(i, region, sizeof region, &bytes, &type) == CKPT_OK; i++) {
        if (strncmp(region, SCR_I_FILE, strlen(SCR_I_FILE)) != 0) continue;
        struct ckpt_shim_file *f = ckpt_shim_file_make(call, region, bytes);
        if (f == NULL || ckpt_shim_file_map(call, f) != 0) return SCR_I_FAILURE;
    }
    if (ckpt_restore() < 0) return scr_refuse(call, ckpt_error());
    scr_state.resumed = scr_state.reading = 1;
    return SCR_SUCCESS;
}

SCR_ONCE int SCR_Complete_restart(int valid) {
    if (!scr_state.reading) return scr_refuse("SCR_Complete_restart", "call SCR_Start_restart first");
    scr_state.reading = 0;
    ckpt_shim_files_end(0);
    if (ckpt_shim_all(valid)) return SCR_SUCCESS;
    scr_state.invalid = 1;
    return SCR_I_FAILURE;
}

/* Say whether ckpt wants a checkpoint at the next boundary, as rank 0 sees it, and learn how
   many boundaries lie between two: calls stand for them here. */
SCR_ONCE int scr_wanted(void) {
    if (CKPT_I->phase != CKPT_I_CONNECTED) return 0;
    int64_t next = ckpt_i_next(), limit = __atomic_load_n(ckpt_i_word(CKPT_I_LIMIT), __ATOMIC_SEQ_CST);
    if (limit > next && limit < (int64_t)1 << 31) {
        scr_state.scheduled = limit;
        if (limit - next + 1 > scr_state.period) scr_state.period = (long)(limit - next + 1);
    }
    return (limit <= next && limit != scr_state.scheduled) || __atomic_load_n(ckpt_i_word(CKPT_I_PENDING), __ATOMIC_RELAXED) != 0 ||
           (scr_state.period > 0 && scr_state.calls >= scr_state.period);
}

SCR_ONCE int SCR_Need_checkpoint(int *flag) {
    const char *every = getenv("SCR_CHECKPOINT_INTERVAL");
    int need = 0;
    *flag = 0;
    if (!ckpt_shim.begun) return scr_refuse("SCR_Need_checkpoint", "call SCR_Init first");
    if (!scr_state.resumed && ckpt_query("") <= 0) { /* there is nothing to read: the run begins */
        ckpt_restore();
        scr_state.resumed = 1;
    }
    scr_state.calls++;
    if (ckpt_shim.rank == 0) need = scr_wanted() || (every != NULL && atol(every) > 0 && scr_state.calls >= atol(every));
    MPI_Bcast(&need, 1, MPI_INT, 0, ckpt_shim.comm);
    *flag = need;
    return SCR_SUCCESS;
}

SCR_ONCE int SCR_Should_exit(int *flag) {
    if (!ckpt_shim.begun) return scr_refuse("SCR_Should_exit", "call SCR_Init first");
    *flag = scr_state.stopped;
    if (scr_state.stopped) scr_state.stopped = 2; /* the program knows */
    return SCR_SUCCESS;
}

SCR_ONCE int SCR_Start_output(const char *name, int flags) {
    const char *call = "SCR_Start_output";
    char numbered[64];
    if (!ckpt_shim.begun) return scr_refuse(call, "call SCR_Init first");
    if (scr_state.writing || scr_state.reading) return scr_refuse(call, "another dataset has not ended");
    if (scr_state.stopped == 1) ckpt_shim_leave();
    scr_usable(call);
    scr_state.flags = flags;
    scr_state.failed = 0;
    if (flags & SCR_FLAG_CHECKPOINT) {
        scr_state.id++;
        snprintf(numbered, sizeof numbered, "ckpt.%ld", scr_state.id);
        if (scr_label(call, name != NULL && name[0] != '\0' ? name : numbered) != SCR_SUCCESS) return SCR_I_FAILURE;
    }
    scr_state.writing = 1;
    return SCR_SUCCESS;
}

SCR_ONCE int SCR_Start_checkpoint(void) { return SCR_Start_output(NULL, SCR_FLAG_CHECKPOINT); }

/* The last part of a path. */
SCR_ONCE const char *scr_base(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* Find a file by its name, or by the last part of it if no other file has that. */
SCR_ONCE struct ckpt_shim_file *scr_find(const char *name, int alike) {
    struct ckpt_shim_file *found = NULL;
    int many = 0;
    for (int i = 0; i < ckpt_shim.file_count; i++) {
        struct ckpt_shim_file *f = &ckpt_shim.files[i];
        const char *is = f->region + strlen(SCR_I_FILE);
        if (strcmp(is, name) == 0) return f;
        if (alike && strcmp(scr_base(is), scr_base(name)) == 0) found = f, many++;
    }
    return many == 1 ? found : NULL;
}

/* Make the directories of a path. */
SCR_ONCE void scr_directories(const char *path) {
    char dir[SCR_MAX_FILENAME];
    snprintf(dir, sizeof dir, "%s", path);
    for (char *at = strchr(dir + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(dir, 0777);
        *at = '/';
    }
}

SCR_ONCE int SCR_Route_file(const char *name, char *file) {
    const char *call = "SCR_Route_file";
    char region[256];
    struct ckpt_shim_file *f;
    if (!scr_state.writing && !scr_state.reading) { /* a plain file */
        snprintf(file, SCR_MAX_FILENAME, "%s", name);
        return ckpt_shim.begun ? SCR_SUCCESS : SCR_I_FAILURE;
    }
    if (scr_state.writing && !(scr_state.flags & SCR_FLAG_CHECKPOINT)) {
        scr_directories(name);
        snprintf(file, SCR_MAX_FILENAME, "%s", name);
        return SCR_SUCCESS;
    }
    int n = snprintf(region, sizeof region, SCR_I_FILE "%s", name);
    f = scr_find(name, scr_state.reading);
    if (f == NULL && scr_state.writing && n > 0 && (size_t)n < sizeof region) f = ckpt_shim_file_make(call, region, 0);
    if (f == NULL) {
        scr_state.failed = 1;
        return scr_refuse(call, scr_state.reading ? "the checkpoint has no file of this name of this rank" : "the name is longer than 246 bytes, or memory is short");
    }
    ckpt_shim_path(f, file, SCR_MAX_FILENAME);
    return SCR_SUCCESS;
}

SCR_ONCE unsigned long long scr_hash(const char *text) {
    unsigned long long h = 14695981039346656037ull;
    for (; *text != '\0'; text++) h = (h ^ (unsigned char)*text) * 1099511628211ull;
    return h;
}

/* Say whether two ranks have a file of the same name: neither would have all of it. */
SCR_ONCE int scr_shared(void) {
    int n = ckpt_shim.file_count, size = 0, total = 0, shared = 0;
    MPI_Comm_size(ckpt_shim.comm, &size);
    int *counts = (int *)calloc((size_t)size * 2, sizeof(int));
    unsigned long long mine[64], *all;
    if (n > 64) n = 64; /* enough to find a mistake */
    for (int i = 0; i < n; i++) mine[i] = scr_hash(ckpt_shim.files[i].region);
    MPI_Allgather(&n, 1, MPI_INT, counts, 1, MPI_INT, ckpt_shim.comm);
    for (int r = 0; r < size; r++) counts[size + r] = total, total += counts[r];
    all = (unsigned long long *)malloc((size_t)(total + 1) * sizeof *all);
    MPI_Allgatherv(mine, n, MPI_UNSIGNED_LONG_LONG, all, counts, counts + size, MPI_UNSIGNED_LONG_LONG, ckpt_shim.comm);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < total; k++)
            if (all[k] == mine[i] && (k < counts[size + ckpt_shim.rank] || k >= counts[size + ckpt_shim.rank] + n)) shared = 1;
    free(all);
    free(counts);
    return !ckpt_shim_all(!shared);
}

/* Copy the files of a checkpoint to where the user wants them. */
SCR_ONCE int scr_copy_out(void) {
    for (int i = 0; i < ckpt_shim.file_count; i++) {
        const struct ckpt_shim_file *f = &ckpt_shim.files[i];
        const char *to = f->region + strlen(SCR_I_FILE);
        char part[SCR_MAX_FILENAME];
        snprintf(part, sizeof part, "%s.part", to);
        scr_directories(to);
        FILE *out = fopen(part, "wb");
        if (out == NULL) return perror(part), 0;
        size_t n = f->bytes > 0 ? fwrite(f->at, 1, f->bytes, out) : 0;
        if (fclose(out) != 0 || n != f->bytes || rename(part, to) != 0) return perror(to), 0;
    }
    return 1;
}

/* The checkpoint is taken here, when all ranks say that it is valid. */
SCR_ONCE int SCR_Complete_output(int valid) {
    const char *call = "SCR_Complete_output";
    if (!scr_state.writing) return scr_refuse(call, "call SCR_Start_output first");
    scr_state.writing = 0;
    if (!(scr_state.flags & SCR_FLAG_CHECKPOINT)) return ckpt_shim_all(valid) ? SCR_SUCCESS : SCR_I_FAILURE;
    for (int i = 0; i < ckpt_shim.file_count; i++)
        if (ckpt_shim_file_map(call, &ckpt_shim.files[i]) != 0) scr_state.failed = 1;
    int good = ckpt_shim_all(valid && !scr_state.failed);
    if (good && scr_shared()) {
        if (ckpt_shim.rank == 0) scr_refuse(call, "two ranks write one file of a checkpoint: give each rank a file of its own");
        good = 0;
    }
    if (good && (scr_state.flags & SCR_FLAG_OUTPUT)) good = ckpt_shim_all(scr_copy_out());
    int status = good ? ckpt_save(scr_state.id) : CKPT_ARGUMENT;
    ckpt_shim_files_end(0);
    if (status == CKPT_STOP) scr_state.stopped = 1;
    if (good) scr_state.calls = 0;
    if (status < 0 && good) scr_refuse(call, ckpt_error());
    scr_state.resumed = 1; /* from here on there is nothing to read */
    return status < 0 ? SCR_I_FAILURE : SCR_SUCCESS;
}

SCR_ONCE int SCR_Complete_checkpoint(int valid) { return SCR_Complete_output(valid); }

SCR_ONCE int SCR_Current(const char *name) {
    (void)name;
    return scr_refuse("SCR_Current", "ckpt restart JOB@N chooses the checkpoint");
}

SCR_ONCE int SCR_Drop(const char *name) {
    (void)name;
    return SCR_SUCCESS;
}

SCR_ONCE int SCR_Delete(const char *name) {
    (void)name;
    return SCR_SUCCESS;
}

/* ---- For Fortran: texts end with blanks, and their lengths come last. ---- */

SCR_ONCE void scr_text(char *to, const char *from, size_t n) {
    while (n > 0 && from[n - 1] == ' ') n--;
    if (n >= SCR_MAX_FILENAME) n = SCR_MAX_FILENAME - 1;
    memcpy(to, from, n);
    to[n] = '\0';
}

SCR_ONCE void scr_pad(char *to, size_t room, const char *from) {
    size_t n = strlen(from) < room ? strlen(from) : room;
    memcpy(to, from, n);
    memset(to + n, ' ', room - n);
}

SCR_ONCE void scr_init_(int *err) { *err = SCR_Init(); }
SCR_ONCE void scr_finalize_(int *err) { *err = SCR_Finalize(); }
SCR_ONCE void scr_need_checkpoint_(int *flag, int *err) { *err = SCR_Need_checkpoint(flag); }
SCR_ONCE void scr_should_exit_(int *flag, int *err) { *err = SCR_Should_exit(flag); }
SCR_ONCE void scr_start_checkpoint_(int *err) { *err = SCR_Start_checkpoint(); }
SCR_ONCE void scr_complete_checkpoint_(int *valid, int *err) { *err = SCR_Complete_checkpoint(*valid); }
SCR_ONCE void scr_complete_output_(int *valid, int *err) { *err = SCR_Complete_output(*valid); }
SCR_ONCE void scr_complete_restart_(int *valid, int *err) { *err = SCR_Complete_restart(*valid); }

SCR_ONCE void scr_start_output_(const char *name, int *flags, int *err, size_t n) {
    char text[SCR_MAX_FILENAME];
    scr_text(text, name, n);
    *err = SCR_Start_output(text, *flags);
}

SCR_ONCE void scr_have_restart_(int *flag, char *name, int *err, size_t room) {
    char text[SCR_MAX_FILENAME] = "";
    *err = SCR_Have_restart(flag, text);
    scr_pad(name, room, text);
}

SCR_ONCE void scr_start_restart_(char *name, int *err, size_t room) {
    char text[SCR_MAX_FILENAME] = "";
    *err = SCR_Start_restart(text);
    scr_pad(name, room, text);
}

SCR_ONCE void scr_route_file_(const char *name, char *file, int *err, size_t n, size_t room) {
    char from[SCR_MAX_FILENAME], to[SCR_MAX_FILENAME] = "";
    scr_text(from, name, n);
    *err = SCR_Route_file(from, to);
    scr_pad(file, room, to);
}

#ifdef __cplusplus
}
#endif

#endif
