package strace

import (
	"maps"
	"slices"
	"strings"
)

// Filter is the flag with which strace lets the kernel pass other calls without a stop
// (strace 5.3 and later).
const Filter = "--seccomp-bpf"

// Flags are the flags of strace that give Read all that it needs, and little more: every
// further call that strace stops at takes about 15 µs. With filter, Filter is one of
// them.
func Flags(filter bool) []string {
	// Some versions of strace do not know all calls: those with ? may be missing.
	calls := "?" + strings.Join(slices.Sorted(maps.Keys(handlers)), ",?") + ",?fork,?vfork,?clone,?clone3"
	flags := []string{"-f", "-ttt", "-T", "-y", "-s", "32",
		"-e", "abbrev=!execve,execveat,io_submit,io_getevents,io_pgetevents", "-e", "trace=" + calls}
	if filter {
		flags = append([]string{Filter}, flags...)
	}
	return flags
}
