// Package bpf records the calls of a command in the kernel (eBPF), and makes a trace of
// them:
//
//	r, err := bpf.Open()
//	defer r.Close()
//	x, err := r.Start(exec.Command("./a.out"), file)
//	err = cmd.Wait()
//	x.Wait()
//	err = x.Finish()
//	t, report, err := x.Import(file, iotrace.Options{})
//
// strace stops a program twice for each call, which takes 10 µs and more. Here the
// kernel runs a small program at the beginning and at the end of each recorded call,
// which takes some 0.2 µs, and puts a record into a ring of 64 MiB, from which a
// goroutine copies it. Other calls take 10 ns more, as long as recording lasts, in all
// processes of the machine.
//
// # How
//
// The programs are written here in the instructions of eBPF, with the places of members
// from the kernel's own description (BTF). They run at
//
//   - the events sys_enter_NAME and sys_exit_NAME of each call that package strace
//     understands. The kernel tells these calls from others by a bitmap, before any of
//     our instructions. It has no need of them to be mounted (tracefs).
//   - sched_process_fork, which records the children of recorded threads, and those
//     that the recorder starts; sched_process_exec; sched_process_exit.
//
// A record has the registers of the call, its times and its result. Pieces come before
// it: paths, the lengths of files, requests of libaio, and, for a descriptor that a call
// opened, the path that the kernel has for it.
//
// Import turns the records into the text of strace -f -ttt -T -y, in the order in which
// calls took effect, and package strace makes events of it. So both ways to record agree
// on what becomes an event, on offsets, ranks and warnings. See record for the layout.
//
// # What it needs
//
// Linux 5.15 or later on amd64 with CONFIG_DEBUG_INFO_BTF, CONFIG_FTRACE_SYSCALLS and
// CONFIG_BPF_SYSCALL, as distributions have it; and root, or the capability
// SYS_ADMIN. Trampolines (fentry) would make other calls cost nothing, but
// some kernels refuse them.
//
// # Promises
//
//   - Records that find the ring full are counted, and are a warning of the trace.
//     So are calls whose path could not be read, and programs of 32 bits, whose calls
//     are not seen.
//   - Processes that the command did not start are not recorded.
//   - The environment of programs is not kept, but for variables that name ranks.
//   - The kernel stops the programs when the recorder ends, however it ends.
package bpf
