package scripttest

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"

	"ckpt/internal/testkit"
	"ckpt/zones/dmtcptest"
)

// objectStore starts an object storage for the rest of the script, with a store for each
// variable that it names, or skips it. DEAF_NAME is the URL of the same store through a proxy that
// takes the conditions of requests away.
func objectStore(ts *testscript.TestScript, _ bool, args []string) {
	need(ts, false, []string{"versitygw"})
	g, err := testkit.StartGateway(ts.MkAbs("gateway"), "bucket")
	ts.Check(err)
	ts.Defer(g.End)
	for _, word := range g.Environment {
		name, value, _ := strings.Cut(word, "=")
		ts.Setenv(name, value)
	}
	deaf := testkit.StartProxy(g, func(int, *http.Request) testkit.Fault { return testkit.Fault{Deaf: true} })
	ts.Defer(deaf.End)
	for _, name := range args {
		ts.Setenv(name, g.URL("bucket", strings.ToLower(name)))
		ts.Setenv("DEAF_"+name, deaf.URL("bucket", strings.ToLower(name)))
	}
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	path := ts.MkAbs(args[0])
	eventually(ts, args[1]+" in "+args[0], func() bool {
		b, _ := os.ReadFile(path)
		return bytes.Contains(b, []byte(args[1])) != neg
	})
}

func flip(ts *testscript.TestScript, _ bool, args []string) {
	offset, err := strconv.ParseInt(args[1], 0, 64)
	ts.Check(err)
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_RDWR, 0)
	ts.Check(err)
	defer f.Close()
	if offset < 0 { // from the end
		info, err := f.Stat()
		ts.Check(err)
		offset += info.Size()
	}
	b := make([]byte, 1)
	_, err = f.ReadAt(b, offset)
	ts.Check(err)
	b[0] ^= 4
	_, err = f.WriteAt(b, offset)
	ts.Check(err)
}

func cut(ts *testscript.TestScript, _ bool, args []string) {
	size, err := strconv.ParseInt(args[1], 0, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), size))
}

// ranksOf finds the processes whose environment says that they belong to
// this script, and that run a rank.
func ranksOf(ts *testscript.TestScript) []int {
	var pids []int
	store := "CKPT_STORE=" + ts.Getenv("CKPT_STORE")
	envs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range envs {
		env, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fields := strings.Split(string(env), "\x00")
		mine, rank := false, false
		for _, f := range fields {
			mine = mine || f == store
			rank = rank || strings.HasPrefix(f, "CKPT_INCARNATION=")
		}
		if mine && rank {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

func killJob(ts *testscript.TestScript, _ bool, args []string) {
	signalJob(ts, args[0], syscall.SIGKILL)
}

func stall(ts *testscript.TestScript, _ bool, args []string) {
	pids := ranksOf(ts)
	i, err := strconv.Atoi(args[0])
	ts.Check(err)
	ts.Check(syscall.Kill(pids[i], syscall.SIGSTOP))
}

func signalJob(ts *testscript.TestScript, job string, sig syscall.Signal) {
	path := filepath.Join(ts.Getenv("CKPT_STORE"), "jobs", job, "run.json")
	b, err := os.ReadFile(path)
	ts.Check(err)
	var pid int
	_, err = fmt.Sscanf(string(b), `{"pid":%d,`, &pid)
	ts.Check(err)
	ts.Check(syscall.Kill(pid, sig))
}

// signalRanks sends SIGUSR1, SIGUSR2, SIGTERM, SIGHUP and SIGINT to a job and all its ranks, as
// batch systems do.
func signalRanks(ts *testscript.TestScript, job string) {
	for _, pid := range ranksOf(ts) {
		for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT} {
			ts.Check(syscall.Kill(pid, sig))
		}
	}
	signalJob(ts, job, syscall.SIGTERM)
}

// orphans waits until no rank is left: without their coordinator ranks notice
// its end by themselves.
func orphans(ts *testscript.TestScript, _ bool, _ []string) {
	eventually(ts, "the ranks to leave", func() bool { return len(ranksOf(ts)) == 0 })
}

// smallDisk mounts a file system, or skips the rest of the script: smalldisk DIR SIZE [FILE],
// of a size like 20m and the size of a file. A store without compression has ckpt itself, which grows.
func smallDisk(ts *testscript.TestScript, _ bool, args []string) {
	dir, size := ts.MkAbs(args[0]), args[1]
	if len(args) > 2 {
		fi, err := os.Stat(ts.MkAbs(args[2]))
		ts.Check(err)
		mebibytes, err := strconv.Atoi(strings.TrimSuffix(size, "m"))
		ts.Check(err)
		size = strconv.FormatInt(fi.Size()+int64(mebibytes)<<20, 10)
	}
	need(ts, false, []string{"mounts"})
	ts.Check(os.MkdirAll(dir, 0o700))
	ts.Check(syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size))
	ts.Defer(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}

// same compares the digests in two results, as text or JSON.
func same(ts *testscript.TestScript, neg bool, args []string) {
	var digests []string
	for _, name := range args {
		text := ts.ReadFile(name)
		i := strings.LastIndex(text, "digest")
		if i < 0 {
			ts.Fatalf("%s has no digest", name)
		}
		digest := strings.FieldsFunc(text[i+len("digest"):], func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) })
		if len(digest) == 0 || len(digest[0]) != 64 {
			ts.Fatalf("%s has no digest", name)
		}
		digests = append(digests, digest[0])
	}
	if (digests[0] == digests[1]) == neg {
		ts.Fatalf("digests %s and %s", digests[0], digests[1])
	}
}

