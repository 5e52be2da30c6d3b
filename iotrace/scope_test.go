package iotrace

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ev is an event on a file; file and rank are indexes.
func ev(op Op, file, rank int32, bytes int64) Event {
	return Event{Op: op, File: file, Rank: rank, Peer: None, Bytes: bytes}
}

func TestSystemFiles(t *testing.T) {
	for name, want := range map[string]fileKind{
		"/":                                         systems,
		"/proc/self/maps":                           systems,
		"/sys/devices/system/cpu":                   systems,
		"/dev/null":                                 systems,
		"/dev/pts/3":                                systems,
		"/dev/shm":                                  systems,
		"/dev/shm/mpich_shar_tmpAbC (deleted)":      systems,
		"/dev/shm/vader_segment.host.0.1.2":         systems,
		"/scratch/shared.dat.locktest.12":           systems,
		"/scratch/.locktest.x":                      jobs,
		"/dev/shm/open_mpi.0000":                    systems,
		"/dev/shm/sem.x":                            systems,
		"/dev/shm/results":                          jobs,
		"/dev/nvme0n1":                              jobs,
		"/tmp/ompi.host.0/pid.12/contact.txt":       systems,
		"/scratch/tmp/ompi.host.1000/jf.0":          systems,
		"/scratch/ompi.results/a":                   jobs,
		"/tmp/openmpi-sessions-0@h/x":               systems,
		"/tmp/prte.host.12.0/x":                     systems,
		"/tmp/pmix-1/x":                             systems,
		"/data/pmix-1/x":                            jobs,
		"/tmp/out.dat":                              jobs,
		"pipe:[123]":                                systems,
		"<STDOUT>":                                  systems,
		"/memfd:x (deleted)":                        systems,
		"/etc/passwd":                               ifRead,
		"/usr/lib/x86_64-linux-gnu/libc.so.6":       ifRead,
		"/lib64/ld-linux-x86-64.so.2":               ifRead,
		"/etcetera/x":                               jobs,
		"/run/user/0/x":                             ifRead,
		"/run/media/u/disk/x":                       jobs,
		"/var/data/x":                               jobs,
		"/var/lib/sss/mc/passwd":                    ifRead,
		"/opt/data/x":                               jobs,
		"/opt/mpi/lib/libmpi.so.40.30.4":            ifRead,
		"/opt/mpi/share/openmpi/help.txt":           ifRead,
		"/home/u/lib.so.old":                        jobs,
		"/home/u/.so":                               jobs,
		"/home/u/v/lib/python3.11/json/__init__.py": ifRead,
		"/home/u/a.pyc":                             ifRead,
		"/home/u/run.py":                            jobs,
		"/home/u/.openmpi/mca-params.conf":          ifRead,
		"/home/u/R/library/stats/x.rdb":             ifRead,
		"/home/u/jdk/jre/lib/rt.dat":                ifRead,
		"/home/u/app.jar":                           ifRead,
		"/home/u/spack/opt/spack/x/lib/y":           ifRead,
		"relative/usr/x":                            jobs,
	} {
		stem, _ := cutDeleted(name)
		if got := judge(stem, components(stem)); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

func cutDeleted(s string) (string, bool) {
	if len(s) > len(deleted) && s[len(s)-len(deleted):] == deleted {
		return s[:len(s)-len(deleted)], true
	}
	return s, false
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, file string
		want          bool
	}{
		{"/usr/data", "/usr/data", true},
		{"/usr/data", "/usr/data/a/b", true},
		{"/usr/data", "/usr/database", false},
		{"/usr/data/", "/usr/data/a", true},
		{"/data", "/usr/data/a", false},
		{"data", "/usr/data/a", true},
		{"*.nc", "/x/y.nc", true},
		{"/*.nc", "/x/y.nc", false},
		{"/x/*/z", "/x/y/z/w", true},
		{"/x/*/z", "/x/y/y/z", false},
		{"/x/**/z", "/x/y/y/z", true},
		{"/x/**", "/x/y", true},
		{"out[0-9]", "/x/out7", true},
		{"out[0-9]", "/x/out77", false},
		{"/", "/x", true},
	} {
		if got := anyOf(patterns([]string{c.pattern}), components(c.file)); got != c.want {
			t.Errorf("%s on %s: %v", c.pattern, c.file, got)
		}
	}
	if err := (Scope{Include: []string{"a"}, Exclude: []string{"/"}}).Check(); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"[a", "", "//"} {
		if (Scope{Exclude: []string{bad}}).Check() == nil {
			t.Errorf("pattern %q is accepted", bad)
		}
	}
}

