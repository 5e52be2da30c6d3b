package service

import (
	"math"

	"ckpt/dataset"
)

// frameHead is the length of a frame's head in a message log of ckpt, framePad what a
// frame's length is a multiple of (docs/FORMAT.md).
const (
	frameHead = 56
	framePad  = 8
)

// Traffic is what the ranks of a job send each other in one iteration. Bytes are of
// payload.
type Traffic struct {
	Messages, Bytes float64
	// Crossing and CrossingBytes are those from one group to another.
	Crossing, CrossingBytes float64
	// Framed is CrossingBytes as frames of a log have them, without their heads.
	Framed float64
	// AnySource counts receives from any source.
	AnySource float64
	// Busiest is the number of messages that cross to one rank, at most, and BusiestBytes
	// the bytes.
	Busiest, BusiestBytes float64
	Ranks                 int
	// Guessed names the messages whose receiver is unknown. All ranks are then
	// equally likely.
	Guessed []string
}

// CountTraffic adds up the traffic of an instance between groups of ranks.
func CountTraffic(inst *dataset.Instance, groups []int) Traffic {
	t := Traffic{Ranks: inst.NP}
	messages, bytes := make([]float64, inst.NP), make([]float64, inst.NP) // that cross, by receiver
	for _, m := range inst.Messages {
		padded := pad(m.Mean)
		if !m.Known() {
			t.guess(&m, groups, messages, bytes)
			continue
		}
		for from, to := range m.Pairs() {
			t.Messages += m.Each
			t.Bytes += m.Each * m.Mean
			if m.AnySource {
				t.AnySource += m.Each
			}
			if groups[from] != groups[to] {
				t.Crossing += m.Each
				t.CrossingBytes += m.Each * m.Mean
				t.Framed += m.Each * padded
				messages[to] += m.Each
				bytes[to] += m.Each * m.Mean
			}
		}
	}
	for r := range messages {
		t.Busiest, t.BusiestBytes = max(t.Busiest, messages[r]), max(t.BusiestBytes, bytes[r])
	}
	return t
}

// guess spreads the messages of one kind evenly over all ranks.
func (t *Traffic) guess(m *dataset.Message, groups []int, messages, bytes []float64) {
	t.Guessed = append(t.Guessed, m.To)
	np := float64(t.Ranks)
	n := np * float64(m.Count)
	t.Messages += n
	t.Bytes += n * m.Mean
	if m.AnySource {
		t.AnySource += n
	}
	if t.Ranks < 2 {
		return
	}
	by := sizes(groups)
	for r, g := range groups {
		each := float64(m.Count) * (np - float64(by[g])) / (np - 1)
		messages[r] += each
		bytes[r] += each * m.Mean
		t.Crossing += each
		t.CrossingBytes += each * m.Mean
		t.Framed += each * pad(m.Mean)
	}
}

// pad is the room of a payload in a log.
func pad(bytes float64) float64 { return math.Ceil(bytes/framePad) * framePad }

// Share is the share of the bytes that cross from one group to another.
func (t *Traffic) Share() float64 {
	if t.Bytes == 0 {
		return 0
	}
	return t.CrossingBytes / t.Bytes
}

// Logging is what one iteration adds to the logs of all ranks.
type Logging struct {
	Frames, Bytes float64 // in the logs, heads and padding included
	// Kept is what senders keep in memory and store with their checkpoints.
	Kept float64
	// Waits is how many frames the busiest rank waits for, WaitBytes their payload.
	Waits, WaitBytes float64
}

// Logged returns what a log takes of the traffic.
func (t *Traffic) Logged(l Log) Logging {
	determinants := Logging{Frames: t.AnySource, Bytes: t.AnySource * frameHead}
	switch l {
	case Receiver, Optimistic:
		out := Logging{Frames: t.Crossing + determinants.Frames, Bytes: t.Crossing*frameHead + t.Framed + determinants.Bytes}
		if l == Receiver {
			out.Waits, out.WaitBytes = t.Busiest+t.anyBusiest(), t.BusiestBytes
			return out
		}
		if t.AnySource > 0 {
			// A message names the receives of each rank that it depends on.
			out.Bytes += t.Crossing * framePad * float64(t.Ranks)
		}
		return out
	case Sender:
		determinants.Kept, determinants.Waits = t.CrossingBytes, t.anyBusiest()
		return determinants
	}
	return Logging{}
}

// anyBusiest is how many receives from any source one rank makes: in the worst case all.
func (t *Traffic) anyBusiest() float64 { return t.AnySource }