// status runs ckpt and checks its exit status: status N ckpt ARGS…
func status(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if code != args[0] {
		ts.Fatalf("exit status %s, want %s", code, args[0])
	}
}

// otherBuild makes a build of ckpt that works alike and has other bytes. Another process
// writes it: what this one has open for writing, processes that other scripts start at that
// moment have as well until they execute, and the kernel runs no file that is being written.
func otherBuild(ts *testscript.TestScript, _ bool, args []string) {
	path, err := exec.LookPath("ckpt")
	ts.Check(err)
	ts.Check(os.MkdirAll(ts.MkAbs(args[0]), 0o700))
	ts.Check(ts.Exec("sh", "-c", `cp "$0" "$1" && printf '\0' >> "$1"`, path, filepath.Join(ts.MkAbs(args[0]), "ckpt")))
}

func readOnly(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	ts.Defer(func() { _ = syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "") })
}

func dmtcpJob(ts *testscript.TestScript, _ bool, args []string) {
	ranks, o := 2, dmtcptest.Options{Name: "heat.B.4"}
	for _, arg := range args[1:] {
		key, value, _ := strings.Cut(arg, "=")
		n, _ := strconv.Atoi(value)
		switch key {
		case "ranks":
			ranks = n
		case "seed":
			o.Seed = uint64(n)
		case "shared":
			o.Shared = int64(n) << 20
		case "mpi":
			o.OpenMPI = value == "openmpi"
		case "gzip":
			o.Gzip = true
		default:
			ts.Fatalf("dmtcpjob: unknown %s", key)
		}
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	ts.Check(dmtcptest.Job(ranks, o).WriteDir(dir))
}

// fakeDMTCP puts programs that answer as DMTCP does into a directory.
func fakeDMTCP(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: fakedmtcp DIR")
	}
	ts.Check(dmtcptest.Install(ts.MkAbs(args[0])))
}

// matches checks a file of a script: matches SCHEMA FILE
func matches(ts *testscript.TestScript, _ bool, args []string) {
	documents, err := checkDocuments(args[0], []byte(ts.ReadFile(args[1])), true)
	ts.Check(err)
	if documents == 0 {
		ts.Fatalf("%s has no JSON", args[1])
	}
}
