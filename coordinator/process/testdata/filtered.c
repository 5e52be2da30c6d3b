/*
 * filtered CALL,CALL,… PROGRAM ARGS… runs a program under a filter that refuses system
 * calls, as containers do.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SCAN 0xc0606610u /* the ioctl PAGEMAP_SCAN */

static const struct {
	const char *name;
	unsigned number, error;
} calls[] = {
	{"process_vm_readv", SYS_process_vm_readv, EPERM},
	{"process_vm_writev", SYS_process_vm_writev, EPERM},
	{"userfaultfd", SYS_userfaultfd, EPERM},
	{"memfd_create", SYS_memfd_create, ENOSYS},
	{"prctl", SYS_prctl, EPERM},
	{"membarrier", SYS_membarrier, ENOSYS},
	{"pidfd_open", SYS_pidfd_open, ENOSYS},
	{"close_range", SYS_close_range, ENOSYS},
	{"PAGEMAP_SCAN", SYS_ioctl, ENOTTY},
};

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))

int main(int argc, char **argv)
{
	struct sock_filter code[64] = {LOAD(nr)};
	struct sock_fprog program = {1, code};
	size_t i;
	char *name;
	if (argc < 3)
		return 2;
	for (name = strtok(argv[1], ","); name != NULL; name = strtok(NULL, ",")) {
		for (i = 0; i < sizeof calls / sizeof *calls && strcmp(calls[i].name, name) != 0; i++)
			;
		if (i == sizeof calls / sizeof *calls)
			return 3;
		if (calls[i].number == SYS_ioctl) {
			struct sock_filter part[] = {
				BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 4),
				LOAD(args[1]),
				BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SCAN, 0, 1),
				BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | calls[i].error),
				LOAD(nr),
			};
			memcpy(code + program.len, part, sizeof part);
			program.len += 5;
		} else {
			struct sock_filter part[] = {
				BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, 0, 1),
				BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | calls[i].error),
			};
			memcpy(code + program.len, part, sizeof part);
			program.len += 2;
		}
	}
	code[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
		perror("filter");
		return 4;
	}
	execv(argv[2], argv + 2);
	perror(argv[2]);
	return 5;
}
