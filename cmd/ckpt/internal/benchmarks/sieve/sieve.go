// Package sieve measures when it pays to read and write over holes.
package sieve

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"ckpt/image"
	"ckpt/image/plan/fileview"
	"ckpt/predict/service"
)

// A pattern is the bytes that a pass wants.
type pattern struct {
	view       *fileview.View
	text       string // of a pattern of the user
	initial    int64
	data, hole int64 // of a grid
	bytes      int64 // that a pass moves
}

// A storage carries out passes.
type storage interface {
	// pass times one request for the bytes of a pattern.
	pass(a fileview.Access, p *pattern, rule fileview.Rule, device fileview.Device) (seconds float64, s fileview.Stats, err error)
	// reads times reads of a length at offsets, and returns the seconds of one.
	reads(offs []int64, length int64) (seconds float64, err error)
	// repeats is false where each pass takes the same time.
	repeats() bool
}

// A pass moves at most so much, in so many calls. The requests of the thesis had 30 MB.
const (
	mostBlocks = 1 << 14
	mostBytes  = 32 << 20
)

// newPattern is the pattern of a grid in a file of some bytes, as much of it as fits.
func newPattern(initial, data, hole, size int64) (*pattern, error) {
	blocks := min(mostBlocks, max(1, mostBytes/data), (size-initial+hole)/(data+hole))
	if blocks < 1 || data > size-initial {
		return nil, fmt.Errorf("a block of %d bytes at offset %d is beyond the file of %d bytes", data, initial, size)
	}
	v, err := fileview.NewView(initial, []fileview.Tuple{{Size: data, Hole: hole}}, blocks)
	if err != nil {
		return nil, err
	}
	return &pattern{view: v, initial: initial, data: data, hole: hole, bytes: v.Size()}, nil
}

// viewPattern is a view of the user, as much of it as the file has and a pass moves.
func viewPattern(text string, size int64) (*pattern, error) {
	v, err := fileview.Parse(text)
	if err != nil {
		return nil, err
	}
	n := sort.Search(int(min(v.Size(), mostBytes)), func(n int) bool {
		off, _, _ := v.Offset(int64(n))
		return off >= size
	})
	if n == 0 {
		return nil, fmt.Errorf("view %q begins beyond the file of %d bytes", text, size)
	}
	return &pattern{view: v, text: text, bytes: int64(n)}, nil
}

// A Times compares the rules on one pattern.
type Times struct {
	Access  string `json:"access"` // read or write
	View    string `json:"view,omitempty"`
	Initial int64  `json:"initial_bytes"`
	Data    int64  `json:"data_bytes"` // 0 for a view of the user
	Hole    int64  `json:"hole_bytes"`
	Wanted  int64  `json:"pass_bytes"`
	// Naive is the median time of a pass, a call per block.
	Naive   float64 `json:"naive_s"`
	Scatter float64 `json:"naive_scatter_share"` // the farthest pass from the median
	Again   int     `json:"measured_again"`      // passes, of all rules
	Rules   []Rule  `json:"sieve_rules"`
}

// A Rule is one rule on one pattern.
type Rule struct {
	Rule    fileview.Method `json:"rule"`
	Seconds float64         `json:"pass_s"`
	Scatter float64         `json:"scatter_share"`
	Speedup float64         `json:"speedup"` // naive time by this one
	Calls   int64           `json:"reads"`
	Bytes   int64           `json:"bytes_read"`
	Writes  int64           `json:"writes"`
	Written int64           `json:"bytes_written"`
	Same    bool            `json:"same_calls"` // as naive
}

// key identifies a row in a file of results.
func (t *Times) key() string {
	return fmt.Sprintf("%s %s %d %d %d", t.Access, t.View, t.Initial, t.Data, t.Hole)
}

// outlier is how far a pass may be from the median, before it is measured again (Zickler,
// section 5.3).
const outlier = 0.2

