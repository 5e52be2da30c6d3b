package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"ckpt/internal/objectfs"
	"ckpt/internal/objectfs/objecttest"
	"ckpt/internal/testkit"
)

// A proxyFault is what happens to one request on its way.
type proxyFault struct {
	testkit.Fault
	lie bool
}

// proxyFaults: an answer that is not the storage's own costs at most the checkpoint, all else nothing.
var proxyFaults = func() (list []proxyFault) {
	for _, f := range testkit.Faults {
		list = append(list, proxyFault{f, false})
	}
	return append(list, proxyFault{testkit.Fault{Status: http.StatusPreconditionFailed}, true},
		proxyFault{testkit.Fault{Status: http.StatusPreconditionFailed, Done: true}, true})
}()

// An act is a piece of the work of a coordinator or a reader. It begins with the bucket that those
// before left, as another process.
type act struct {
	name   string
	copied int // checkpoints that it leaves in the copy
	do     func(fsys *objectfs.FS, t *tenure)
}

var acts = []act{
	{"create", 0, func(fsys *objectfs.FS, t *tenure) {
		s, err := CreateStore(fsys, bucketDir)
		var j *Job
		if err == nil {
			j, err = s.CreateJob(testJob, []byte("{}\n"))
		}
		if err == nil {
			err = j.Unlock()
		}
		t.end = err
	}},
	{"checkpoint", 0, resumed(func(k *taker, t *tenure) { t.insist(k) })},
	{"next checkpoint", 0, resumed(func(k *taker, t *tenure) { t.insist(k) })},
	{"prune", 0, resumed(func(k *taker, t *tenure) {
		t.insist(k)
		t.prune(k)
		t.insist(k)
	})},
	{"read", 0, func(fsys *objectfs.FS, t *tenure) { t.end = readAll(fsys, bucketDir, t.committed) }},
	{"copy", 1, func(fsys *objectfs.FS, t *tenure) { t.end = copyBucket(fsys, 1) }},
	{"copy on", 2, func(fsys *objectfs.FS, t *tenure) { t.end = copyBucket(fsys, 2) }},
	{"copy the rest", 3, func(fsys *objectfs.FS, t *tenure) { t.end = copyBucket(fsys, 3) }},
}

// insist takes a checkpoint, or the one after it: the job goes on after one that was aborted.
func (t *tenure) insist(k *taker) {
	if t.take(k); t.end != nil {
		t.take(k)
	}
}

// resumed takes a job over for some work.
func resumed(work func(k *taker, t *tenure)) func(*objectfs.FS, *tenure) {
	return func(fsys *objectfs.FS, t *tenure) {
		k, err := reopen(fsys, bucketDir)
		if err == nil {
			work(k, t)
			err = errors.Join(t.end, k.job.Unlock())
		}
		t.end = err
	}
}

// played is an act with the bucket that it begins with, what is committed there, and its requests
// if nothing happens.
type played struct {
	act
	before    *objecttest.Memory
	committed []int
	requests  int
}

// TestProxy has each request in turn meet each fault between the client and a storage, while a
// coordinator takes checkpoints, prunes and sweeps, and while they are read and copied.
func TestProxy(t *testing.T) {
	for _, word := range testkit.Credentials {
		name, value, _ := strings.Cut(word, "=")
		t.Setenv(name, value)
	}
	st, err := newStage()
	if err != nil {
		t.Fatal(err)
	}
	var plays []played
	now, committed, requests := objecttest.NewMemory(time.Now), []int(nil), 0
	for _, a := range acts {
		p := played{a, now.Clone(), committed, 0}
		st.storage.Use(now)
		first := tenure{committed: committed}
		a.do(openIn(st.bucket, modelPart), &first)
		if committed = first.committed; first.end != nil {
			t.Fatal(a.name, first.end)
		}
		p.requests = st.requests()
		requests += p.requests
		t.Logf("%s: %d requests", p.name, p.requests)
		plays = append(plays, p)
	}
	st.end()
	if len(committed) != 3 || requests < 300 {
		t.Fatal(committed, requests)
	}
	var cases []func(st *stage) error
	for _, p := range plays {
		for _, f := range proxyFaults {
			for at := 1; at <= p.requests; at++ {
				cases = append(cases, func(st *stage) error { return st.play(p, at, f.Fault, f.lie) })
			}
		}
	}
	rand.New(rand.NewPCG(44, 44)).Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
	cases = testkit.Some(40, cases...)
	var next atomic.Int64
	var all errgroup.Group
	for range 4 {
		all.Go(func() error {
			st, err := newStage()
			if err != nil {
				t.Error(err)
				return nil
			}
			defer st.end()
			for i := next.Add(1) - 1; i < int64(len(cases)); i = next.Add(1) - 1 {
				if err := cases[i](st); err != nil {
					t.Error(err)
				}
				if i%1000 == 999 {
					t.Logf("case %d of %d", i+1, len(cases))
				}
			}
			return nil
		})
	}
	_ = all.Wait()
	t.Logf("%d cases, of %d requests and %d faults", len(cases), requests, len(proxyFaults))
}

