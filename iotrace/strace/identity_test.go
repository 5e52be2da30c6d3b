package strace

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckpt/iotrace"
)

// ranksOf tells each event's rank and node, as "0 write", "None mpiexec write".
func ranksOf(tr *iotrace.Trace) (out []string) {
	for _, s := range show(tr) {
		out = append(out, strings.Replace(s, "-1 ", "None ", 1))
	}
	for i, e := range tr.Events {
		if r := tr.Ranks[e.Rank]; r.Rank == iotrace.None {
			out[i] = strings.Replace(out[i], "None ", "None "+r.Node+" ", 1)
		}
	}
	return out
}

func TestRanks(t *testing.T) {
	fork := func(parent, child string) string {
		return parent + " clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD) = " + child
	}
	exec := func(pid, program, environment string) string {
		return pid + ` execve("/usr/bin/` + program + `", ["` + program + `"], ` + environment + `) = 0`
	}
	const hidden = "0x7ffd /* 35 vars */"
	for _, c := range []struct {
		what  string
		lines []string
		want  []string
	}{
		{"mpiexec of MPICH", []string{exec("10", "sh", `["PATH=/bin", "SHLVL=1"]`), "10 sync() = 0", fork("10", "11"), exec("11", "mpiexec", `["PATH=/bin"]`), "11 sync() = 0", fork("11", "12"),
			"12 sync() = 0", exec("12", "hydra_pmi_proxy", `["PATH=/bin"]`), "12 sync() = 0", fork("12", "13"), fork("12", "14"),
			exec("14", "app", `["PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALRANKID=1"]`), exec("13", "app", `["PATH="..., "PMI_RANK=0"]`), "14 sync() = 0", "13 sync() = 0", fork("13", "15"), "15 sync() = 0",
			exec("15", "tool", `[]`), "15 sync() = 0"},
			[]string{"None sh sync", "None mpiexec sync", "None mpiexec sync", "None hydra_pmi_proxy sync", "1 sync", "0 sync", "0 sync", "0 sync"}},
		{"Open MPI in a job of Slurm", []string{exec("10", "mpirun", `["SLURM_PROCID=0"]`), "10 sync() = 0", fork("10", "11"),
			exec("11", "app", `["SLURM_PROCID=0", "PMIX_RANK=7", "OMPI_COMM_WORLD_RANK=12345"]`), "11 sync() = 0"}, []string{"None mpirun sync", "12345 sync"}},
		{"the script of a job of Slurm has no rank", []string{exec("10", "sh", `["SLURM_PROCID=0"]`), "10 sync() = 0"}, []string{"10 sync"}},
		{"a step of Slurm", []string{exec("10", "app", `["SLURM_STEP_ID=0", "SLURM_PROCID=3"]`), "10 sync() = 0"}, []string{"3 sync"}},
		{"values that are none", []string{exec("10", "app", `["PMI_RANK=x", "PMIX_RANK=-1", "OMPI_COMM_WORLD_RANK=99"..., "PMI_RANK"]`), "10 sync() = 0"}, []string{"10 sync"}},
		{"launchers in a text without environments", []string{exec("10", "mpiexec", hidden), "10 sync() = 0", fork("10", "11"), exec("11", "app", hidden), "11 sync() = 0"},
			[]string{"None mpiexec sync", "11 sync"}},
		{"an environment that is not shown changes no rank", []string{exec("10", "app", `["PMI_RANK=5"]`), "10 sync() = 0", exec("10", "app2", hidden), "10 sync() = 0"}, []string{"5 sync", "5 sync"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			tr, _ := read(t, c.lines...)
			if diff := cmp.Diff(c.want, ranksOf(tr)); diff != "" {
				t.Error(diff)
			}
			for _, p := range tr.Properties {
				if p.Name != "program" || !strings.HasPrefix(p.Value, "/usr/bin/") {
					t.Errorf("property %+v", p)
				}
			}
		})
	}
}

