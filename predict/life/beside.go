package life

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Beside are other jobs that store at the same time in the storage that all share.
type Beside struct {
	Bursts []Burst
	// Speeds has the speeds of transfers as shares of their speeds alone. The index is the set of
	// transfers under way: bit 0 is the job's own transfer, bit i+1 is burst i.
	Speeds [][]float64
}

// A Burst is a checkpoint that another job stores again and again: Write seconds alone, Interval
// after the last one. Start is when its first one begins; NaN draws where it is in its interval.
type Burst struct{ Interval, Write, Start float64 }

// maxBursts bounds the table of speeds.
const maxBursts = 8

func (b *Beside) check() error {
	if len(b.Bursts) > maxBursts {
		return &RangeError{"number of jobs beside", float64(len(b.Bursts)), 0, maxBursts}
	}
	for i := range b.Bursts {
		for _, x := range []struct {
			name string
			is   float64
		}{{"interval of a job beside", b.Bursts[i].Interval}, {"checkpoint of a job beside", b.Bursts[i].Write}} {
			if !(x.is >= 1e-3 && x.is <= maxTime) {
				return &RangeError{x.name, x.is, 1e-3, maxTime}
			}
		}
	}
	if want := 2 << len(b.Bursts); len(b.Speeds) != want {
		return fmt.Errorf("speeds of %d sets of transfers, want %d", len(b.Speeds), want)
	}
	for set, speeds := range b.Speeds {
		for i, s := range speeds {
			if moves := set>>i&1 == 1; moves && !(s > 1e-6 && s <= 1+1e-9) {
				return &RangeError{"speed of a transfer beside others", s, 1e-6, 1}
			}
		}
		if len(speeds) != len(b.Bursts)+1 {
			return fmt.Errorf("%d speeds of a set, want %d", len(speeds), len(b.Bursts)+1)
		}
	}
	return nil
}

// neighbours are the other jobs in a life. Nil has none.
type neighbours struct {
	*Beside
	left    []float64 // seconds of computing, or of writing alone
	writing int       // the set of those that write, as the index of Speeds has it
}

func (b *Beside) neighbours(rng *rand.Rand) *neighbours {
	if b == nil || len(b.Bursts) == 0 {
		return nil
	}
	n := &neighbours{Beside: b, left: make([]float64, len(b.Bursts))}
	for i := range b.Bursts {
		at := &b.Bursts[i]
		if !math.IsNaN(at.Start) {
			if n.left[i] = at.Start; at.Start <= 0 {
				n.left[i], n.writing = at.Write, n.writing|2<<i
			}
			continue
		}
		n.place(i, rng.Float64())
	}
	return n
}

// place has a burst be at a part of its interval and its checkpoint.
func (n *neighbours) place(i int, part float64) {
	b := &n.Bursts[i]
	if n.left[i] = part * (b.Interval + b.Write); n.left[i] > b.Interval {
		n.left[i] -= b.Interval
		n.writing |= 2 << i
	}
}

// set is which transfers are under way, the job's own with ours.
func (n *neighbours) set(ours bool) int {
	if ours {
		return n.writing | 1
	}
	return n.writing
}

// speed is how fast the job's own transfer gets on.
func (n *neighbours) speed() float64 {
	if n == nil {
		return 1
	}
	return n.Speeds[n.set(true)][0]
}

// until is how long until one of the others begins or ends a checkpoint.
func (n *neighbours) until(ours bool) float64 {
	least := math.Inf(1)
	if n == nil {
		return least
	}
	speeds := n.Speeds[n.set(ours)]
	for i, left := range n.left {
		if n.writing>>(i+1)&1 == 1 {
			left /= speeds[i+1]
		}
		least = min(least, left)
	}
	return least
}

// pass lets time pass in which the job moves bytes, or does not.
func (n *neighbours) pass(seconds float64, ours bool) {
	for n != nil && seconds > 0 {
		step := min(seconds, n.until(ours))
		speeds := n.Speeds[n.set(ours)]
		turned := 0
		for i := range n.left {
			speed, bit := 1.0, 2<<i
			if n.writing&bit != 0 {
				speed = speeds[i+1]
			}
			if n.left[i] -= step * speed; n.left[i] <= 1e-9*(n.Bursts[i].Interval+n.Bursts[i].Write) {
				turned |= bit
			}
		}
		for i := range n.left {
			switch bit := 2 << i; {
			case turned&bit == 0:
			case n.writing&bit != 0:
				n.left[i] = n.Bursts[i].Interval
			default:
				n.left[i] = n.Bursts[i].Write
			}
		}
		n.writing ^= turned
		seconds -= step
	}
}

// Slower is how many times longer a transfer of some seconds takes on average beside the others,
// which are at any place of their intervals: what groups take, of which some or many write at a time.
func (b *Beside) Slower(seconds float64) float64 {
	cycle := 0.0
	for i := range b.Bursts {
		cycle = max(cycle, b.Bursts[i].Interval+b.Bursts[i].Write)
	}
	const places, cycles = 512, 50
	whole, all := math.Floor(seconds/cycle/cycles), 0.0
	for k := range places {
		n := &neighbours{Beside: b, left: make([]float64, len(b.Bursts))}
		for i := range b.Bursts {
			// Places that fill the unit cube evenly, however many bursts there are.
			at := (float64(k) + 0.5) / places
			if i > 0 {
				at = math.Mod((float64(k)+0.5)*math.Sqrt(float64(primes[i-1])), 1)
			}
			n.place(i, at)
		}
		for left := seconds / max(1, whole); left > 1e-9*seconds; { // of a long transfer a part
			step := min(left/n.speed(), n.until(true))
			all += step
			left -= step * n.speed()
			n.pass(step, true)
		}
	}
	return all / places / (seconds / max(1, whole))
}

// primes have roots that no fraction approaches well.
var primes = [maxBursts - 1]int{2, 3, 5, 7, 11, 13, 17}

// Share has transfers share a rate: each gets as much for each of its nodes, and none more than it
// moves alone. Weights are nodes, rates those of each alone.
func Share(rate float64, weights, rates []float64) [][]float64 {
	table := make([][]float64, 1<<len(rates))
	for set := range table {
		speeds := make([]float64, len(rates))
		left, waiting := rate, 0.0
		for i := range rates {
			if speeds[i] = 1; set>>i&1 == 1 {
				speeds[i], waiting = 0, waiting+weights[i]
			}
		}
		for waiting > 0 {
			each, full := left/waiting, false
			for i := range rates {
				if speeds[i] == 0 && rates[i] <= each*weights[i] {
					speeds[i], full = 1, true
					left, waiting = left-rates[i], waiting-weights[i]
				}
			}
			for i := range rates {
				if speeds[i] == 0 && !full {
					speeds[i], waiting = each*weights[i]/rates[i], 0
				}
			}
			if waiting < 1e-9 {
				break
			}
		}
		table[set] = speeds
	}
	return table
}

// Pair are the speeds of two transfers that take such times alone, and together until both have
// ended: until the first one ends both are under way.
func Pair(alone, together [2]float64) [][]float64 {
	first := 0
	if together[1] < together[0] {
		first = 1
	}
	other := 1 - first
	both := make([]float64, 2)
	both[first] = min(1, alone[first]/together[first])
	both[other] = min(1, max(1e-3, (alone[other]-together[other]+together[first])/together[first]))
	return [][]float64{{1, 1}, {1, 1}, {1, 1}, both}
}
