package mpi

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A program is a random exchange: who sends what to whom, in which order each
// rank sends, and how each rank receives.
type program struct {
	sends [][]planned // by sender, in order
	any   []bool      // the rank receives from any source
	byTag []bool      // the rank asks each source for the tags it knows will come
}

type planned struct{ dst, tag, bytes, serial int }

// sizes crosses every border there is: empty, inline, the ring, a cell, several
// cells, the whole pool.
var sizes = []int{0, 1, 31, 32, 4000, 4033, 16000, 16353, 65408, 65536, 65537, 300_000, 2 << 20, 5 << 20}

func drawProgram(t *rapid.T, size, perRank int) program {
	p := program{sends: make([][]planned, size), any: make([]bool, size), byTag: make([]bool, size)}
	budget := 24 << 20
	serial := 0
	for src := range size {
		n := rapid.IntRange(0, perRank).Draw(t, "messages")
		for range n {
			bytes := rapid.SampledFrom(sizes).Draw(t, "bytes")
			if budget -= bytes; budget < 0 {
				bytes = 8
			}
			p.sends[src] = append(p.sends[src], planned{
				dst: rapid.IntRange(0, size-1).Draw(t, "dst"), tag: rapid.IntRange(0, 2).Draw(t, "tag"), bytes: bytes, serial: serial})
			serial++
		}
		p.any[src] = rapid.Bool().Draw(t, "any source")
		p.byTag[src] = rapid.Bool().Draw(t, "by tag")
	}
	return p
}

func drawMapping(t *rapid.T, size int) []int {
	nodeOf := make([]int, size)
	for r := range nodeOf {
		nodeOf[r] = rapid.IntRange(0, 2).Draw(t, "node")
	}
	return nodeOf
}

// fill makes content that depends on everything that identifies a message.
func fill(b []byte, src, dst int, m planned) {
	rng := rand.New(rand.NewPCG(uint64(src)<<32|uint64(dst), uint64(m.serial)<<8|uint64(m.tag)))
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, rng.Uint64())
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
}

func (p *program) send(c *Comm) error {
	for _, m := range p.sends[c.Rank()] {
		b := make([]byte, m.bytes)
		fill(b, c.Rank(), m.dst, m)
		if err := c.Send(m.dst, m.tag, b); err != nil {
			return err
		}
		clear(b) // Send has returned: the memory is ours again
	}
	return nil
}

// receive takes everything that is meant for the rank and checks content and
// order.
func (p *program) receive(c *Comm) error {
	me := c.Rank()
	left := make([][]planned, c.Size())
	total := 0
	for src := range left {
		for _, m := range p.sends[src] {
			if m.dst == me {
				left[src] = append(left[src], m)
				total++
			}
		}
	}
	buf, want := make([]byte, slices.Max(sizes)), make([]byte, slices.Max(sizes))
	for range total {
		src, tag := AnySource, AnyTag
		if !p.any[me] {
			src = slices.IndexFunc(left, func(q []planned) bool { return len(q) > 0 })
			if p.byTag[me] {
				tag = left[src][len(left[src])-1].tag // overtakes messages with other tags
			}
		}
		st, err := c.Recv(src, tag, buf)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(left[st.Source], func(m planned) bool { return tag == AnyTag || m.tag == tag })
		if i < 0 {
			return fmt.Errorf("unexpected message %+v", st)
		}
		m := left[st.Source][i]
		left[st.Source] = slices.Delete(left[st.Source], i, i+1)
		fill(want[:m.bytes], st.Source, me, m)
		if st.Tag != m.tag || st.Bytes != m.bytes || !bytes.Equal(buf[:st.Bytes], want[:m.bytes]) {
			return fmt.Errorf("received %+v, the next one is %+v", st, m)
		}
	}
	return nil
}

// expected turns the counts of all ranks round, as the coordinator does.
func expected(w *world, rank int) []Count {
	var in []Count
	for src, c := range w.comms {
		for _, n := range c.Sent() {
			if n.Peer == rank {
				in = append(in, Count{Peer: src, N: n.N})
			}
		}
	}
	return in
}

