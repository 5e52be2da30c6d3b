package coordinator

import (
	"flag"
	"testing"

	"ckpt/coordinator/job"
)

var (
	overheadApp        = flag.String("overhead.app", "bt.A.16", "what BenchmarkOverhead runs on two nodes")
	overheadIterations = flag.Int("overhead.iterations", 450, "how long it runs that: ten checkpoints or more")
)

// BenchmarkOverhead runs a job without checkpoints and with a budget of 10 %, in turns, and
// reports what checkpoints cost of the time without them:
//
//	go test -run '^$' -bench Overhead -benchtime 3x ./coordinator
func BenchmarkOverhead(b *testing.B) {
	var alone, total, still float64
	for i := range b.N {
		for turn := range 2 {
			s := newSpec(b, *overheadApp, 2)
			s.Iterations = *overheadIterations
			if (turn+i)%2 == 0 {
				r, _, _ := mustLaunch(b, s, Options{Job: "alone"})
				alone += r.Wall
				continue
			}
			s.Schedule = job.Schedule{Overhead: 0.1}
			r, rec, _ := mustLaunch(b, s, Options{Job: "protected"})
			total += r.Wall
			for _, ev := range eventsOf[*job.CheckpointEvent](rec) {
				still += ev.Pause
			}
		}
	}
	b.ReportMetric(100*(total/alone-1), "overhead-%")
	b.ReportMetric(100*still/alone, "still-%")
}
