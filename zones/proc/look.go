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

// facts are properties of an area in a live process beyond its fields.
type facts struct {
	layout   *layout // nil if unknown
	fileSize int64   // of the file behind it, or -1 if unknown
	missing  bool    // the file is gone, although the kernel does not mark it
}

// look finds the facts of all areas and sets their Runs.
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

// worthScanning reports whether to look up the pages of an area: memory without a file,
// of this process alone, that is partly in use. Go, Java and sanitizers reserve terabytes that
// they never touch, some of it readable.
//
// A page that was only read is the page of zeros. The kernel counts it in pagemap, but
// not in smaps. So an area of such pages is skipped here and counts as empty.
func worthScanning(a *zones.Area) bool {
	return (ownShared(a) || !a.Shared && absentIsZero(a.Name)) && a.Prot != 0 && a.Resident > 0
}

// stat looks at the file of an area as the process sees it: in the root of the
// process, or by the address of the mapping if the root is out of reach.
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
