package replay

import (
	"fmt"
	"hash/fnv"
	"path"
	"strings"
)

// maxName bounds file names; file systems allow 255 bytes.
const maxName = 200

// flatten returns a file name for each path. It drops the directories that all paths
// share, and makes the others part of the name. Names are unique and never lead out of
// the directory of the replay.
func flatten(paths []string) []string {
	clean := make([]string, len(paths))
	for i, p := range paths {
		// Rooted, so that a leading .. has no effect.
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

// commonDir returns the directories that all paths share, with a slash at the end
// unless it is empty.
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

// plain turns a path into a file name: characters other than letters, digits and
// -.+=@, as well as a leading dot, become underscores.
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