// job is a trace of a launcher and two MPI ranks.
func job() *Trace {
	return &Trace{
		Ranks: []Rank{{Rank: None, Node: "mpiexec.mpich"}, {Rank: 0}, {Rank: 1}},
		Files: []string{"/etc/hosts", "/data/out", "/data/hostfile", "/usr/made", "/data/untouched"},
		Events: []Event{
			ev(Open, 0, 0, 0), ev(Read, 0, 0, 100),
			ev(Read, 2, 0, 10), // by the launcher
			ev(Read, 0, 1, 50),
			ev(Write, 1, 1, 1000), ev(Write, 3, 1, 7), ev(Read, 3, 1, 5),
			ev(Stat, 0, 2, 0),
			ev(Barrier, None, 2, 0),
		},
		Renames:  []Renaming{{From: 1, To: 4}, {From: 0, To: 1}},
		Striping: []Striping{{File: 0}, {File: 3}},
		Warnings: []Warning{
			{Code: "all"},
			{Code: "mixed", Count: 5, Bytes: 50, Files: []WarnedFile{{File: 0, Count: 2, Bytes: 20}, {File: 3, Count: 3, Bytes: 30}}},
			{Code: "gone", Count: 1, Files: []WarnedFile{{File: 0, Count: 1}}},
		},
	}
}

