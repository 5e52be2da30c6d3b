package channel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"

	"pgregory.net/rapid"
)

// The tests run jobs of a few ranks over connections that break, with processes
// that die and disks that fail, all drawn from a seed.

// An op is one step of a rank's program. Any-source receives take messages with
// tag 1, the others those with tag 0, so that no schedule can starve a receive.
type op struct {
	kind byte // 's'end, 'r'eceive, 'a'ny source, 'o'utput
	peer int
	tag  int32
}

// drawPrograms returns programs that come to their end under every schedule: what
// is received was sent before, in the order in which the ops are made up.
func drawPrograms(rng *rand.Rand, size, ops int, anySource bool) [][]op {
	progs := make([][]op, size)
	left := make([][]int, size) // messages with tag 0 by receiver and sender
	any := make([]int, size)
	for r := range left {
		left[r] = make([]int, size)
	}
	receive := func(r int) bool {
		if any[r] > 0 && rng.IntN(2) == 0 {
			any[r]--
			progs[r] = append(progs[r], op{kind: 'a', tag: 1})
			return true
		}
		if src := rng.IntN(size); left[r][src] > 0 {
			left[r][src]--
			progs[r] = append(progs[r], op{kind: 'r', peer: src})
			return true
		}
		return false
	}
	for range ops {
		r := rng.IntN(size)
		switch k := rng.IntN(10); {
		case k == 0:
			progs[r] = append(progs[r], op{kind: 'o'})
		case k < 5 && receive(r):
		default:
			dst, tag := rng.IntN(size), int32(0)
			if anySource && rng.IntN(4) > 0 {
				tag = 1
				any[dst]++
			} else {
				left[dst][r]++
			}
			progs[r] = append(progs[r], op{'s', dst, tag})
		}
	}
	for r := range progs {
		for any[r] > 0 || slices.Max(left[r]) > 0 {
			receive(r)
		}
	}
	return progs
}

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
			if s, _, ok := k.ep.Forced(); ok {
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
			wait, acts, err := k.ep.Matched(h.from, h.seq)
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

// checkpoint takes one of a whole group.
func (w *world) checkpoint(g int) bool {
	for _, k := range w.ranks {
		if w.group[k.id] == g && (k.ep == nil || k.ep.Durable() < k.wait) {
			return false
		}
	}
	for _, k := range w.ranks {
		if w.group[k.id] != g {
			continue
		}
		for w.kind == Optimistic && len(k.tail) > 0 {
			w.commit(k) // the log has no holes behind an older checkpoint
		}
		durable := k.ep.Durable()
		w.save(k)
		if w.kind == Receiver || w.kind == Sender {
			k.checkpoints = k.checkpoints[len(k.checkpoints)-1:]
			if w.rng.IntN(2) == 0 { // the log is truncated
				keep := 0
				if len(k.tail) > 0 {
					keep = int(k.tail[0].Index - 1 - durable)
				} else {
					keep = int(k.ep.Appended() - durable)
				}
				k.disk = k.disk[len(k.disk)-keep:]
			}
			for _, p := range w.ranks {
				if p.ep != nil {
					p.ep.Collected(k.id, k.checkpoints[0].vec.Received[p.id])
				}
			}
		}
	}
	return true
}

// crash kills groups.
func (w *world) crash(groups ...int) {
	w.crashes++
	for _, k := range w.ranks {
		if !slices.Contains(groups, w.group[k.id]) || k.ep == nil {
			continue
		}
		k.ep, k.inbox, k.wait = nil, nil, 0
		if n := w.rng.IntN(len(k.tail) + 1); n > 0 { // some of it may have got to the disk
			for _, a := range k.tail[:n] {
				k.disk = append(k.disk, a.Frame)
			}
		}
		k.tail = nil
	}
	switch w.kind {
	case None:
		w.recoverNone()
	case Optimistic:
		w.recoverOptimistic()
	}
}

// restart brings a dead group back from its last checkpoints and its logs.
func (w *world) restart(g int) bool {
	done := false
	for _, k := range w.ranks {
		if w.group[k.id] == g && k.ep == nil {
			w.revive(k, nil)
			done = true
		}
	}
	return done
}

func (w *world) revive(k *rank, line []uint64) {
	c := k.checkpoints[len(k.checkpoints)-1]
	st, err := Decode(c.state)
	if err != nil {
		w.t.Fatal(err)
	}
	k.incarnation++
	k.mem, k.inbox = c.mem.clone(), slices.Clone(c.inbox)
	ep, acts, err := Restore(w.config(k.id), st, reading(k.disk), line)
	if err != nil {
		w.t.Fatalf("rank %d: %v", k.id, err)
	}
	k.ep, k.tail, k.wait = ep, nil, 0
	for p := range w.ranks {
		w.wires[k.id][p] = link{}
		w.wires[p][k.id] = link{}
		if q := w.ranks[p]; q.ep != nil && p != k.id {
			if err := q.ep.Admit(k.id, k.incarnation); err != nil {
				w.t.Fatal(err)
			}
			q.ep.PeerDown(k.id)
		}
	}
	w.act(k, acts)
}

func reading(frames []Frame) func() (Frame, error) {
	return func() (Frame, error) {
		if len(frames) == 0 {
			return Frame{}, io.EOF
		}
		f := frames[0]
		frames = frames[1:]
		return f, nil
	}
}

// recoverNone rolls back by checkpoints until nothing is orphaned or lost.
func (w *world) recoverNone() {
	n := len(w.ranks)
	at := make([]int, n) // index of the checkpoint; its length: the present state
	for r, k := range w.ranks {
		at[r] = len(k.checkpoints)
		if k.ep == nil {
			at[r]--
		}
	}
	vec := func(r int) Vector {
		if k := w.ranks[r]; at[r] < len(k.checkpoints) {
			return k.checkpoints[at[r]].vec
		}
		return w.ranks[r].ep.Vector()
	}
	for changed := true; changed; {
		changed = false
		for i := range n {
			for j := range n {
				sent, got := vec(i).Sent[j], vec(j).Received[i]
				back := -1
				switch kept := at[i] == len(w.ranks[i].checkpoints) && at[j] == len(w.ranks[j].checkpoints); {
				case got > sent:
					back = j
				case got < sent && !kept:
					back = i
				}
				if back >= 0 {
					at[back]--
					changed = true
				}
			}
		}
	}
	for r, k := range w.ranks {
		if at[r] < len(k.checkpoints) {
			k.checkpoints = k.checkpoints[:at[r]+1]
			k.ep = nil
		}
	}
	for _, k := range w.ranks {
		if k.ep == nil {
			w.revive(k, nil)
		}
	}
}

// recoverOptimistic computes how many determinants each rank can keep, by
// rollback propagation, and puts the ranks into these states.
func (w *world) recoverOptimistic() {
	n := len(w.ranks)
	states := make([][]Vector, n) // that a rank can be put into, oldest first
	from := make([][]int, n)      // and the checkpoint each is rebuilt from
	for r, k := range w.ranks {
		for c := range k.checkpoints {
			states[r], from[r] = append(states[r], k.checkpoints[c].vec), append(from[r], c)
		}
		for c := range k.checkpoints { // those between two checkpoints as well
			st, err := Decode(k.checkpoints[c].state)
			if err != nil {
				w.t.Fatal(err)
			}
			logged, err := st.Logged(reading(k.disk))
			if err != nil {
				w.t.Fatal(err)
			}
			for _, v := range logged {
				states[r], from[r] = append(states[r], v), append(from[r], c)
			}
		}
		if k.ep != nil {
			states[r], from[r] = append(states[r], k.ep.Present()), append(from[r], -1)
		}
	}
	line := make([]uint64, n)
	pick := make([]int, n)
	choose := func(r int, ok func(Vector) bool) {
		best := -1
		for i, v := range states[r] {
			if ok(v) && (best < 0 || v.Matches > states[r][best].Matches || v.Matches == states[r][best].Matches && from[r][i] < 0) {
				best = i
			}
		}
		if best < 0 {
			w.t.Fatalf("rank %d cannot be put into any state", r)
		}
		pick[r], line[r] = best, states[r][best].Matches
	}
	for r := range n {
		choose(r, func(Vector) bool { return true })
	}
	for changed := true; changed; {
		changed = false
		for r := range n {
			consistent := func(v Vector) bool {
				for p := range n {
					if v.Depends[p] > line[p] {
						return false
					}
				}
				return true
			}
			if !consistent(states[r][pick[r]]) {
				choose(r, consistent)
				changed = true
			}
		}
	}
	for r, k := range w.ranks {
		if f := from[r][pick[r]]; f >= 0 {
			k.checkpoints = k.checkpoints[:f+1]
			if k.ep != nil { // rolled back, as what it has was not lost
				for _, a := range k.tail {
					k.disk = append(k.disk, a.Frame)
				}
			}
			k.ep = nil
		}
	}
	for _, k := range w.ranks {
		if k.ep == nil {
			w.revive(k, line)
		}
	}
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
			if n, b, u := k.ep.Kept(j); n != 0 || b != 0 || u != 0 || !k.ep.Settled(j) {
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
