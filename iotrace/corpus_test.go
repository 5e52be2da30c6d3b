package iotrace_test

import (
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
	"ckpt/iotrace/read"
)

// corpus is a directory that testdata/traces/make has written.
var corpus = flag.String("corpus", filepath.Join("..", "testdata", "traces"), "directory with the corpus of traces")

// A corpusCase is a line of cases.csv, with its lines of truth.csv.
type corpusCase struct {
	name, behaviour string
	ranks           int
	warnings        []string
	findings        []string // the first one is one of these
	firstFile       string   // pattern; "-": none in particular
	truth           []truth
	errors          []string
	finding         string // the wrong one, or ones
}

func (c *corpusCase) errorf(format string, values ...any) {
	c.errors = append(c.errors, fmt.Sprintf(format, values...))
}

// unmet are the cases whose findings are not right yet, with what is found instead.
// All else is right in all cases. A case that is right must go from here.
var unmet = map[string]string{}

// truth is what a program did to its files, by its own account.
type truth struct {
	files  string // pattern of file names
	op     iotrace.Op
	count  int64 // iotrace.None: calls that the program does not choose
	bytes  int64
	class  string
	hidden bool // the recorder cannot see it
}

// TestCorpus analyses recordings of programs whose I/O is known, and expects what
// their authors would say of them.
func TestCorpus(t *testing.T) {
	cases := readCorpus(t, *corpus)
	good, left := 0, maps.Clone(unmet)
	for _, c := range cases {
		delete(left, c.name)
		if c.behaviour == "good" {
			good++
		}
		t.Run(c.name, func(t *testing.T) {
			c.check(t)
			for _, e := range c.errors {
				t.Error(e)
			}
			switch was, known := unmet[c.name]; {
			case known && c.finding == "":
				t.Errorf("the findings are right now: take the case from unmet")
			case c.finding != was:
				t.Errorf("findings: %s; want %v; unmet has %q", c.finding, c.findings, was)
			case known:
				t.Logf("NOT MET YET: findings: %s; want %v", c.finding, c.findings)
			}
		})
	}
	for name := range left {
		t.Errorf("unmet has the unknown case %s", name)
	}
	if len(cases) < 40 || 2*good < len(cases) {
		t.Errorf("%d cases, %d of them well-behaved; want 40 and half of them", len(cases), good)
	}
}

func (c *corpusCase) check(t *testing.T) {
	job, _ := iotrace.Apart(c.open(t), iotrace.Scope{})
	warned := map[string]bool{}
	for _, w := range job.Warnings {
		warned[w.Code] = true
	}
	for _, w := range c.warnings {
		if !warned[w] {
			c.errorf("no warning %s, only %v", w, job.Warnings)
		}
		delete(warned, w)
	}
	delete(warned, iotrace.WarnDirectIO) // the requests are in the trace
	for w := range warned {
		c.errorf("warning %s: everything is in the trace", w)
	}
	r := analyze.Analyze(job, analyze.Options{})
	c.checkRanks(job, r)
	for _, x := range c.truth {
		x.check(c, job, r)
	}
	c.checkFindings(r)
	c.checkFiles(r)
}

