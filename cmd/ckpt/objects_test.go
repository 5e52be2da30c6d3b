package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ckpt/internal/objectfs/objecttest"
	"ckpt/internal/testkit"
)

// TestObjectsKilled runs jobs whose store is in an object storage, behind a proxy. At a drawn request
// something happens to the request, or ckpt is killed, or stopped until its lease has run out. The job
// goes on, if need be by a restart, and ends with the result of a job that nothing happened to. Each
// checkpoint that ckpt said is stored is there and sound, and so are all others.
//
//	CKPT_NIGHTLY=1 CKPT_OBJECT_RUNS=100 go test -timeout 3h -v -run TestObjectsKilled ./cmd/ckpt
func TestObjectsKilled(t *testing.T) {
	t.Parallel()
	runs, first := number(t, "CKPT_OBJECT_RUNS", 2), number(t, "CKPT_OBJECT_SEED", 0)
	if testkit.Nightly() && os.Getenv("CKPT_OBJECT_RUNS") == "" {
		runs = 100
	}
	o := &objectRuns{storage: &objecttest.Server{}, clean: map[string]objectRun{}, did: map[string]int{}}
	o.proxy = testkit.StartProxyOf(o.storage)
	t.Cleanup(o.proxy.End)
	for seed := first; seed < first+runs; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { o.run(t, uint64(seed)) })
	}
	t.Logf("%v", o.did)
}

// objectRuns are jobs on one storage, one after the other.
type objectRuns struct {
	storage *objecttest.Server
	proxy   *testkit.Proxy
	clean   map[string]objectRun // by the way to write
	did     map[string]int
}

// objectRun is what a run of ckpt told.
type objectRun struct {
	requests int
	digest   string
	stored   []int // checkpoints
}

// objectWays are ways to write. A job that keeps its checkpoints first on nodes drains them into the
// storage.
var objectWays = map[string][]string{
	"plain": nil,
	"async": {"--async"},
	"keep":  {"--keep", "1"},
	"nodes": {"--nodes", "2", "--local", "n/{node}", "--protect", "partner"},
}

func (o *objectRuns) run(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 44))
	way := draw(rng, slices.Sorted(maps.Keys(objectWays)))
	if _, ok := o.clean[way]; !ok {
		run, err := o.job(t, way).launch(nil)
		if err != nil || run.digest == "" {
			t.Fatal(err, run)
		}
		o.clean[way] = run
	}
	clean := o.clean[way]
	at, what := 1+rng.IntN(clean.requests), draw(rng, []string{"kill", "kill", "fault"})
	if testkit.Nightly() && rng.IntN(10) == 0 && way != "nodes" { // whose directories a living process keeps
		what = "stop"
	}
	fault := draw(rng, testkit.Faults)
	o.did[what]++
	name := fmt.Sprintf("%s, %s at request %d of %d", way, what, at, clean.requests)
	if what == "fault" {
		name += fmt.Sprintf(", %+v", fault)
	}
	j := o.job(t, way)
	got, err := j.launch(func(n int, r *http.Request) testkit.Fault {
		if n != at {
			return testkit.Fault{}
		}
		name += ": " + r.Method + " " + r.URL.String()
		switch what {
		case "kill":
			j.signal(syscall.SIGKILL)
		case "stop":
			j.signal(syscall.SIGSTOP)
			close(j.stopped)
		default:
			return fault
		}
		return testkit.Fault{}
	})
	if what == "fault" && (err != nil || len(got.stored) < len(clean.stored)) {
		t.Errorf("%s: checkpoints %v, %v: %s", name, got.stored, err, j.said("launch"))
	}
	stored := got.stored
	if got.digest == "" {
		got = j.again(name)
	}
	if got.digest != clean.digest {
		t.Errorf("%s: digest %s, want %s: %s", name, got.digest, clean.digest, j.said("restart"))
	}
	j.sound(name, append(stored, got.stored...))
	t.Logf("%s; %d checkpoints, then %d", name, len(stored), len(got.stored))
}

// An objectJob is a job in a bucket of its own.
type objectJob struct {
	*sandbox
	way     string
	runs    *objectRuns
	args    []string
	stopped chan struct{}

	mu      sync.Mutex // held until the process is known
	process *os.Process
}

func (o *objectRuns) job(t *testing.T, way string) *objectJob {
	o.storage.Use(objecttest.NewMemory(time.Now))
	return &objectJob{sandbox: newSandbox(t, testkit.Credentials), way: way, runs: o, stopped: make(chan struct{}),
		args: append([]string{"--json", "--store", o.proxy.URL("bucket", "store")}, objectWays[way]...)}
}

