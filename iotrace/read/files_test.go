package read

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckpt/iotrace"
)

// TestFiles reads texts of strace with and without the number of the process.
func TestFiles(t *testing.T) {
	const (
		open   = "1700000000.1 open(\"/f\", O_RDONLY) = 3 <0.1>\n"
		forked = "1700000000.1 fork() = 12 <0.1>\n"
		read   = "1700000000.3 read(3, \"x\", 1) = 1 <0.1>\n"
		with   = "0012 1700000000.1 open(\"/f\", O_RDONLY) = 3 <0.1>\n"
		later  = "[pid 15] 1700000000.2 open(\"/g\", O_RDONLY) = 4 <0.1>\n"
	)
	for _, c := range []struct {
		what  string
		files map[string]string
		names string
		want  [][]int // ranks of each trace
	}{
		{"ranks", map[string]string{"a.strace": open, "b.strace": open, "c.strace": open}, "b.strace a.strace c.strace", [][]int{{0}, {1}, {2}}},
		{"a number is taken", map[string]string{"a": open, "b": "1 " + open, "c": open, "d": ""}, "a b c", [][]int{{0}, {1}, {2}}},
		{"numbers in the names", map[string]string{"s.0": open, "s.7": open, "x.7": open}, "s.0 s.7 x.7", [][]int{{0}, {7}, {1}}},
		{"-ff", map[string]string{"s.11": open + forked, "s.12": read, "t": open, "s.13": ""}, "t s.12 s.11 s.13", [][]int{{0}, {11, 12}}},
		{"one of -ff", map[string]string{"s.11": open}, "s.11", [][]int{{11}}},
		{"one", map[string]string{"s": open}, "s", [][]int{{0}}},
		{"-f to files of such names", map[string]string{"s.1": with, "s.2": with}, "s.1 s.2", [][]int{{12}, {12}}},
		{"-f without -o", map[string]string{"s.1": open + strings.Repeat(strings.Replace(read, ".3", ".1", 1), 200) + later, "s.2": open}, "s.1 s.2", [][]int{{15}, {2}}},
	} {
		dir := t.TempDir()
		for name, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var names []string
		for _, name := range strings.Fields(c.names) {
			names = append(names, filepath.Join(dir, name))
		}
		all, reports, err := Files(names, iotrace.Options{Strict: true}, func(name string) (*iotrace.Trace, *iotrace.Report, error) {
			return File(name, iotrace.Options{Strict: true})
		})
		if err != nil || len(reports) != len(names) {
			t.Errorf("%s: %v, %d reports", c.what, err, len(reports))
			continue
		}
		var got [][]int
		for _, tr := range all {
			var ranks []int
			for _, r := range tr.Trace.Ranks {
				ranks = append(ranks, r.Rank)
				if apart := c.what == "-f to files of such names"; apart != (r.Node != "") || !strings.HasPrefix(r.Node, dir) && apart {
					t.Errorf("%s: rank %d is of node %q", c.what, r.Rank, r.Node)
				}
			}
			got = append(got, ranks)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.what, diff)
		}
		for i, r := range reports {
			if r == nil || r.Format != iotrace.FormatStrace {
				t.Errorf("%s: %s", c.what, fmt.Sprint(names[i], r))
			}
		}
	}
}
