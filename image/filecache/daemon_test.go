package filecache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"ckpt/internal/testkit"
	"ckpt/internal/vfs/memfs"
)

// Daemons are those of a cache in one process. One that is killed answers no more, and all that
// it has told others to wait for ends.
type daemons struct {
	list []*Daemon
	ctx  []context.Context
	kill []context.CancelFunc
}

var errKilled = errors.New("its daemon was killed")

// peersOf are the ways of one daemon to the others.
type peersOf struct {
	all  *daemons
	from int
}

func (p peersOf) Ask(_ context.Context, node int, m Message) (Answer, error) {
	if p.all.ctx[p.from].Err() != nil || p.all.ctx[node].Err() != nil {
		return Answer{}, errKilled
	}
	return p.all.list[node].Answer(p.all.ctx[p.from], m)
}

func (p peersOf) Reach(context.Context) error { return nil }

func newDaemons(t testing.TB, all []*memfs.FS, o DaemonOptions) *daemons {
	d := &daemons{}
	for i := range all[1:] {
		ctx, kill := context.WithCancel(background)
		d.ctx, d.kill = append(d.ctx, ctx), append(d.kill, kill)
		d.list = append(d.list, must(NewDaemon(*cacheOf(all), i, peersOf{d, i}, o))(t))
	}
	t.Cleanup(d.end)
	return d
}

// end ends all daemons as their death does: directories stay as they are.
func (d *daemons) end() {
	for i, x := range d.list {
		d.kill[i]()
		for name := range x.members {
			if m := x.takeMember(name); m != nil {
				m.end(ErrAbandoned)
			}
		}
	}
}

// put makes a file of the store.
func put(t testing.TB, store *memfs.FS, name string, data []byte) {
	t.Helper()
	if _, err := store.Stat("/store"); err != nil {
		check(t, store.Mkdir("/store"))
	}
	f := must(store.Create("/store/" + name))(t)
	must(f.WriteAt(data, 0))(t)
	check(t, errors.Join(f.Sync(), f.Close(), store.SyncDir("/store"), store.SyncDir("/")))
}

func all(h *Handle) ([]byte, error) {
	n, err := h.Size(background)
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	k, err := h.ReadAt(b, 0)
	if err == io.EOF && int64(k) == n {
		err = nil
	}
	return b, err
}

var daemonLevels = []Levels{
	{Volatile: true}, {Records: true}, {Replicas: 1}, {Replicas: 2, JournalBytes: 3000}, {Versions: true, Volatile: true},
	{Records: true, Replicas: 1, Versions: true},
}

// TestDaemonsShareFiles: programs of all nodes write, read, sync, cut and close the same files,
// and each sees at once what another one has done.
func TestDaemonsShareFiles(t *testing.T) {
	for i, l := range daemonLevels {
		for nodes := 1; nodes <= 3; nodes += 2 {
			if l.Replicas >= nodes {
				continue
			}
			t.Run(fmt.Sprintf("%d nodes %+v", nodes, l), func(t *testing.T) {
				_, fs := cluster(nodes)
				d := newDaemons(t, fs, DaemonOptions{Levels: l, Stripe: 64, Writers: 2})
				for _, name := range []string{"a", "b"} {
					put(t, fs[nodes], name, nil)
					d.use(t, fs, name, uint64(i), l)
				}
			})
		}
	}
}

func (d *daemons) use(t *testing.T, fs []*memfs.FS, name string, seed uint64, l Levels) {
	rng := rand.New(rand.NewPCG(seed, 1))
	nodes := len(d.list)
	open := make([]*Handle, nodes)
	var want []byte
	for step := range 120 {
		node := rng.IntN(nodes)
		if open[node] == nil {
			open[node] = must(d.list[node].Open(background, name))(t)
		}
		h := open[node]
		switch k := rng.IntN(20); {
		case k < 10:
			off, data := rng.IntN(400), random(rng.Uint64(), 1+rng.IntN(200))
			must(h.WriteAt(data, int64(off)))(t)
			want = grown(want, off+len(data))
			copy(want[off:], data)
		case k < 14:
			check(t, same(must(all(h))(t), want))
		case k < 15:
			check(t, h.Sync(background))
			if !l.Versions {
				check(t, same(stored(t, &d.list[0].cache, "/store/"+name), want))
			}
		case k < 17:
			n := rng.IntN(600)
			check(t, h.Truncate(background, int64(n)))
			want = grown(want, n)[:n]
		default:
			check(t, h.Flush(background))
			if rng.IntN(2) == 0 {
				open[node] = nil // else it is used again
			}
		}
		_ = step
	}
	for _, h := range open {
		if h != nil {
			check(t, h.Flush(background))
		}
	}
	path := "/store/" + name
	if l.Versions {
		numbers := must(d.list[0].cache.Versions(name))(t)
		v := must(d.list[0].cache.readVersion(name, numbers[len(numbers)-1]))(t)
		check(t, d.list[0].cache.verifyVersion(v))
		path = d.list[0].cache.Store.versionPath(name, v.Number)
	}
	check(t, same(stored(t, &d.list[0].cache, path), want))
	for i := range nodes {
		if list, err := fs[i].ReadDir("/nvme"); err != nil || len(list) > 0 {
			t.Errorf("node %d has %v, %v", i, list, err)
		}
	}
}

func grown(b []byte, n int) []byte {
	if n <= len(b) {
		return b
	}
	return append(b, make([]byte, n-len(b))...)
}