// launch launches the job, and returns what it told. Hear, unless nil, hears of each request.
func (j *objectJob) launch(hear func(n int, r *http.Request) testkit.Fault) (run objectRun, err error) {
	var requests atomic.Int64
	j.runs.proxy.Again(func(n int, r *http.Request) testkit.Fault {
		requests.Store(int64(n))
		if hear == nil {
			return testkit.Fault{}
		}
		return hear(n, r)
	})
	defer j.runs.proxy.Again(nil)
	cmd := j.command("launch", slices.Concat([]string{"ckpt", "launch", "ring.S.4", "--iterations", "200", "--every", "50", "--job", "a"}, j.args)...)
	j.mu.Lock()
	err = cmd.Start()
	j.process = cmd.Process
	j.mu.Unlock()
	if err != nil {
		return run, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-j.stopped:
		j.stopped = nil // another launch goes on
		run, err = j.takenOver(ended)
		run.requests = int(requests.Load())
		return run, err
	}
	if err != nil { // its ranks end by themselves
		j.eventually("all processes to end", func() bool { return len(j.processes()) == 0 })
	}
	run = j.told("launch")
	run.requests = int(requests.Load())
	return run, err
}

// signal ends or stops ckpt.
func (j *objectJob) signal(s syscall.Signal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_ = j.process.Signal(s)
}

// takenOver has another process restart the job of one that is stopped, and lets that go on. It may have
// come so far that it tells the result, too.
func (j *objectJob) takenOver(ended chan error) (run objectRun, err error) {
	before := j.told("launch")
	cmd := j.command("restart", append([]string{"ckpt", "restart", "a", "--wait=5m"}, j.args[:3]...)...)
	err = cmd.Run()
	j.signal(syscall.SIGCONT)
	<-ended
	j.eventually("all processes to end", func() bool { return len(j.processes()) == 0 })
	if err != nil {
		if len(before.stored) > 0 {
			j.t.Errorf("the job of a stopped process: %v: %s", err, j.said("restart"))
		}
		return j.told("launch"), err
	}
	run = j.told("restart")
	if late := j.told("launch").digest; late != "" && late != run.digest {
		j.t.Errorf("a process whose job was taken over tells %s, the other one %s", late, run.digest)
	}
	run.stored = append(before.stored, run.stored...)
	return run, nil
}

// again restarts the job, or launches it once more if it had not begun.
func (j *objectJob) again(name string) objectRun {
	cmd := j.command("restart", append([]string{"ckpt", "restart", "a"}, j.args[:3]...)...)
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 4 && len(j.told("launch").stored) == 0 {
		run, err := j.launch(nil)
		if err != nil {
			j.t.Errorf("%s, launched again: %v: %s", name, err, j.said("launch"))
		}
		return run
	}
	if err != nil {
		j.t.Errorf("%s: restart: %v: %s", name, err, j.said("restart"))
	}
	return j.told("restart")
}

// told reads the events of a run.
func (j *objectJob) told(output string) (run objectRun) {
	b, err := os.ReadFile(filepath.Join(j.dir, output))
	if err != nil {
		j.t.Error(err)
	}
	for line := range bytes.Lines(b) {
		var event struct {
			Type   string `json:"type"`
			Number int    `json:"number"`
			Digest string `json:"digest"`
			Level  string `json:"storage_level"`
		}
		if json.Unmarshal(line, &event) != nil {
			continue
		}
		switch {
		case event.Type == "checkpoint" && event.Level == "", event.Type == "storage_level" && event.Level == "stored":
			run.stored = append(run.stored, event.Number)
		case event.Type == "result":
			run.digest = event.Digest
		}
	}
	return run
}

// sound checks that checkpoints are there, and all that are there.
func (j *objectJob) sound(name string, stored []int) {
	verify := j.command("verify", append([]string{"ckpt", "verify", "a"}, j.args[:3]...)...)
	if err := verify.Run(); err != nil {
		j.t.Errorf("%s: verify: %v: %s", name, err, j.said("verify"))
	}
	list := j.command("list", append([]string{"ckpt", "list", "a"}, j.args[:3]...)...)
	if err := list.Run(); err != nil {
		j.t.Errorf("%s: list: %v: %s", name, err, j.said("list"))
	}
	if j.way == "keep" {
		stored = stored[max(0, len(stored)-1):]
	}
	text, err := os.ReadFile(filepath.Join(j.dir, "list"))
	if err != nil {
		j.t.Error(err)
	}
	for _, n := range stored {
		if !bytes.Contains(text, fmt.Appendf(nil, `"number": %d,`, n)) {
			j.t.Errorf("%s: checkpoint %d was stored and is gone: %s", name, n, text)
		}
	}
}
