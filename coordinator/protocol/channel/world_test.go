package channel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"pgregory.net/rapid"
)

// The tests run jobs of a few ranks over connections that break, with processes
// that die and disks that fail, all drawn from a seed.

// A held message lies in an inbox.
type held struct {
	from int
	seq  uint64 // 0 inside of a group
	tag  int32
	data []byte
}

// A memory is what a rank computes on.
type memory struct {
	pc       int
	hash     uint64
	sent     [][]uint64 // by peer
	received [][]uint64
}

func (m *memory) clone() *memory {
	c := &memory{pc: m.pc, hash: m.hash}
	for r := range m.sent {
		c.sent = append(c.sent, slices.Clone(m.sent[r]))
		c.received = append(c.received, slices.Clone(m.received[r]))
	}
	return c
}

func mix(h uint64, b []byte) uint64 {
	f := fnv.New64a()
	f.Write(binary.LittleEndian.AppendUint64(nil, h))
	f.Write(b)
	return f.Sum64()
}

type checkpoint struct {
	mem   *memory
	inbox []held
	state []byte
	vec   Vector
}

type rank struct {
	id          int
	incarnation uint64
	ep          *Endpoint // nil: dead
	mem         *memory
	inbox       []held
	wait        uint64

	checkpoints []checkpoint
	disk        []Frame  // durable
	tail        []Append // appended by this incarnation and not durable
}

// A link is a connection from a sender to a receiver.
type link struct {
	up       bool
	from, to uint64 // incarnations
	data     []Message
	acks     []uint64
}

type world struct {
	t       *rapid.T
	rng     *rand.Rand
	kind    Kind
	progs   [][]op
	group   []int // of each rank
	ranks   []*rank
	wires   [][]link
	printed [][]uint64 // by rank: what was put out
	crashes int
	lazy    bool // logs are committed rarely
}

func newWorld(t *rapid.T, rng *rand.Rand, kind Kind, progs [][]op, group []int) *world {
	w := &world{t: t, rng: rng, kind: kind, progs: progs, group: group, printed: make([][]uint64, len(progs)), lazy: rng.IntN(2) == 0}
	for r := range progs {
		k := &rank{id: r, mem: &memory{sent: make([][]uint64, len(progs)), received: make([][]uint64, len(progs))}}
		w.ranks = append(w.ranks, k)
		w.wires = append(w.wires, make([]link, len(progs)))
		ep, err := New(w.config(r))
		if err != nil {
			t.Fatal(err)
		}
		k.ep = ep
		w.save(k)
	}
	return w
}

func (w *world) config(r int) Config {
	c := Config{Kind: w.kind, Rank: r, Size: len(w.progs)}
	for p, g := range w.group {
		if g == w.group[r] {
			c.Group = append(c.Group, p)
		}
	}
	return c
}

// save takes a checkpoint of a rank.
func (w *world) save(k *rank) {
	st := k.ep.Snapshot()
	k.checkpoints = append(k.checkpoints, checkpoint{k.mem.clone(), slices.Clone(k.inbox), st.Encode(), st.Vector})
}

func (w *world) act(k *rank, acts []Action) {
	for _, a := range acts {
		switch a := a.(type) {
		case Transmit:
			wire := &w.wires[k.id][a.To]
			if !wire.up || wire.from != k.incarnation {
				w.t.Fatalf("rank %d transmits to %d without a connection", k.id, a.To)
			}
			wire.data = append(wire.data, a.Message)
		case Append:
			k.tail = append(k.tail, a)
		case Deliver:
			k.inbox = append(k.inbox, held{a.From, a.Message.Seq, a.Message.Tag, a.Message.Data})
		case Ack:
			if wire := &w.wires[a.To][k.id]; wire.up && wire.to == k.incarnation {
				wire.acks = append(wire.acks, a.Seq)
			}
		}
	}
}

