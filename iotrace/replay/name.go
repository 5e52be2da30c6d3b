package replay

import (
	"fmt"
	"hash/fnv"
	"path"
	"strings"
)

// maxName bounds the names of files; 255 is what file systems take.
const maxName = 200

// flatten returns a name for each path, without directories: those that all paths
// have in common are left out, the others become part of the name. Nothing that a
// path has in it leads out of the directory of the replay, and no two names are the
// same.
func flatten(paths []string) []string {
	clean := make([]string, len(paths))
	for i, p := range paths {
		// Rooted, so that .. at the beginning leads nowhere.
		clean[i] = strings.TrimPrefix(path.Clean("/"+p), "/")
	}
	common := commonDir(clean)
	names := make([]string, len(paths))
	taken := make(map[string]bool, len(paths))
	for i, p := range clean {
		name := plain(strings.TrimPrefix(p, common))
		names[i] = name
		for n := 2; taken[names[i]]; n++ {
			names[i] = fmt.Sprintf("%s~%d", name, n)
		}
		taken[names[i]] = true
	}
	return names
}

// commonDir returns the directories that all paths begin with, with a slash at the
// end if there are any.
func commonDir(paths []string) string {
	if len(paths) == 0 {
		return ""
	}
	dir := paths[0][:strings.LastIndexByte(paths[0], '/')+1]
	for _, p := range paths[1:] {
		for dir != "" && !strings.HasPrefix(p, dir) {
			dir = dir[:strings.LastIndexByte(strings.TrimSuffix(dir, "/"), '/')+1]
		}
	}
	return dir
}

// plain makes a file name of a path: what is no letter, digit or one of -.+=@,
// becomes an underline, and so does a dot at the beginning.
func plain(p string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("-.+=@,", r):
			return r
		}
		return '_'
	}, p)
	if name == "" || name[0] == '.' || name[0] == '-' {
		name = "_" + name
	}
	if len(name) > maxName {
		h := fnv.New64a()
		h.Write([]byte(p)) // never fails
		name = fmt.Sprintf("%s~%016x", name[:maxName-17], h.Sum64())
	}
	return name
}
