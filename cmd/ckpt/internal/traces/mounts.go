package traces

import (
	"bufio"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"ckpt/iotrace"
)

// mountTypes adds the types of the file systems of this machine that hold files of the
// trace, as properties like "mount /scratch": "lustre".
func mountTypes(t *iotrace.Trace) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return // a trace without them is as good
	}
	defer f.Close()
	addMounts(t, f)
}

// addMounts reads the text of /proc/PID/mountinfo. See man 5 proc: the fifth field is
// the mount point, and the type follows a field that is a hyphen. A later line hides an
// earlier one of the same mount point.
func addMounts(t *iotrace.Trace, mountinfo io.Reader) {
	types := map[string]string{}
	in := bufio.NewScanner(mountinfo)
	for in.Scan() {
		fields := strings.Fields(in.Text())
		hyphen := slices.Index(fields, "-")
		if hyphen < 6 || hyphen+1 >= len(fields) {
			continue
		}
		types[unescaped(fields[4])] = fields[hyphen+1]
	}
	used := map[string]bool{}
	for _, file := range t.Files {
		if !path.IsAbs(file) {
			continue
		}
		for dir := path.Clean(file); ; dir = path.Dir(dir) {
			if types[dir] != "" {
				used[dir] = true
				break
			}
			if dir == "/" {
				break
			}
		}
	}
	var found []iotrace.Property
	for dir := range used {
		found = append(found, iotrace.Property{Name: "mount " + dir, Value: types[dir]})
	}
	slices.SortFunc(found, func(a, b iotrace.Property) int { return strings.Compare(a.Name, b.Name) })
	t.Properties = append(t.Properties, found...)
}

// unescaped undoes \040 for a space, and the like.
func unescaped(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
