package supervisor

import (
	"math/rand/v2"
)

// The application of a simulated rank is a short program per iteration, made
// from a seed. It sends, receives from given sources and from any source, and
// puts lines out. A receive in an iteration needs only what was sent in that
// iteration or before.
//
// Its state has a part that does not depend on the order in which receives from
// any source got their messages, so that it must end as in a run without
// failures, and a trace that does, and that goes out with every message: whoever
// hears two stories of a rank that went back has a trace that fits neither.
type appState struct {
	iter    int // iterations completed
	sum     uint64
	votes   uint64 // from receives from any source, in no order
	trace   uint64
	taken   int      // receives so far
	outputs uint64   // lines put out so far
	sent    []uint64 // by peer: all messages sent to it, traces included, in no order
	got     []uint64 // by peer: all received from it
}

func (a *appState) clone() appState {
	c := *a
	c.sent = append([]uint64(nil), a.sent...)
	c.got = append([]uint64(nil), a.got...)
	return c
}

type opKind uint8

const (
	opSend opKind = iota
	opRecv
	opRecvAny
	opOutput
)

type op struct {
	kind opKind
	peer int
	tag  int32
}

// program holds the operations of all ranks, by iteration and rank.
type program struct {
	ranks int
	ops   [][][]op
}

// The patterns of communication.
const (
	tagRight int32 = 1 + iota
	tagLeft
	tagVote
	tagUp
	tagDown
	tagPass
	tagMixed
	tagLate
)

// newProgram makes one in which any says how many iterations in four receive
// from any source.
func newProgram(rng *rand.Rand, ranks, iterations, any int) *program {
	pr := &program{ranks: ranks, ops: make([][][]op, iterations)}
	for i := range pr.ops {
		pr.ops[i] = make([][]op, ranks)
	}
	for i, it := range pr.ops {
		if late := i + 1 + rng.IntN(3); rng.IntN(3) == 0 && late < iterations {
			pr.late(rng, it, pr.ops[late])
		}
		for range 1 + rng.IntN(2) {
			if rng.IntN(4) < any {
				pr.anySource(rng, it)
			} else {
				pr.named(rng, it)
			}
		}
		for r := range it {
			if rng.IntN(3) == 0 {
				it[r] = append(it[r], op{kind: opOutput})
			}
		}
	}
	return pr
}

// named adds a pattern in which every receive names its source.
func (pr *program) named(rng *rand.Rand, it [][]op) {
	n := pr.ranks
	switch rng.IntN(3) {
	case 0: // neighbours on a ring
		for r := range it {
			right, left := (r+1)%n, (r+n-1)%n
			it[r] = append(it[r], op{opSend, right, tagRight}, op{opSend, left, tagLeft},
				op{opRecv, left, tagRight}, op{opRecv, right, tagLeft})
		}
	case 1: // a reduction and a broadcast
		root := rng.IntN(n)
		for r := range it {
			if r != root {
				it[r] = append(it[r], op{opSend, root, tagUp})
				it[root] = append(it[root], op{opRecv, r, tagUp})
			}
		}
		for r := range it {
			if r != root {
				it[root] = append(it[root], op{opSend, r, tagDown})
				it[r] = append(it[r], op{opRecv, root, tagDown})
			}
		}
	case 2: // along a chain
		for r := range it {
			if r > 0 {
				it[r] = append(it[r], op{opRecv, r - 1, tagPass})
			}
			if r < n-1 {
				it[r] = append(it[r], op{opSend, r + 1, tagPass})
			}
		}
	}
}

// late adds messages that are received some iterations later, so that they are on
// their way, or in an inbox, when a checkpoint is taken.
func (pr *program) late(rng *rand.Rand, now, then [][]op) {
	shift := 1 + rng.IntN(pr.ranks-1)
	for r := range now {
		to := (r + shift) % pr.ranks
		now[r] = append(now[r], op{opSend, to, tagLate})
		then[to] = append(then[to], op{opRecv, r, tagLate})
	}
}

// anySource adds one in which messages of later iterations may be held for
// those of earlier ones; there are always enough.
func (pr *program) anySource(rng *rand.Rand, it [][]op) {
	n := pr.ranks
	if rng.IntN(2) == 0 {
		root := rng.IntN(n)
		for r := range it {
			if r != root {
				it[r] = append(it[r], op{opSend, root, tagVote})
				it[root] = append(it[root], op{kind: opRecvAny, tag: tagVote})
			}
		}
		return
	}
	near, far := 1+rng.IntN(n-1), 1+rng.IntN(n-1)
	for r := range it {
		for _, shift := range []int{near, far} {
			it[r] = append(it[r], op{opSend, (r + shift) % n, tagMixed})
		}
		it[r] = append(it[r], op{kind: opRecvAny, tag: tagMixed}, op{kind: opRecvAny, tag: tagMixed})
	}
}

// mix is a hash of two numbers.
func mix(a, b uint64) uint64 {
	x := (a ^ b*0x9e3779b97f4a7c15) + 0x632be59bd9b4e019
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// letter is what a message says.
type letter struct{ sum, trace uint64 }

func newAppState(rank, ranks int) appState {
	return appState{sum: mix(1, uint64(rank)), trace: mix(2, uint64(rank)), sent: make([]uint64, ranks), got: make([]uint64, ranks)}
}

// send returns the message of operation number pc of the iteration in progress.
func (a *appState) send(dst, pc int, tag int32) letter {
	l := letter{mix(a.sum, uint64(a.iter)<<16|uint64(pc)), a.trace}
	a.sent[dst] += mix(mix(l.sum, l.trace), uint64(tag))
	return l
}

// take receives a message.
func (a *appState) take(src int, any bool, tag int32, l letter) {
	a.got[src] += mix(mix(l.sum, l.trace), uint64(tag))
	a.taken++
	a.trace = mix(mix(a.trace, l.trace), uint64(src))
	if any {
		a.votes += mix(l.sum, 3)
	} else {
		a.sum = mix(a.sum, l.sum)
	}
}

// expected runs the program without failures and returns how the ranks end.
func (pr *program) expected() []appState {
	states := make([]appState, pr.ranks)
	type mail struct {
		src int
		tag int32
		letter
	}
	inbox := make([][]mail, pr.ranks)
	for r := range states {
		states[r] = newAppState(r, pr.ranks)
	}
	pc := make([]int, pr.ranks)
	for moved := true; moved; {
		moved = false
		for r := range states {
			a := &states[r]
		rank:
			for a.iter < len(pr.ops) {
				ops := pr.ops[a.iter][r]
				if pc[r] == len(ops) {
					a.iter, pc[r] = a.iter+1, 0
					continue
				}
				o := ops[pc[r]]
				switch o.kind {
				case opSend:
					inbox[o.peer] = append(inbox[o.peer], mail{r, o.tag, a.send(o.peer, pc[r], o.tag)})
				case opOutput:
					a.outputs++
				default:
					found := -1
					for i, m := range inbox[r] {
						if m.tag == o.tag && (o.kind == opRecvAny || m.src == o.peer) {
							found = i
							break
						}
					}
					if found < 0 {
						break rank
					}
					m := inbox[r][found]
					inbox[r] = append(inbox[r][:found:found], inbox[r][found+1:]...)
					a.take(m.src, o.kind == opRecvAny, o.tag, m.letter)
				}
				pc[r]++
				moved = true
			}
		}
	}
	return states
}