// step carries out the next op of a rank, if it can.
func (w *world) step(k *rank) bool {
	if k.ep == nil || k.ep.Durable() < k.wait || k.mem.pc == len(w.progs[k.id]) {
		return false
	}
	m := k.mem
	switch op := w.progs[k.id][m.pc]; op.kind {
	case 's':
		data := binary.LittleEndian.AppendUint64(nil, m.hash)
		m.hash = mix(m.hash, []byte{byte(op.peer)})
		m.sent[op.peer] = append(m.sent[op.peer], binary.LittleEndian.Uint64(data)<<1|uint64(op.tag))
		if k.ep.Inside(op.peer) {
			p := w.ranks[op.peer]
			p.inbox = append(p.inbox, held{from: k.id, tag: op.tag, data: data})
		} else {
			_, acts := k.ep.Send(op.peer, Message{Tag: op.tag, Data: data})
			w.act(k, acts)
		}
	case 'r', 'a':
		src := op.peer
		if op.kind == 'a' {
			src = -1
			if s, _, ok := k.ep.Recorded(); ok {
				src = s
			}
		}
		i := slices.IndexFunc(k.inbox, func(h held) bool { return h.tag == op.tag && (src < 0 || h.from == src) })
		if i < 0 {
			return false
		}
		h := k.inbox[i]
		k.inbox = slices.Delete(k.inbox, i, i+1)
		m.hash = mix(m.hash, h.data)
		m.received[h.from] = append(m.received[h.from], binary.LittleEndian.Uint64(h.data)<<1|uint64(h.tag))
		if op.kind == 'a' {
			wait, acts, err := k.ep.ReceivedAny(h.from, h.seq)
			if err != nil {
				w.t.Fatal(err)
			}
			k.wait = wait
			w.act(k, acts)
		}
	case 'o':
		n := k.ep.Output()
		if have := uint64(len(w.printed[k.id])); n > have+1 {
			w.t.Fatalf("output %d of rank %d follows %d", n, k.id, have)
		} else if n == have+1 {
			w.printed[k.id] = append(w.printed[k.id], m.hash)
		}
	}
	m.pc++
	return true
}

// connect makes a connection from i to j.
func (w *world) connect(i, j int) bool {
	from, to, wire := w.ranks[i], w.ranks[j], &w.wires[i][j]
	if from.ep == nil || to.ep == nil || wire.up || from.ep.Inside(j) {
		return false
	}
	if err := errors.Join(to.ep.Admit(i, from.incarnation), from.ep.Admit(j, to.incarnation)); err != nil {
		w.t.Fatal(err)
	}
	*wire = newLink(from.incarnation, to.incarnation)
	acts, err := from.ep.PeerUp(j, to.ep.Have(i))
	if err != nil {
		w.t.Fatalf("from %d to %d: %v", i, j, err)
	}
	w.act(from, acts)
	w.act(to, to.ep.Connected(i))
	return true
}

func newLink(from, to uint64) link { return link{up: true, from: from, to: to} }

// breaks loses a connection, with what is on its way, or keeps what was sent for
// the receiver a little longer.
func (w *world) breaks(i, j int) bool {
	wire := &w.wires[i][j]
	if !wire.up {
		return false
	}
	for n := w.rng.IntN(len(wire.data) + 1); n > 0; n-- {
		if !w.arrive(i, j) {
			break
		}
	}
	*wire = link{}
	if from := w.ranks[i]; from.ep != nil {
		from.ep.PeerDown(j)
	}
	return true
}

