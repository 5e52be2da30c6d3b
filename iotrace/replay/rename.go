package replay

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ckpt/iotrace"
)

// A renaming replaces the number of a rank in the path of its file.
type renaming struct {
	parts []string // of the path: text, digits, text, digits …
	at    int      // index of the part with the number of the rank, or -1
}

func (r renaming) of(rank int) string {
	if r.at < 0 {
		return fmt.Sprintf("%s.rank-%d", strings.Join(r.parts, ""), rank)
	}
	parts := slices.Clone(r.parts)
	digits := parts[r.at]
	parts[r.at] = strconv.Itoa(rank)
	if digits[0] == '0' && len(digits) > 1 {
		parts[r.at] = fmt.Sprintf("%0*d", len(digits), rank)
	}
	return strings.Join(parts, "")
}

// renamings finds the number of the rank in the paths of files that one rank uses. If
// several numbers fit, as in ckpt_bt.B.0_rank0, it takes the last one that fits in all
// files with similar names.
func renamings(t *iotrace.Trace, own []int32, number func(rank int32) (int, bool)) map[int32]renaming {
	type family struct {
		files []int32
		fits  []bool // by part
	}
	out := make(map[int32]renaming)
	families := make(map[string]*family)
	for i, rank := range own {
		if rank == noOwner {
			continue
		}
		n, ok := number(rank)
		if !ok {
			continue
		}
		parts := splitDigits(t.Files[i])
		out[int32(i)] = renaming{parts, -1}
		key := ""
		for k, part := range parts {
			if k%2 == 0 {
				key += part
			}
			key += "\x00"
		}
		f := families[key]
		if f == nil {
			f = &family{fits: make([]bool, len(parts))}
			for k := 1; k < len(parts); k += 2 {
				f.fits[k] = true
			}
			families[key] = f
		}
		f.files = append(f.files, int32(i))
		for k := 1; k < len(parts); k += 2 {
			v, err := strconv.Atoi(parts[k])
			f.fits[k] = f.fits[k] && err == nil && v == n
		}
	}
	for _, f := range families {
		at := -1
		for k, ok := range f.fits {
			if ok {
				at = k
			}
		}
		for _, i := range f.files {
			r := out[i]
			r.at = at
			out[i] = r
		}
	}
	return out
}

// splitDigits splits a path into alternating text and digits, text first.
func splitDigits(p string) []string {
	var parts []string
	digit := func(r rune) bool { return r >= '0' && r <= '9' }
	for wantDigits := false; ; wantDigits = !wantDigits {
		end := strings.IndexFunc(p, func(r rune) bool { return digit(r) != wantDigits })
		if end < 0 {
			end = len(p)
		}
		parts = append(parts, p[:end])
		if p = p[end:]; p == "" {
			return parts
		}
	}
}
