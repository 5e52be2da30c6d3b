package service

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"

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

// An Exchange is the messages of a run that a library between a program and MPI has counted.
// Its numbers are of a step of the program, or of the run if that marks no steps.
type Exchange struct {
	App       string  `json:"app"`
	NP        int     `json:"np"`
	StepS     float64 `json:"step_s"`
	AnySource float64 `json:"any_source_receives"`
	Pairs     []Pair  `json:"pair_list"`
}

// A Pair is what one rank has sent to another.
type Pair struct {
	From     int     `json:"from_rank"`
	To       int     `json:"to_rank"`
	Messages float64 `json:"messages"`
	Bytes    float64 `json:"bytes"`
}

// ReadExchange reads the files of all ranks of a run, RANK.csv: two lines about the run, a head,
// and a line for each rank that this one has sent to.
func ReadExchange(dir fs.FS) (*Exchange, error) {
	e, steps := &Exchange{NP: 1}, 1.
	for rank := 0; rank < e.NP; rank++ {
		f, err := dir.Open(fmt.Sprintf("%d.csv", rank))
		if err != nil {
			return nil, err
		}
		r := csv.NewReader(f)
		r.FieldsPerRecord = -1
		lines, err := r.ReadAll()
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		own, err := e.add(rank, lines)
		if err != nil {
			return nil, fmt.Errorf("%d.csv: %w", rank, err)
		}
		steps = max(steps, own)
	}
	e.StepS, e.AnySource = e.StepS/steps, e.AnySource/steps
	for i := range e.Pairs {
		e.Pairs[i].Messages, e.Pairs[i].Bytes = e.Pairs[i].Messages/steps, e.Pairs[i].Bytes/steps
	}
	return e, e.Check()
}

// Check verifies the properties that predictions rely on.
func (e *Exchange) Check() error {
	bad := e.NP < 1 || e.NP > 1<<20 || !(e.StepS > 0) || !(e.AnySource >= 0)
	for _, p := range e.Pairs {
		bad = bad || p.From < 0 || p.From >= e.NP || p.To < 0 || p.To >= e.NP || !(p.Messages > 0) || !(p.Bytes >= 0)
	}
	if bad {
		return errExchange
	}
	return nil
}

var errExchange = errors.New("not what ckpt_pmpi counts")

// add adds the lines of a rank, and returns how many steps it has marked.
func (e *Exchange) add(rank int, lines [][]string) (steps float64, err error) {
	if len(lines) < 3 || len(lines[1]) != 4 || lines[0][0] != "ranks" || lines[2][0] != "to" {
		return 0, errExchange
	}
	var values [4]float64
	for i := range values {
		if values[i], err = strconv.ParseFloat(lines[1][i], 64); err != nil {
			return 0, errExchange
		}
	}
	np, seconds, steps, source := int(values[0]), values[1], values[2], values[3]
	if np <= rank || np > 1<<20 || !(seconds > 0) || !(steps >= 0) || rank > 0 && np != e.NP {
		return 0, errExchange
	}
	e.NP, e.StepS, e.AnySource = np, max(e.StepS, seconds), e.AnySource+source
	for _, l := range lines[3:] {
		if len(l) != 3 {
			return 0, errExchange
		}
		to, err := strconv.Atoi(l[0])
		messages, merr := strconv.ParseFloat(l[1], 64)
		bytes, berr := strconv.ParseFloat(l[2], 64)
		if errors.Join(err, merr, berr) != nil {
			return 0, errExchange
		}
		e.Pairs = append(e.Pairs, Pair{rank, to, messages, bytes})
	}
	return steps, nil
}

// Traffic is what crosses between groups of ranks in a step.
func (e *Exchange) Traffic(groups []int) Traffic {
	t := Traffic{Ranks: e.NP, AnySource: e.AnySource}
	messages, bytes := make([]float64, e.NP), make([]float64, e.NP)
	for _, p := range e.Pairs {
		t.Messages += p.Messages
		t.Bytes += p.Bytes
		if groups[p.From] != groups[p.To] {
			t.Crossing += p.Messages
			t.CrossingBytes += p.Bytes
			t.Framed += p.Messages * pad(p.Bytes/p.Messages)
			messages[p.To] += p.Messages
			bytes[p.To] += p.Bytes
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