// TestDaemonsServeWritersAtOnce has programs of all nodes write their own cells at the same time,
// while others sync, and one conditional writer win each cell.
func TestDaemonsServeWritersAtOnce(t *testing.T) {
	_, fs := cluster(3)
	put(t, fs[3], "x", nil)
	d := newDaemons(t, fs, DaemonOptions{Levels: Levels{Replicas: 1, JournalBytes: 2000}, Stripe: 64})
	var mu sync.Mutex
	won := make(map[int]byte)
	check(t, each(6, func(i int) error {
		h, err := d.list[i%3].Open(background, "x")
		if err != nil {
			return err
		}
		for cell := range 40 {
			ok, err := h.WriteIf([]byte{byte(i + 1)}, int64(cell), 0xff)
			if err != nil {
				return err
			}
			if ok {
				mu.Lock()
				if won[cell] != 0 {
					err = fmt.Errorf("cell %d was won by %d and %d", cell, won[cell], i+1)
				}
				won[cell] = byte(i + 1)
				mu.Unlock()
			}
			if _, werr := h.WriteAt(random(uint64(i), 30), int64(100+300*i+30*(cell%10))); werr != nil || err != nil {
				return errors.Join(err, werr)
			}
			if cell%16 == i {
				if err := h.Sync(background); err != nil {
					return err
				}
			}
		}
		return h.Flush(background)
	}))
	got := stored(t, &d.list[0].cache, "/store/x")
	for cell := range 40 {
		if won[cell] == 0 || got[cell] != won[cell] {
			t.Errorf("cell %d has %d, but %d has won", cell, got[cell], won[cell])
		}
	}
	for i := range 6 {
		for k := range 10 {
			check(t, same(got[100+300*i+30*k:][:30], random(uint64(i), 30)))
		}
	}
}

// TestLostDaemon: after a daemon is lost nothing hangs, and what uses the file says that it has
// to be recovered.
func TestLostDaemon(t *testing.T) {
	for lost := range 3 {
		_, fs := cluster(3)
		put(t, fs[3], "x", nil)
		d := newDaemons(t, fs, DaemonOptions{Levels: Levels{Replicas: 1}, Stripe: 64})
		other := (lost + 1) % 3
		a, b := must(d.list[lost].Open(background, "x"))(t), must(d.list[other].Open(background, "x"))(t)
		want := random(uint64(lost), 300)
		must(a.WriteAt(want[:200], 0))(t)
		must(b.WriteAt(want[200:], 200))(t)
		d.kill[lost]()
		if err := b.Sync(background); err == nil {
			t.Error("a sync succeeded without a node")
		}
		for i := range d.list {
			if i != lost {
				check(t, d.list[i].abandon("x"))
			}
		}
		if _, err := b.WriteAt([]byte{1}, 0); !errors.Is(err, ErrAbandoned) {
			t.Errorf("write: %v", err)
		}
		if err := b.Flush(background); !errors.Is(err, ErrAbandoned) {
			t.Errorf("close: %v", err)
		}
		fs[lost] = memfs.New() // its directory as well
		f, rec, err := cacheOf(fs).Recover(background, "x", Options{})
		check(t, err)
		if rec.From != FromJournal || len(rec.Lost) != 1 {
			t.Errorf("recovered from %s, lost %v", rec.From, rec.Lost)
		}
		check(t, f.Close(background))
		check(t, same(stored(t, cacheOf(fs), "/store/x"), want))
		d.end()
		// All daemons go on.
		d = newDaemons(t, fs, DaemonOptions{Levels: Levels{Replicas: 1}, Stripe: 64})
		check(t, same(must(all(must(d.list[lost].Open(background, "x"))(t)))(t), want))
	}
}

// TestCrashOfDaemons loses power, processes and nodes after every operation of daemons that serve
// programs of three nodes.
func TestCrashOfDaemons(t *testing.T) {
	for i, levels := range []Levels{{Records: true}, {Replicas: 1}, {Records: true, Replicas: 1, Versions: true}} {
		t.Run(fmt.Sprintf("%+v", levels), func(t *testing.T) {
			t.Parallel()
			seeds := 1
			if nightly() {
				seeds = 12
			}
			for seed := range seeds {
				r := newCrashRun(3, levels, uint64(seed+20*i), true)
				switch {
				case nightly():
					r.nested, r.crash = true, 4
				case testkit.Enabled:
					r.step = 41
				default:
					r.step = 11
				}
				check(t, r.serve(t, uint64(seed)))
				t.Logf("%d states, %d of them distinct: %v", r.states, len(r.seen), r.kinds)
			}
		})
	}
}

// serve has programs of all nodes write, sync and close through their daemons.
func (r *crashRun) serve(t *testing.T, seed uint64) error {
	d := newDaemons(t, r.all, DaemonOptions{Levels: r.levels, Stripe: 700, Writers: 1})
	rng := rand.New(rand.NewPCG(seed, 6))
	open := make([]*Handle, len(d.list))
	for i := range open {
		open[i] = must(d.list[i].Open(background, "x"))(t)
	}
	for i := range 8 {
		if i%4 == 3 {
			r.model.beginSync()
			if err := open[i%3].Sync(background); err != nil {
				return err
			}
			r.model.endSync()
		}
		off := rng.IntN(crashSize)
		data := random(rng.Uint64(), min(1+rng.IntN(3000), crashSize-off))
		w := r.model.begin(int64(off), data)
		if _, err := open[rng.IntN(3)].WriteAt(data, int64(off)); err != nil {
			return err
		}
		r.model.end(w)
	}
	r.model.beginSync()
	for _, h := range open {
		if err := h.Flush(background); err != nil {
			return err
		}
	}
	r.model.endSync()
	return r.checks.Wait()
}
