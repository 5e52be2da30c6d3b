package app

import (
	"math"
	"strings"
	"sync"
	"testing"

	"ckpt/dataset"
)

// traffic counts messages and bytes by sender and receiver.
type traffic map[[2]int]*[2]float64

func (t traffic) add(from, to int, messages, bytes float64) {
	k := [2]int{from, to}
	if t[k] == nil {
		t[k] = new([2]float64)
	}
	t[k][0] += messages
	t[k][1] += bytes
}

func (t traffic) bytes() (sum float64) {
	for _, v := range t {
		sum += v[1]
	}
	return sum
}

// countingRank counts what a rank sends.
type countingRank struct {
	worldRank
	mu   *sync.Mutex
	sent traffic
}

func (c countingRank) SendFloat64s(dst, tag int, data []float64) error {
	c.mu.Lock()
	c.sent.add(c.rank, dst, 1, float64(8*len(data)))
	c.mu.Unlock()
	return c.worldRank.SendFloat64s(dst, tag, data)
}

// sent carries out some iterations and returns what the ranks sent each other, sums of
// all ranks left out.
func sent(j *job, iterations int) traffic {
	var mu sync.Mutex
	out := traffic{}
	var wg sync.WaitGroup
	for rank, a := range j.apps {
		wg.Go(func() {
			for i := 1; i <= iterations; i++ {
				if err := a.Step(countingRank{worldRank{j.world, rank}, &mu, out}, i); err != nil {
					j.world.fail(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if j.world.failed != nil {
		j.t.Fatal(j.world.failed)
	}
	return out
}

// The pattern of a spec is what its application sends: to each rank as many messages,
// and the same bytes in all. Where the grid divides evenly, each rank gets the same bytes.
func TestTraffic(t *testing.T) {
	const iterations = 2
	everyApp(t, func(t *testing.T, inst *dataset.Instance) {
		if inst.Workload.Kernel == "generic" {
			t.Skip("its messages do not depend on its spec")
		}
		want := traffic{}
		for _, m := range inst.Messages {
			if !m.Known() {
				t.Fatalf("nobody knows where the messages to %s go", m.To)
			}
			if strings.HasPrefix(m.To, "tree") {
				continue // the sum of the residual, which is not sent here
			}
			for from, to := range m.Pairs() {
				want.add(from, to, iterations*m.Each, iterations*m.Each*m.Mean)
			}
		}
		got := sent(newJob(t, inst).init(), iterations)
		for k, v := range got {
			w := want[k]
			if w == nil || math.Abs(v[0]-w[0]) > 1e-9 {
				t.Fatalf("rank %d sends %v messages to %d, spec %v", k[0], v[0], k[1], w)
			}
			if math.Abs(v[1]-w[1]) > 0.25*v[1] {
				t.Errorf("rank %d sends %v bytes to %d, spec %v", k[0], v[1], k[1], w[1])
			}
		}
		for k, w := range want {
			if got[k] == nil && w[0]*w[1] > 0 {
				t.Errorf("rank %d sends nothing to %d, spec %v messages of %v bytes", k[0], k[1], w[0], w[1])
			}
		}
		if g, w := got.bytes(), want.bytes(); math.Abs(g-w) > 1e-9*g {
			t.Errorf("%v bytes are sent, spec %v", g, w)
		}
	})
}

// The largest message and the largest number of messages are bounds.
func TestTrafficBounds(t *testing.T) {
	everyApp(t, func(t *testing.T, inst *dataset.Instance) {
		for _, m := range inst.Messages {
			if m.Mean > float64(m.Bytes) {
				t.Errorf("messages to %s: %v bytes on average, %d at most", m.To, m.Mean, m.Bytes)
			}
			by := map[int]float64{}
			for from := range m.Pairs() {
				by[from] += m.Each
			}
			for from, n := range by {
				if n > float64(m.Count)+1e-9 {
					t.Errorf("messages to %s: rank %d sends %v, at most %d", m.To, from, n, m.Count)
				}
			}
		}
	})
}