// A stage is a storage behind a proxy, and a client of it.
type stage struct {
	storage *objecttest.Server
	proxy   *testkit.Proxy
	bucket  objectfs.Bucket
	seen    atomic.Int64
}

func newStage() (*stage, error) {
	st := &stage{storage: &objecttest.Server{}}
	st.proxy = testkit.StartProxyOf(st.storage)
	st.count(0, testkit.Fault{}, nil)
	var err error
	st.bucket, err = objectfs.Connect(testkit.Name(st.proxy.Endpoint, "bucket"))
	return st, err
}

func (st *stage) end() { st.proxy.End() }

// count counts requests anew, and has one meet a fault.
func (st *stage) count(at int, f testkit.Fault, met *atomic.Value) {
	st.proxy.Again(func(n int, r *http.Request) testkit.Fault {
		st.seen.Store(int64(n))
		if n != at {
			return testkit.Fault{}
		}
		met.Store(r.Method + " " + r.URL.String())
		return f
	})
}

// requests returns how many there were since the count began.
func (st *stage) requests() int {
	defer st.count(0, testkit.Fault{}, nil)
	return int(st.seen.Load())
}

// play plays an act in which a request meets a fault, and looks at what is there.
func (st *stage) play(p played, at int, f testkit.Fault, lie bool) error {
	now := p.before.Clone()
	st.storage.Use(now)
	var met atomic.Value
	st.count(at, f, &met)
	t := tenure{committed: p.committed}
	p.do(openIn(st.bucket, modelPart), &t)
	st.count(0, testkit.Fault{}, nil) // all that was late has arrived
	var err error
	if !lie {
		err = t.end
	}
	if t.end == nil || len(p.committed) > 0 {
		err = cmp.Or(err, readAll(openIn(now, modelPart), bucketDir, t.committed))
	}
	if t.end == nil && p.copied > 0 {
		err = cmp.Or(err, readAll(openIn(now, modelPart), copyDir, t.committed[:p.copied]))
	}
	if err != nil {
		return fmt.Errorf("%s, request %d, %v, %+v: %w (it ended with %v)", p.name, at, met.Load(), f, err, t.end)
	}
	return nil
}

const copyDir = bucketDir + "/copy"

// openIn opens a bucket for a process that comes now.
func openIn(b objectfs.Bucket, part int64) *objectfs.FS {
	return world{objecttest.NewWorld(b), part}.open(nil)
}

func jobIn(fsys *objectfs.FS, dir string) (*Job, error) {
	s, err := OpenStore(fsys, dir)
	if err != nil {
		return nil, err
	}
	return s.Job(testJob)
}

// readAll reads all checkpoints, which some are of.
func readAll(fsys *objectfs.FS, dir string, some []int) error {
	j, err := jobIn(fsys, dir)
	if err != nil {
		return err
	}
	return checkAll(j, some)
}

// copyBucket copies the first checkpoints into another store.
func copyBucket(fsys *objectfs.FS, most int) error {
	j, err := jobIn(fsys, bucketDir)
	if err != nil {
		return err
	}
	all, err := j.Checkpoints()
	if err != nil {
		return err
	}
	to, err := CreateStore(fsys, copyDir)
	if err != nil {
		return err
	}
	return (&JobCopy{From: j, To: to}).Run(context.Background(), all[:min(most, len(all))])
}
