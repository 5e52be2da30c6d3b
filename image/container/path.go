package container

import (
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// ManifestName is the name of the manifest in the directory of a checkpoint,
	// which no container file may have.
	ManifestName = "manifest"
	// JobNumber names the directory of what belongs to the job and not to one of
	// its checkpoints, whose numbers count from 1.
	JobNumber = 0
)

// ValidJobName reports whether a job may have this name.
func ValidJobName(name string) bool {
	if len(name) < 1 || len(name) > 101 {
		return false
	}
	for i, c := range []byte(name) {
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}

// FormatNumber returns the name of the directory of a checkpoint.
func FormatNumber(n int) string { return fmt.Sprintf("%04d", n) }

// ParseNumber reads the name of a numbered directory, which is unique for a number.
func ParseNumber(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return int(n), err == nil && FormatNumber(int(n)) == s
}

// PathNumber returns the number in a path like 0007/rank-0.img.
func PathNumber(p string) (int, bool) {
	return ParseNumber(strings.TrimSuffix(path.Dir(p), "/"))
}

// JobPath returns the path of a file relative to the directory of its job.
func JobPath(name string) string {
	return path.Join(filepath.Base(filepath.Dir(name)), filepath.Base(name))
}

// LocalPath reports whether p names a file in a checkpoint directory of the job
// that it is relative to: NNNN/name, nothing that leads elsewhere.
func LocalPath(p string) bool {
	dir, name := path.Split(p)
	_, ok := ParseNumber(strings.TrimSuffix(dir, "/"))
	return ok && strings.HasSuffix(dir, "/") && name != "." && name != ".." && name != "" &&
		name != ManifestName && !strings.ContainsAny(name, "\x00\\\n") && path.Clean(p) == p
}