// Everything arrives, whole and in order, under every mapping and implementation, and
// collectives in between neither disturb nor are disturbed.
func TestRandomPrograms(t *testing.T) {
	dir := shmDir(t)
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 6).Draw(t, "ranks")
		p := drawProgram(t, size, 12)
		w := newWorld(t, worldOptions{
			nodeOf: drawMapping(t, size), dir: dir,
			implementation: rapid.SampledFrom([]Implementation{MPICH, OpenMPI}).Draw(t, "implementation"),
		})
		defer w.close()
		// Sender and receiver of a rank are one goroutine: it sends all
		// before it receives any, which only an eager transport survives.
		w.must(t, func(c *Comm) error {
			if err := p.send(c); err != nil {
				return err
			}
			if err := c.Barrier(); err != nil {
				return err
			}
			if err := p.receive(c); err != nil {
				return err
			}
			x := []float64{float64(c.Rank())}
			if err := c.AllreduceSum(x); err != nil {
				return err
			}
			if want := float64(size*(size-1)) / 2; x[0] != want {
				return fmt.Errorf("sum %v, want %v", x[0], want)
			}
			return nil
		})
		for r, c := range w.comms {
			if err := c.Drain(context.Background(), expected(w, r)); err != nil {
				t.Fatalf("drain: %v", err)
			}
			if b := c.Pending(); b != nil {
				t.Fatalf("rank %d has %d bytes pending", r, len(b))
			}
		}
		for r, s := range w.segs {
			if err := quiescent(s); err != nil {
				t.Fatalf("rank %d: %v", r, err)
			}
		}
	})
}

// A checkpoint between sending and receiving: drain, save, restart elsewhere,
// receive there.
func TestDrainAndRestore(t *testing.T) {
	dir := shmDir(t)
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 5).Draw(t, "ranks")
		before, after := drawProgram(t, size, 4), drawProgram(t, size, 8)
		mapping := drawMapping(t, size)
		w := newWorld(t, worldOptions{nodeOf: mapping, dir: dir})
		defer w.close()
		w.must(t, before.send)
		w.must(t, before.receive)
		w.must(t, after.send)
		// All have stopped; large messages may still be between processes.
		w.must(t, func(c *Comm) error { return c.Drain(context.Background(), expected(w, c.Rank())) })
		pending := make([][]byte, size)
		segments := map[int][2][]byte{}
		for r, c := range w.comms {
			if err := quiescent(w.segs[r]); err != nil {
				t.Fatalf("rank %d: %v", r, err)
			}
			pending[r] = c.Pending()
			if _, saved := segments[mapping[r]]; !saved {
				parts := used(w.segs[r])
				segments[mapping[r]] = [2][]byte{bytes.Clone(parts[0]), bytes.Clone(parts[1])}
			}
		}
		for r, s := range w.segs { // nobody has written meanwhile
			for i, part := range used(s) {
				if !bytes.Equal(segments[mapping[r]][i], part) {
					t.Fatalf("the segment of node %d changed while it was saved", mapping[r])
				}
			}
		}
		if rapid.Bool().Draw(t, "goes on") {
			w.must(t, after.receive) // saving has taken nothing away
		}
		w.close()

		again := worldOptions{nodeOf: mapping, dir: dir, restore: segments}
		if rapid.Bool().Draw(t, "another mapping") {
			again = worldOptions{nodeOf: drawMapping(t, size), dir: dir,
				implementation: rapid.SampledFrom([]Implementation{MPICH, MPICH, OpenMPI}).Draw(t, "implementation")}
		}
		v := newWorld(t, again)
		defer v.close()
		v.must(t, func(c *Comm) error {
			// Some ranks are ahead: what they send has to come after
			// what is restored. Tag 3 is used by nobody else.
			next := (c.Rank() + 1) % size
			if err := c.Send(next, 3, []byte("ahead")); err != nil {
				return err
			}
			if c.Rank()%2 == 0 {
				if err := c.Drain(context.Background(), []Count{{Peer: (c.Rank() + size - 1) % size, N: 1}}); err != nil {
					return err
				}
			}
			if err := c.RestorePending(pending[c.Rank()]); err != nil {
				return err
			}
			if got := c.Pending(); c.Rank()%2 == 1 && len(pending[c.Rank()]) > 0 && len(got) < len(pending[c.Rank()]) {
				return fmt.Errorf("%d bytes restored, %d pending", len(pending[c.Rank()]), len(got))
			}
			return after.receive(c)
		})
		v.must(t, func(c *Comm) error {
			var buf [8]byte
			st, err := c.Recv(AnySource, AnyTag, buf[:])
			if err == nil && (st.Tag != 3 || string(buf[:st.Bytes]) != "ahead") {
				err = fmt.Errorf("last message %+v %q", st, buf)
			}
			return err
		})
		for r, c := range v.comms {
			if got := c.Sent(); len(got) != 1 || got[0] != (Count{Peer: (r + 1) % size, N: 1}) {
				t.Fatalf("rank %d has sent %+v since it joined", r, got)
			}
		}
	})
}
