package scope

import (
	"fmt"
	"path"
	"strings"
)

// Check returns an error that names the first pattern that is none.
func (o Options) Check() error {
	for _, list := range [][]string{o.Include, o.Exclude} {
		for _, p := range list {
			if strings.Trim(p, "/") == "" && p != "/" {
				return fmt.Errorf("pattern %q names no file", p)
			}
			if _, err := path.Match(p, ""); err != nil {
				return fmt.Errorf("pattern %q: a bracket or backslash has no end", p)
			}
		}
	}
	return nil
}

// A pattern is a list of names between slashes.
type pattern struct {
	names  []string
	rooted bool // it began with a slash, so it matches from the root only
}

func patterns(list []string) []pattern {
	out := make([]pattern, 0, len(list))
	for _, p := range list {
		out = append(out, pattern{rooted: strings.HasPrefix(p, "/"), names: components(p)})
	}
	return out
}

// components returns the names of a path.
func components(p string) []string {
	return strings.FieldsFunc(p, func(r rune) bool { return r == '/' })
}

// anyOf reports whether any pattern matches a file or a directory above it.
func anyOf(list []pattern, file []string) bool {
	for _, p := range list {
		last := len(file) - 1
		if p.rooted {
			last = 0
		}
		for from := 0; from <= max(last, 0); from++ {
			if begins(p.names, file[from:]) {
				return true
			}
		}
	}
	return false
}

// begins reports whether the names of a file begin as the pattern says. "**" stands
// for any number of names.
func begins(pattern, file []string) bool {
	for i, p := range pattern {
		if p == "**" {
			for from := i; from <= len(file); from++ {
				if begins(pattern[i+1:], file[from:]) {
					return true
				}
			}
			return false
		}
		if i >= len(file) {
			return false
		}
		if ok, err := path.Match(p, file[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// Unmatched returns the patterns that match none of the files.
func Unmatched(list, files []string) (out []string) {
	if len(list) == 0 {
		return nil
	}
	left := patterns(list)
	matched := make([]bool, len(list))
	for _, f := range files {
		names := components(f)
		for i := range left {
			matched[i] = matched[i] || anyOf(left[i:i+1], names)
		}
	}
	for i, p := range list {
		if !matched[i] {
			out = append(out, p)
		}
	}
	return out
}
