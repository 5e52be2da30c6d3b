package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ckpt/zones"
)

// facts are what a live process tells of an area beside its fields.
type facts struct {
	layout   *layout // nil if not known
	fileSize int64   // of the file behind it; -1 if not known
	missing  bool    // the file is gone, although the kernel does not say so
}

// look finds out the facts of all areas and sets their Runs.
func look(ctx context.Context, dir string, areas []zones.Area, measure Measure) ([]facts, error) {
	found := make([]facts, len(areas))
	pages, err := openPagemap(dir)
	if err == nil {
		defer pages.Close()
	}
	files := make(map[string]facts)
	for i := range areas {
		a, f := &areas[i], &found[i]
		f.fileSize = -1
		switch {
		case err == nil && worthScanning(a):
			t := newTracer(a.Start, a.End)
			if err := pages.each(ctx, a.Start, a.End, t.add); ctx.Err() != nil {
				return nil, ctx.Err()
			} else if err == nil {
				l := t.done()
				f.layout, a.Runs = &l, l.runs
			}
		case measure == DMTCP && inFile(a):
			known, ok := files[a.Name]
			if !ok {
				known = stat(dir, a)
				files[a.Name] = known
			}
			f.fileSize, f.missing = known.fileSize, known.missing
		}
	}
	return found, nil
}

// worthScanning reports whether the pages of an area are looked up: private
// memory without a file, of which something is in use. Go, Java and sanitizers
// reserve terabytes that they never touch, some of it readable.
//
// The kernel counts a page that was only read, and is the page of zeros, in
// pagemap but not in smaps: an area of nothing else is passed over here and
// counts as empty.
func worthScanning(a *zones.Area) bool {
	return !a.Shared && absentIsZero(a.Name) && a.Prot != 0 && a.Resident > 0
}

// stat looks at the file of an area as the process sees it: in its own root, or
// else, where that is out of reach, by the address of the mapping.
func stat(dir string, a *zones.Area) facts {
	name := strings.ReplaceAll(a.Name, `\012`, "\n") // as the kernel writes it
	info, err := os.Stat(dir + "/root" + name)
	if err == nil {
		return facts{fileSize: info.Size()}
	}
	mapping := filepath.Join(dir, "map_files", fmt.Sprintf("%x-%x", a.Start, a.End))
	if info, err := os.Stat(mapping); err == nil {
		return facts{fileSize: info.Size()}
	}
	return facts{fileSize: -1, missing: errors.Is(err, fs.ErrNotExist)}
}