// open imports the case's text, or reads what ckpt trace record made of it.
func (c *corpusCase) open(t *testing.T) *iotrace.Trace {
	t.Helper()
	if tr, _, err := read.File(filepath.Join(*corpus, c.name+".trace"), iotrace.Options{}); !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			t.Fatal(err)
		}
		return tr
	}
	f, err := os.Open(filepath.Join(*corpus, c.name+".strace.zst"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	tr, rep, err := read.Stream(f.Name(), d, iotrace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Unknown > 0 {
		c.errorf("%d lines are not understood: %v", rep.Unknown, rep.Notes)
	}
	return tr
}

// checkRanks expects the ranks of MPI, from 0, or as many processes as read or write.
func (c *corpusCase) checkRanks(job *iotrace.Trace, r *analyze.Report) {
	if !strings.HasPrefix(c.name, "mpi-") {
		if r.ActiveRanks != c.ranks && len(c.truth) > 0 && !c.truth[0].hidden {
			c.errorf("%d processes read or write, want %d", r.ActiveRanks, c.ranks)
		}
		return
	}
	var got, want []int
	for _, x := range job.Ranks {
		if x.Rank != iotrace.None {
			got = append(got, x.Rank)
		}
	}
	slices.Sort(got)
	for i := range c.ranks {
		want = append(want, i)
	}
	if !slices.Equal(got, want) {
		c.errorf("ranks %v, want %v (%v)", got, want, job.Ranks)
	}
}

// check compares one line of truth with the events, and with the analysis.
func (x *truth) check(c *corpusCase, job *iotrace.Trace, r *analyze.Report) {
	if x.hidden {
		return // the warning is checked
	}
	var count, bytes int64
	for i := range job.Events {
		e := &job.Events[i]
		if e.Op == x.op && e.File >= 0 && x.matches(job.Files[e.File]) {
			count++
			bytes += e.Bytes
		}
	}
	if x.count != iotrace.None && count != x.count {
		c.errorf("%s: %d × %s, want %d", x.files, count, x.op, x.count)
	}
	if x.op.Data() && bytes != x.bytes {
		c.errorf("%s: %s %d bytes, want %d", x.files, x.op, bytes, x.bytes)
	}
	found := false
	for i := range r.Files {
		f := &r.Files[i]
		if !x.matches(f.Name) {
			continue
		}
		found = true
		class := f.WriteSpatial
		if x.op == iotrace.Read {
			class = f.ReadSpatial
		}
		if x.op.Data() && x.class != "any" && string(class) != x.class {
			c.errorf("%s: %s is %s, want %s", f.Name, x.op, class, x.class)
		}
	}
	if !found {
		c.errorf("%s is not in the list of files", x.files)
	}
}

// matches reports whether a path ends as the pattern says.
func (x *truth) matches(file string) bool {
	n := strings.Count(x.files, "/") + 1
	names := strings.Split(file, "/")
	ok, err := filepath.Match(x.files, strings.Join(names[max(0, len(names)-n):], "/"))
	return ok && err == nil
}

// checkFindings expects none in a well-behaved program, and the right one first in the
// others. A note (info) is no reproach.
func (c *corpusCase) checkFindings(r *analyze.Report) {
	if c.behaviour == "good" {
		var codes []string
		for _, f := range r.Insights {
			if f.Severity != "info" {
				codes = append(codes, f.Code)
			}
		}
		c.finding = strings.Join(codes, " ")
		return
	}
	switch {
	case len(r.Insights) == 0:
		c.finding = "none"
	case !slices.Contains(c.findings, r.Insights[0].Code):
		c.finding = r.Insights[0].Code
	}
}

// checkFiles expects the first file of the report, that with the most bytes, to be that
// of the truth.
func (c *corpusCase) checkFiles(r *analyze.Report) {
	if c.firstFile == "-" || len(c.truth) > 0 && c.truth[0].hidden {
		return
	}
	first := truth{files: c.firstFile}
	if len(r.Files) == 0 || !first.matches(r.Files[0].Name) {
		c.errorf("first of the files is not %s, %d files", c.firstFile, len(r.Files))
	}
}

func readCorpus(t *testing.T, dir string) []*corpusCase {
	var cases []*corpusCase
	byName := map[string]*corpusCase{}
	for _, row := range readRows(t, filepath.Join(dir, "cases.csv"), 6) {
		c := &corpusCase{name: row[0], behaviour: row[1], firstFile: row[5]}
		if row[3] != "-" {
			c.warnings = strings.Split(row[3], "|")
		}
		c.findings = strings.Split(row[4], "|")
		var err error
		if c.ranks, err = strconv.Atoi(row[2]); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		byName[c.name] = c
		cases = append(cases, c)
	}
	for _, row := range readRows(t, filepath.Join(dir, "truth.csv"), 6) {
		x := truth{files: row[1], count: iotrace.None, class: row[5], hidden: row[3] == "hidden"}
		var err error
		if x.op, err = iotrace.ParseOp(row[2]); err != nil {
			t.Fatal(err)
		}
		if row[3] != "any" && !x.hidden {
			if x.count, err = strconv.ParseInt(row[3], 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		if x.bytes, err = strconv.ParseInt(row[4], 10, 64); err != nil {
			t.Fatal(err)
		}
		c := byName[row[0]]
		if c == nil {
			t.Fatalf("truth of the unknown case %s", row[0])
		}
		c.truth = append(c.truth, x)
	}
	return cases
}

// readRows reads a CSV file without its header.
func readRows(t *testing.T, name string, columns int) [][]string {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord = columns
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows[1:]
}