func (w *world) arrive(i, j int) bool {
	wire, to := &w.wires[i][j], w.ranks[j]
	if !wire.up || len(wire.data) == 0 || to.ep == nil || wire.to != to.incarnation || to.ep.Incarnation(i) != wire.from {
		return false
	}
	m := wire.data[0]
	if w.rng.IntN(8) > 0 { // now and then it comes twice
		wire.data = wire.data[1:]
	}
	if w.rng.IntN(40) == 0 && len(wire.data) > 1 { // or is lost by a wire that should not
		wire.data = wire.data[1:]
	}
	acts, err := to.ep.Arrive(i, m)
	if err == ErrGap {
		*wire = link{}
		if from := w.ranks[i]; from.ep != nil {
			from.ep.PeerDown(j)
		}
		return true
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.act(to, acts)
	return true
}

func (w *world) acknowledge(i, j int) bool {
	wire, from := &w.wires[i][j], w.ranks[i]
	if !wire.up || len(wire.acks) == 0 || from.ep == nil || wire.from != from.incarnation {
		return false
	}
	from.ep.Acked(j, wire.acks[0])
	wire.acks = wire.acks[1:]
	return true
}

// commit makes some of a rank's frames durable.
func (w *world) commit(k *rank) bool {
	if k.ep == nil || len(k.tail) == 0 {
		return false
	}
	n := 1 + w.rng.IntN(len(k.tail))
	for _, a := range k.tail[:n] {
		k.disk = append(k.disk, a.Frame)
	}
	last := k.tail[n-1].Index
	k.tail = k.tail[n:]
	w.act(k, k.ep.Logged(last))
	return true
}

// commitFails loses what is not durable; the log is then used again.
func (w *world) commitFails(k *rank) bool {
	if k.ep == nil || len(k.tail) == 0 {
		return false
	}
	k.tail = nil
	w.act(k, k.ep.Relog())
	return true
}

// event lets one thing happen, if it can.
func (w *world) event(faults bool) bool {
	n := len(w.ranks)
	i, j := w.rng.IntN(n), w.rng.IntN(n)
	switch x := w.rng.IntN(100); {
	case x < 30:
		return w.step(w.ranks[i])
	case x < 55:
		return w.arrive(i, j)
	case x < 65:
		return w.acknowledge(i, j)
	case x < 75:
		if faults && w.lazy && w.rng.IntN(10) > 0 {
			return false
		}
		return w.commit(w.ranks[i])
	case x < 85:
		return w.connect(i, j)
	case x < 88 && faults:
		return w.checkpoint(w.group[i])
	case x < 92 && w.kind != None && w.kind != Optimistic:
		return w.restart(w.group[i])
	case !faults:
		return false
	case x < 95:
		return w.breaks(i, j)
	case x < 97:
		return w.commitFails(w.ranks[i])
	case x < 99:
		w.crash(w.group[i])
		return true
	}
	return false
}

func (w *world) finished() bool {
	for r, k := range w.ranks {
		if k.ep == nil || k.mem.pc < len(w.progs[r]) || k.ep.Durable() < k.wait {
			return false
		}
	}
	return true
}

// run has everything happen, at last without faults, until all are at their end.
func (w *world) run(events int) {
	for range events {
		w.event(true)
	}
	for left := 200_000; !w.finished(); left-- {
		w.event(false)
		if left == 0 {
			var where []string
			for r, k := range w.ranks {
				where = append(where, fmt.Sprintf("rank %d alive %v at %d of %d, inbox %d", r, k.ep != nil, k.mem.pc, len(w.progs[r]), len(k.inbox)))
			}
			w.t.Fatalf("%v: no progress: %v", w.kind, where)
		}
	}
}

// check compares what was received with what was sent, in the histories that have
// survived.
func (w *world) check() {
	for i, from := range w.ranks {
		for j, to := range w.ranks {
			for tag := range uint64(2) {
				has := func(x uint64) bool { return x&1 != tag }
				sent, got := slices.DeleteFunc(slices.Clone(from.mem.sent[j]), has), slices.DeleteFunc(slices.Clone(to.mem.received[i]), has)
				if !slices.Equal(sent, got) {
					w.t.Fatalf("%v: rank %d has sent %x to %d, which has received %x", w.kind, i, sent, j, got)
				}
			}
		}
	}
}

// settle lets everything arrive and be acknowledged, and takes a last checkpoint:
// then nobody keeps anything.
func (w *world) settle() {
	for i := range w.ranks {
		for j := range w.ranks {
			w.connect(i, j)
		}
	}
	for moved := true; moved; {
		moved = false
		for i := range w.ranks {
			moved = w.commit(w.ranks[i]) || moved
			for j := range w.ranks {
				moved = w.arrive(i, j) || moved
				moved = w.acknowledge(i, j) || moved
				moved = w.connect(i, j) || moved
			}
		}
	}
	for _, g := range w.group {
		w.checkpoint(g)
	}
	for i, k := range w.ranks {
		for j := range w.ranks {
			if n, b, u := k.ep.Kept(j); n != 0 || b != 0 || u != 0 || !settled(k.ep, j) {
				w.t.Fatalf("%v: rank %d keeps %d messages, %d bytes (%d not acknowledged) to rank %d", w.kind, i, n, b, u, j)
			}
		}
		if len(k.ep.entries) != 0 || len(k.inbox) != 0 {
			w.t.Fatalf("%v: rank %d has %d entries and %d messages left", w.kind, i, len(k.ep.entries), len(k.inbox))
		}
	}
}

func drawGroups(rng *rand.Rand, size int, kind Kind) []int {
	group := make([]int, size)
	for r := range group {
		group[r] = r
		if r > 0 && (kind == Receiver || kind == Sender) && rng.IntN(3) == 0 {
			group[r] = group[rng.IntN(r)]
		}
	}
	return group
}