func TestApply(t *testing.T) {
	got, aside := Apart(job(), Scope{})
	want := &Trace{
		Ranks: []Rank{{Rank: 0}, {Rank: 1}},
		Files: []string{"/data/out", "/usr/made", "/data/untouched"},
		Events: []Event{
			ev(Write, 0, 0, 1000), ev(Write, 1, 0, 7), ev(Read, 1, 0, 5),
			ev(Barrier, None, 1, 0),
		},
		Counters: []Counters{},
		Renames:  []Renaming{{From: 0, To: 2}},
		Striping: []Striping{{File: 1}},
		Warnings: []Warning{{Code: "all"}, {Code: "mixed", Count: 3, Bytes: 30, Files: []WarnedFile{{File: 1, Count: 3, Bytes: 30}}}},
	}
	if got.Counters == nil {
		want.Counters = nil
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if want := (Aside{Files: 2, Processes: 1, Operations: 5, BytesRead: 160}); aside != want {
		t.Errorf("aside %+v, want %+v", aside, want)
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Scope
		want []string
	}{
		{"all", Scope{All: true, Exclude: []string{"/data"}}, job().Files},
		{"include", Scope{Include: []string{"/etc"}}, []string{"/etc/hosts", "/data/out", "/usr/made", "/data/untouched"}},
		{"exclude", Scope{Exclude: []string{"made"}}, []string{"/data/out", "/data/untouched"}},
		{"both", Scope{Include: []string{"/etc"}, Exclude: []string{"hosts"}}, []string{"/data/out", "/usr/made", "/data/untouched"}},
		{"nothing left", Scope{Exclude: []string{"/"}}, nil},
	} {
		tr := job()
		if c.name == "nothing left" { // not even a barrier
			tr.Events = tr.Events[:len(tr.Events)-1]
		}
		got, aside := Apart(tr, c.o)
		if c.want == nil {
			if got != tr || aside != (Aside{Kept: true}) {
				t.Errorf("%s: %+v", c.name, aside)
			}
			continue
		}
		if d := cmp.Diff(c.want, got.Files); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

// A program that only looks at the system has the system as its job.
func TestOnlySystem(t *testing.T) {
	tr := &Trace{Ranks: []Rank{{Rank: 7}}, Files: []string{"/etc/passwd"}, Events: []Event{ev(Read, 0, 0, 9)}}
	got, aside := Apart(tr, Scope{})
	if got != tr || len(got.Events) != 1 || !aside.Kept {
		t.Errorf("%d events, %+v", len(got.Events), aside)
	}
}

// Processes that a shell starts, and that only load their libraries, are no ranks.
func TestIdleProcess(t *testing.T) {
	events := func() []Event {
		return []Event{ev(Read, 0, 0, 9), ev(Read, 0, 1, 9), ev(Write, 1, 1, 9)}
	}
	files := []string{"/lib/libc.so.6", "out"}
	got, aside := Apart(&Trace{Ranks: []Rank{{Rank: 41}, {Rank: 42}}, Files: files, Events: events()}, Scope{})
	if d := cmp.Diff([]Rank{{Rank: 42}}, got.Ranks); d != "" || aside.Processes != 1 {
		t.Error(d, aside)
	}
	if got.Events[0].Rank != 0 {
		t.Errorf("rank %d", got.Events[0].Rank)
	}
	got, aside = Apart(&Trace{Ranks: []Rank{{Rank: 1}, {Rank: 0}}, Files: files, Events: events()}, Scope{})
	if len(got.Ranks) != 2 || aside.Processes != 0 {
		t.Errorf("MPI ranks %v, %+v", got.Ranks, aside)
	}
}

// The program itself is set apart if it is only executed and read.
func TestProgram(t *testing.T) {
	tr := &Trace{Ranks: []Rank{{Rank: 7}}, Files: []string{"/home/u/run.py", "out"},
		Properties: []Property{{Name: ProgramProperty, Value: "/home/u/run.py"}},
		Events:     []Event{ev(Read, 0, 0, 9), ev(Write, 1, 0, 9)}}
	got, aside := Apart(tr, Scope{})
	if d := cmp.Diff([]string{"out"}, got.Files); d != "" || aside.BytesRead != 9 {
		t.Error(d, aside)
	}
}

func TestCounters(t *testing.T) {
	tr := &Trace{Ranks: []Rank{{Rank: 0}}, Files: []string{"/etc/x", "out", "aside"}, Counters: []Counters{
		{File: 0, Rank: None, Opens: 2, Reads: 3, Writes: None, BytesRead: 30, BytesWritten: None},
		{File: 1, Rank: 0, Writes: 1, BytesWritten: 5},
		{File: 2, Rank: 0, Module: MPIIO, Writes: 1, BytesWritten: 8},
		{File: 2, Rank: 0, Writes: 2, BytesWritten: 8},
	}}
	got, aside := Apart(tr, Scope{Exclude: []string{"aside"}})
	if len(got.Counters) != 1 || got.Counters[0].File != 0 || got.Files[0] != "out" {
		t.Errorf("%+v", got.Counters)
	}
	if want := (Aside{Files: 2, Operations: 8, BytesRead: 30, BytesWritten: 8}); aside != want {
		t.Errorf("aside %+v, want %+v", aside, want)
	}
}

// Nothing is copied or looked at if no file can be the system's.
func TestUntouched(t *testing.T) {
	tr := &Trace{Ranks: []Rank{{Rank: 7}}, Files: []string{"out"}, Events: []Event{ev(Write, 0, 0, 9)}}
	if got, aside := Apart(tr, Scope{}); got != tr || aside != (Aside{}) {
		t.Errorf("%+v", aside)
	}
}

func BenchmarkApply(b *testing.B) {
	const n = 1_000_000
	for b.Loop() {
		b.StopTimer()
		tr := &Trace{Ranks: []Rank{{Rank: 0}, {Rank: 1}}, Files: []string{"/etc/x", "a", "b", "c"}, Events: make([]Event, n)}
		for i := range tr.Events {
			tr.Events[i] = ev(Read, int32(i%4), int32(i%2), 1)
		}
		b.StartTimer()
		Apart(tr, Scope{})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/event")
}

func TestUnmatched(t *testing.T) {
	got := Unmatched([]string{"*.nc", "zzz", "/d"}, []string{"/d/a.nc", "/e/b"})
	if len(got) != 1 || got[0] != "zzz" {
		t.Error(got)
	}
}
