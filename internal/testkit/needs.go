package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// Needs that a machine lacks skip a test. All say so in the same words, "skipped: needs mpicc",
// and each adds a line to the file that CKPT_SKIPPED names, if it is set: the directory of the
// package, the test, the need.

// abilities are needs that are no programs.
var abilities = map[string]func() bool{
	"root":   sync.OnceValue(func() bool { return os.Getuid() == 0 }),
	"mounts": sync.OnceValue(mounts),
	// The programs in Python use Debian's, since mpi4py belongs to its Open MPI.
	"numpy":  sync.OnceValue(func() bool { return exec.Command("/usr/bin/python3", "-c", "import numpy").Run() == nil }),
	"mpi4py": sync.OnceValue(func() bool { return exec.Command("/usr/bin/python3", "-c", "import mpi4py").Run() == nil }),
}

// mounts reports whether file systems can be mounted: root in a container may not.
func mounts() bool {
	dir, err := os.MkdirTemp("", "needs-mounts")
	if err != nil {
		return false
	}
	defer os.Remove(dir)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		return false
	}
	return syscall.Unmount(dir, syscall.MNT_DETACH) == nil
}

// Missing returns the first need that this machine lacks, or "". A need is root, mounts,
// numpy, mpi4py, or the name of a program.
func Missing(list ...string) string {
	for _, need := range list {
		if has, ok := abilities[need]; ok {
			if !has() {
				return need
			}
		} else if _, err := exec.LookPath(need); err != nil {
			return need
		}
	}
	return ""
}

// A T is a test, or a script of testscript.
type T interface {
	Name() string
	Log(args ...any)
	Skip(args ...any)
}

// All skips a test unless the machine has all that it needs.
func All(t T, list ...string) {
	if need := Missing(list...); need != "" {
		Skip(t, need)
	}
}

// Skip skips a test that lacks a need.
func Skip(t T, need string) {
	note(t, need)
	t.Skip(skipped + need)
}

// Left notes that a test leaves a part out, for the first need that the machine lacks.
func Left(t T, part string, list ...string) bool {
	need := Missing(list...)
	if need == "" {
		return false
	}
	note(t, need)
	t.Log(part + ": " + skipped + need)
	return true
}

const skipped = "skipped: needs "

func note(t T, need string) {
	dir, err := os.Getwd()
	if err != nil {
		return
	}
	f, err := os.OpenFile(os.Getenv("CKPT_SKIPPED"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return // nobody asked for a list
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%s %s %s\n", dir, t.Name(), need); err != nil {
		t.Log(err)
	}
}
