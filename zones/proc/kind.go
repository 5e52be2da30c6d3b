package proc

import (
	"slices"
	"strings"

	"ckpt/zones"
)

// kernelNames are what the kernel maps into every process.
var kernelNames = []string{
	"[vdso]", "[vvar]", "[vvar_vclock]", "[vsyscall]", "[vectors]", "[sigpage]", "[uprobes]", "[timens]",
}

func kernel(a *zones.Area) bool { return slices.Contains(kernelNames, a.Name) }

// nameless reports whether an area is anonymous memory to DMTCP and nothing
// else: it passes over names that begin otherwise, like anon_inode:[io_uring].
func nameless(name string) bool {
	return name == "" || !strings.ContainsRune("/[(", rune(name[0]))
}

// absentIsZero reports whether a page of the private area that was never
// touched reads as zeros: there is no file behind it that would say otherwise.
func absentIsZero(name string) bool {
	return nameless(name) || name[0] == '[' || name == "//anon" || strings.HasPrefix(name, "/anon_hugepage")
}

// inMemory reports whether the contents of an area are nowhere but in memory
// and swap: there is no file that could be opened again. Linux gives shared
// anonymous memory the name /dev/zero (deleted).
func inMemory(a *zones.Area) bool {
	return absentIsZero(a.Name) || a.Deleted() || !strings.HasPrefix(a.Name, "/") || strings.HasPrefix(a.Name, "/SYSV")
}

// inFile reports whether a file that exists is behind the area.
func inFile(a *zones.Area) bool { return !inMemory(a) }

// device reports whether the file is a device, whose memory belongs to the
// hardware; /dev/shm and its like hold files.
func device(name string) bool {
	if !strings.HasPrefix(name, "/dev/") {
		return false
	}
	for _, dir := range []string{"/dev/shm/", "/dev/hugepages/", "/dev/mqueue/"} {
		if strings.HasPrefix(name, dir) {
			return false
		}
	}
	return true
}