// compare measures a pattern by all rules. Each round has another order, so that whatever the
// storage does meanwhile, or keeps of the pass before, meets all.
func compare(ctx context.Context, on storage, a fileview.Access, p *pattern, device fileview.Device, rules []fileview.Method, rounds int, order *rand.Rand) (Times, error) {
	ways := append([]fileview.Method{fileview.Naive}, rules...)
	t := Times{Access: a.String(), View: p.text, Initial: p.initial, Data: p.data, Hole: p.hole, Wanted: p.bytes, Rules: make([]Rule, len(rules))}
	if !on.repeats() {
		rounds = 1
	}
	passes, stats := make([][]float64, len(ways)), make([]fileview.Stats, len(ways))
	one := func(i int) (float64, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		took, s, err := on.pass(a, p, ways[i], device)
		stats[i] = s
		return took, err
	}
	for range rounds {
		for _, i := range order.Perm(len(ways)) {
			took, err := one(i)
			if err != nil {
				return t, err
			}
			passes[i] = append(passes[i], took)
		}
	}
	for left := 2 * rounds; left > 0 && rounds > 1; left-- {
		again := false
		for _, i := range order.Perm(len(ways)) {
			far, by := farthest(passes[i])
			if by <= outlier {
				continue
			}
			took, err := one(i)
			if err != nil {
				return t, err
			}
			passes[i][far] = took
			t.Again++
			again = true
		}
		if !again {
			break
		}
	}
	t.Naive = service.Median(passes[0])
	_, t.Scatter = farthest(passes[0])
	for i, rule := range rules {
		s := stats[i+1]
		r := Rule{Rule: rule, Seconds: service.Median(passes[i+1]), Calls: s.Reads, Bytes: s.Read, Writes: s.Writes, Written: s.Written, Same: s == stats[0]}
		_, r.Scatter = farthest(passes[i+1])
		r.Speedup = t.Naive / r.Seconds
		t.Rules[i] = r
	}
	return t, nil
}

// farthest returns which value is farthest from the median, and by which share of it.
func farthest(v []float64) (at int, share float64) {
	median := service.Median(v)
	for i, x := range v {
		if by := math.Abs(x/median - 1); by > share {
			at, share = i, by
		}
	}
	return at, share
}

// The reads that calibrate compares: a call of naive, and one over many holes.
const smallCall, largeCall = 4 << 10, 4 << 20

// calibrate measures what a call and a byte cost, with reads of two sizes at places all over the
// file. The fastest passes give the cost of a call; while they contradict each other, there are
// more. The median of the long reads gives the rate, so that rules join where that mostly pays.
func calibrate(ctx context.Context, on storage, size int64, rounds int) (image.Storage, error) {
	rounds = max(rounds, 7)
	if !on.repeats() {
		rounds = 1
	}
	large := min(largeCall, size/4/smallCall*smallCall)
	short, long := math.Inf(1), []float64(nil)
	for again := 10; ; again-- {
		for round := range int64(rounds) {
			if err := ctx.Err(); err != nil {
				return image.Storage{}, err
			}
			a, err := on.reads(places(size, smallCall, 256, round), smallCall)
			if err != nil {
				return image.Storage{}, err
			}
			b, err := on.reads(places(size, large, 2, round), large)
			if err != nil {
				return image.Storage{}, err
			}
			short, long = min(short, a), append(long, b)
		}
		if storage, err := storageOf(smallCall, large, short, slices.Min(long)); err == nil || again == 0 || !on.repeats() {
			storage.Bandwidth *= slices.Min(long) / service.Median(long)
			return storage, err
		}
	}
}

// places are n places for reads of some length, far apart, others in each round.
func places(size, length, n, round int64) (offs []int64) {
	n = max(1, min(n, size/(2*length)))
	step := size / n
	for i := range n {
		offs = append(offs, (i*step+round*length%max(1, step-length))/smallCall*smallCall)
	}
	return offs
}

// storageOf solves call + size/bandwidth = time for two sizes and times.
func storageOf(small, large int64, a, b float64) (image.Storage, error) {
	perByte := (b - a) / float64(large-small)
	call := a - perByte*float64(small)
	if !(perByte > 0) || !(call > 0) {
		return image.Storage{}, fmt.Errorf("calls of %d and %d bytes took %.3g and %.3g s: no cost of a call follows; measure more rounds on a quiet machine",
			small, large, a, b)
	}
	return image.Storage{Bandwidth: 1 / perByte, Call: time.Duration(call * float64(time.Second)), Measured: time.Now().UTC()}, nil
}

// same returns the least and the largest speedup of rules that make naive's calls, which is 1
// but for the scatter; false if there are none.
func same(rows []Times) (low, high float64, n int) {
	var all []float64
	for _, t := range rows {
		for _, r := range t.Rules {
			if r.Same {
				all = append(all, r.Speedup)
			}
		}
	}
	if len(all) == 0 {
		return 0, 0, 0
	}
	return slices.Min(all), slices.Max(all), len(all)
}
