package proc

import (
	"slices"
	"strings"

	"ckpt/zones"
)

// kernelNames are the areas that the kernel maps into every process.
var kernelNames = []string{
	"[vdso]", "[vvar]", "[vvar_vclock]", "[vsyscall]", "[vectors]", "[sigpage]", "[uprobes]", "[timens]",
}

func kernel(a *zones.Area) bool { return slices.Contains(kernelNames, a.Name) }

// nameless reports whether DMTCP treats an area as plain anonymous memory. It skips
// areas with other names, such as anon_inode:[io_uring].
func nameless(name string) bool {
	return name == "" || !strings.ContainsRune("/[(", rune(name[0]))
}

// absentIsZero reports whether untouched pages of the private area read as zeros,
// because no file is behind them.
func absentIsZero(name string) bool {
	return nameless(name) || name[0] == '[' || name == "//anon" || strings.HasPrefix(name, "/anon_hugepage")
}

// ownShared reports whether the area is shared anonymous memory (MAP_SHARED and
// MAP_ANONYMOUS), to which Linux gives this name. Only the process that mapped it and its
// children have it; a rank is started by exec, which ends such mappings.
func ownShared(a *zones.Area) bool { return strings.HasPrefix(a.Name, "/dev/zero (deleted)") }

// inMemory reports whether the contents of an area are only in memory and swap, and in
// no file that could be opened again. Linux gives shared anonymous memory the name
// /dev/zero (deleted).
func inMemory(a *zones.Area) bool {
	return absentIsZero(a.Name) || a.Deleted() || !strings.HasPrefix(a.Name, "/") || strings.HasPrefix(a.Name, "/SYSV")
}

// inFile reports whether an existing file is behind the area.
func inFile(a *zones.Area) bool { return !inMemory(a) }

// device reports whether the file is a device, whose memory belongs to the hardware.
// /dev/shm and similar directories hold files.
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
