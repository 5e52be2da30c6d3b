package traces

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/iotrace/analyze"
	"ckpt/zones"
)

// shownFiles is the number of files of which --file shows everything. Of more it
// lists the names.
const shownFiles = 5

// matches returns the indexes of the files that --file means: the one of this name, or
// those whose names contain it.
func (in *traceInput) matches(files []analyze.File, name string) (found []int, err error) {
	var names []string
	for i := range files {
		if files[i].Name == name {
			return []int{i}, nil
		}
		if strings.Contains(files[i].Name, name) {
			found = append(found, i)
		}
		names = append(names, files[i].Name)
	}
	if len(found) > 0 {
		return found, nil
	}
	return nil, in.noFile(name, names)
}

// showFiles prints some of the files of a report: a few whole, the names of many.
func showFiles(g *ui.Globals, files []analyze.File, found []int) error {
	if g.JSON && len(found) == 1 {
		return g.PrintJSON(&files[found[0]])
	}
	var some []*analyze.File
	for _, i := range found {
		some = append(some, &files[i])
	}
	if g.JSON {
		return g.PrintJSON(struct {
			Files []*analyze.File `json:"file_list"`
		}{some})
	}
	if len(some) > shownFiles {
		for _, f := range some {
			g.Printf("%s\n", zones.Printable(f.Name))
		}
		return g.Printf("%d files match; name fewer to see their bursts and sizes\n", len(some))
	}
	for i, f := range some {
		if i > 0 {
			g.Printf("\n")
		}
		if err := showFile(g, f); err != nil {
			return err
		}
	}
	return nil
}

// showFile prints the bursts and the sizes of one file.
func showFile(g *ui.Globals, f *analyze.File) error {
	g.Printf("%s: %s, %s\n\n", zones.Printable(f.Name), f.Access, patternText(f.Spatial, f.Detail))
	var rows [][]string
	for _, b := range f.Bursts {
		rows = append(rows, []string{b.Op, strconv.FormatInt(b.Count, 10), ui.MiB(b.Bytes), duration(b.Start), duration(b.End)})
	}
	g.Table([]string{"burst", "|operations", "|MiB", "|from", "|to"}, rows)
	if n := f.BurstsTotal - len(f.Bursts); n > 0 {
		g.Printf("and %s more\n", ui.Count(n, "burst"))
	}
	rows = nil
	for _, s := range f.Histogram {
		if s.Count > 0 {
			rows = append(rows, []string{s.Bin, strconv.FormatInt(s.Writes, 10), strconv.FormatInt(s.Reads, 10)})
		}
	}
	g.Printf("\n")
	return g.Table([]string{"request bytes", "|writes", "|reads"}, rows)
}

// noFile is the error of a --file that no file has in its name. names are those that
// there are.
func (in *traceInput) noFile(name string, names []string) error {
	bases := make([]string, len(names))
	for i := range names {
		bases[i] = path.Base(names[i])
	}
	hint := "ckpt trace analyze shows their names"
	if near := ui.Nearest(path.Base(name), bases); near != "" {
		hint = "did you mean --file " + zones.Printable(near) + "? " + hint
	}
	if in.aside.Files > 0 {
		hint += "; --all takes in those of the system"
	}
	return ui.WithHint(ui.AsNotFound(fmt.Errorf("--file %s: no file of the trace has this in its name", name)), hint)
}

// traceFiles is the number of files shown without --files.
const traceFiles = 20

// A fileList is the flag that says how many files a command shows.
type fileList struct {
	files string
	list  int // math.MaxInt: all
}

func (l *fileList) addFlag(f *pflag.FlagSet, usage string) {
	f.StringVar(&l.files, "files", strconv.Itoa(traceFiles), usage)
}

// read reads --files. all is set if another flag asks for all files.
func (l *fileList) read(all bool) error {
	if l.files == "all" || all {
		l.list = math.MaxInt
		return nil
	}
	var err error
	if l.list, err = strconv.Atoi(l.files); err != nil || l.list < 0 {
		return ui.BadUsage(fmt.Sprintf("--files %s: want a number from 0, or all", l.files), "")
	}
	return nil
}
