package nodes

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// TestEncoderFaults fails each operation of one holder, with a window so small that
// parity is spilled and read again. There is an error and no parity file, or the file
// restores what is lost.
func TestEncoderFaults(t *testing.T) {
	sizes := []int{9*page + 5, 7 * page, 12 * page, 3*page + 1}
	run := func(fault memfs.Fault) (ops int, err error) {
		g := newGroup(4, 2, page, sizes)
		at := memfs.New()
		faulty := memfs.WithFault(lateRemove{at}, fault)
		g.nodes[1] = faulty
		err = g.encode(g.cut(rand.New(rand.NewPCG(1, 1)), 3000, true), 2*page)
		ops = len(faulty.Ops())
		if err != nil {
			if _, serr := at.Stat("p"); !errors.Is(serr, fs.ErrNotExist) {
				t.Errorf("%+v: after %v, a parity file is left", fault, err)
			}
			return ops, err
		}
		g.nodes[1] = at
		for member := range 4 {
			var out buffer
			if _, err := Rebuild(t.Context(), g.set, member, g.sources(t, member, (member+2)%4), &out); err != nil || !bytes.Equal(out.b, g.files[member]) {
				t.Errorf("%+v: member %d was not restored: %v", fault, member, err)
			}
		}
		return ops, nil
	}
	ops, err := run(memfs.Fault{})
	if err != nil {
		t.Fatal(err)
	}
	if ops < 20 {
		t.Errorf("only %d operations: nothing was spilled", ops)
	}
	for at := 1; at <= ops; at++ {
		for _, f := range []memfs.Fault{{Err: syscall.EIO}, {Err: syscall.ENOSPC, Short: true}, {Short: true}} {
			f.At = at
			// The order of operations differs from run to run: some faults hit nothing.
			_, _ = run(f)
		}
	}
}

// TestSpillFails fails the write and the read that move a row between memory and the file. The encoder
// has the error before the row is free again: another member would make a wrong file durable.
func TestSpillFails(t *testing.T) {
	for op, move := range map[string]func(e *Encoder, r *row) error{
		"write": func(e *Encoder, r *row) error { return e.spill(r) },
		"read": func(e *Encoder, r *row) error {
			if err := e.spill(r); err != nil {
				return err
			}
			return e.load(r)
		},
	} {
		g := newGroup(4, 2, page, []int{page, page, page, page})
		at := memfs.New()
		e, err := newEncoder(memfs.WithFault(at, memfs.Fault{Of: func(o memfs.Op) bool { return o.Name == op }, At: 1, Err: syscall.EIO}), "p", g.id(1), 2*page, time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(e.Add(0, 0, g.files[0][:page/2]), e.Add(0, page/2, g.files[0][page/2:])); err != nil {
			t.Fatal(err)
		}
		e.mu.Lock()
		for _, r := range e.rows {
			if err := move(e, r); !errors.Is(err, syscall.EIO) || e.err == nil {
				t.Fatalf("%s: %v, and the encoder has error %v", op, err, e.err)
			}
		}
		e.mu.Unlock()
		if _, err := e.End(0, page); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: the end says %v", op, err)
		}
		if _, err := at.Stat("p"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a parity file is left: %v", op, err)
		}
	}
}

// A lateRemove takes its time to remove a file, so that others go on before it is gone.
type lateRemove struct{ vfs.FS }

func (l lateRemove) Remove(name string) error {
	time.Sleep(time.Millisecond)
	return l.FS.Remove(name)
}

// TestRebuildFaults fails each read of a parity file: the file is restored from what
// else there is, or there is an error.
func TestRebuildFaults(t *testing.T) {
	g := newGroup(4, 2, page, []int{9*page + 5, 7 * page, 12 * page, 3*page + 1})
	if err := g.encode(g.cut(rand.New(rand.NewPCG(1, 1)), 3000, false), 1<<20); err != nil {
		t.Fatal(err)
	}
	sound := g.nodes[1]
	run := func(fault memfs.Fault) (ops int, err error) {
		faulty := memfs.WithFault(sound, fault)
		p, err := OpenParity(faulty, "p")
		if err != nil {
			return 0, err
		}
		defer p.Close()
		from := g.sources(t, 0, 2)
		rest := from.Parity
		from.Parity = func(i int) *Parity {
			if i == 1 {
				return p
			}
			return rest(i)
		}
		var out buffer
		_, err = Rebuild(t.Context(), g.set, 2, from, &out)
		if err == nil && !bytes.Equal(out.b, g.files[2]) {
			t.Errorf("%+v: wrong bytes", fault)
		}
		return len(faulty.Ops()), err
	}
	ops, err := run(memfs.Fault{})
	if err != nil {
		t.Fatal(err)
	}
	for at := 1; at <= ops; at++ {
		if _, err := run(memfs.Fault{At: at, Err: syscall.EIO}); err == nil && at < ops {
			t.Errorf("operation %d failed, of the only parity there was, and no error came", at)
		}
	}
}

// TestEncoderCrash cuts the power after every operation of a holder once its parity is
// announced: the file is whole then.
func TestEncoderCrash(t *testing.T) {
	g := newGroup(3, 1, page, []int{5 * page, 4*page + 1, 6 * page})
	at := memfs.New()
	g.nodes[0] = at
	if err := g.encode(g.cut(rand.New(rand.NewPCG(1, 1)), 3000, true), 2*page); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(20) {
		p, err := OpenParity(at.CrashClone(memfs.Crash{Seed: seed}), "p")
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(t.Context()); err != nil || p.Info() != g.infos[0] {
			t.Fatalf("after a crash: %v", err)
		}
	}
}