// TestSeveralJobs: the ranks of two jobs share their numbers, which the trace says.
func TestSeveralJobs(t *testing.T) {
	launch := func(launcher, proxy, rank string) []string {
		return []string{"10 clone(child_stack=NULL, flags=SIGCHLD) = " + launcher,
			launcher + ` execve("/usr/bin/mpiexec", ["mpiexec"], ["A=b"]) = 0`, launcher + ` execve("/usr/bin/mpiexec.hydra", ["mpiexec"], ["A=b"]) = 0`,
			launcher + " clone(child_stack=NULL, flags=SIGCHLD) = " + proxy, proxy + ` execve("/usr/bin/hydra_pmi_proxy", ["x"], ["A=b"]) = 0`,
			proxy + " clone(child_stack=NULL, flags=SIGCHLD) = " + rank, rank + ` execve("/usr/bin/app", ["app"], ["PMI_RANK=0"]) = 0`, rank + " sync() = 0"}
	}
	one := append([]string{`10 execve("/bin/sh", ["sh"], ["A=b"]) = 0`}, launch("11", "12", "13")...)
	// One rank may run several programs, one after the other.
	one = append(one, `13 execve("/usr/bin/app2", ["app2"], ["PMI_RANK=0"]) = 0`, "13 sync() = 0")
	two := append(slices.Clone(one), launch("21", "22", "23")...)
	for want, lines := range map[int][]string{0: one, 1: two} {
		tr, _ := read(t, lines...)
		n := 0
		for _, w := range tr.Warnings {
			if w.Code == "several-jobs" && strings.Contains(w.Text, "2 MPI jobs") {
				n++
			}
		}
		if n != want {
			t.Errorf("%d warnings, want %d: %+v", n, want, tr.Warnings)
		}
	}
}

// TestRenames follows files and directories to their last names.
func TestRenames(t *testing.T) {
	tr, _ := read(t, `openat(AT_FDCWD, "/d/x.tmp", O_WRONLY|O_CREAT|O_EXCL, 0644) = 3`, `write(3, "x", 5) = 5`, `rename("/d/x.tmp", "/d/x") = 0`, `write(3, "x", 5) = 5`,
		`rename("/d", "/e") = 0`, `renameat2(AT_FDCWD, "/e/x", AT_FDCWD, "/y", RENAME_EXCHANGE) = 0`, `rename("/same", "/same") = 0`)
	tr.FollowRenames()
	if diff := cmp.Diff([]string{"10 open new /y", "10 write /y @0 +5", "10 rename /y", "10 write /y @5 +5", "10 rename /e", "10 rename /y", "10 rename /same"}, show(tr)); diff != "" {
		t.Error(diff)
	}
}

// TestScripts: the script that an interpreter runs is a program, too. Its path begins in
// the directory of the first process, if no line shows another.
func TestScripts(t *testing.T) {
	for _, c := range []struct {
		what, program, arguments string
		want                     []string
	}{
		{"a script", "python3.11", `"python3.11", "-u", "run.py", "data.in"`, []string{"/usr/bin/python3.11", "/home/u/run.py"}},
		{"code", "bash", `"bash", "-c", "cat x"`, []string{"/usr/bin/bash"}},
		{"a module", "python3", `"python3", "-m", "pip"`, []string{"/usr/bin/python3"}},
		{"none", "perl", `"perl"`, []string{"/usr/bin/perl"}},
		{"another program", "cat", `"cat", "data.in"`, []string{"/usr/bin/cat"}},
		{"a name that is cut", "sh", `"sh", "long"...`, []string{"/usr/bin/sh"}},
	} {
		text := "7 1700000000.1 execve(\"/usr/bin/" + c.program + "\", [" + c.arguments + "], []) = 0 <0.1>\n7 1700000000.3 openat(AT_FDCWD, \"x\", O_RDONLY) = 3 <0.1>\n"
		tr, _, err := Read(strings.NewReader(text), iotrace.Options{Directory: "/home/u"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range tr.Properties {
			got = append(got, p.Value)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.what, diff)
		}
		if diff := cmp.Diff([]string{"/home/u/x"}, tr.Files); diff != "" {
			t.Errorf("%s: %s", c.what, diff)
		}
	}
}
