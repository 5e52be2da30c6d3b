package coordinator

import (
	"fmt"
	"os"
	"testing"
	"time"

	"ckpt/coordinator/job"
	"ckpt/image/nodes"
)

// pauses returns the mean pause of the checkpoints of a run, in seconds, and their bytes.
func pauses(b *testing.B, rec *recorder) (pause float64, bytes int64) {
	b.Helper()
	taken := eventsOf[*job.CheckpointEvent](rec)
	if len(taken) == 0 {
		b.Fatal("no checkpoint was taken")
	}
	for _, ev := range taken {
		pause += ev.Pause / float64(len(taken))
		bytes = ev.StoredBytes
	}
	return pause, bytes
}

// BenchmarkTierPause compares the pause for checkpoints on the nodes, with a copy on a
// partner, with that for writing to a store of a tenth of the rate: share must be at most
// 0.5.
func BenchmarkTierPause(b *testing.B) {
	for range b.N {
		s := newSpec(b, "bt.A.4", 2)
		s.Codec, s.Incremental, s.Iterations = "none", false, 30 // two checkpoints: no slot is waited for
		opt, shut, open := gatedRun(b, "job", &s)
		plain := func(name string) (float64, int64) {
			forRank(b, name, envStore, os.Getenv(rankVariable(opt.Job, envStore)))
			opt.Job, opt.Observer = name, &recorder{t: b}
			_, rec, _ := mustLaunch(b, s, opt)
			return pauses(b, rec)
		}
		fast, bytes := plain("fast")
		shut(fmt.Sprint(float64(bytes) / fast / 10 / float64(s.NP)))
		slow, _ := plain("slow")
		tier := tiered(b, "bt.A.4", 2, "partner", "behind")
		s.Tier = tier.Tier
		near, _ := plain("near")
		open()
		b.ReportMetric(near/slow, "share")
		b.ReportMetric(fast, "fast-s")
		b.ReportMetric(slow, "slow-s")
		b.ReportMetric(near, "near-s")
	}
}

// BenchmarkTierDrain compares how many iterations a job does per second while a checkpoint
// is copied into the store, at a limited rate, with one that stores nothing.
func BenchmarkTierDrain(b *testing.B) {
	rates := map[string]int64{"none": 0, "4MiB": 4 << 20, "64MiB": 64 << 20}
	for _, name := range []string{"none", "4MiB", "64MiB"} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				s := tiered(b, "bt.A.4", 2, "partner", "behind")
				if name == "none" {
					s.Tier.Drain = nodes.Drain{Mode: nodes.DrainNone}
				}
				s.Codec, s.Iterations, s.Schedule.Every, s.Tier.Rate = "none", 40, 10, rates[name]
				var first, last time.Time // checkpoints
				still := 0.0
				rec := &recorder{t: b, on: func(ev any) {
					cp, ok := ev.(*job.CheckpointEvent)
					switch {
					case ok && cp.Number == 1:
						first = time.Now()
					case ok && cp.Number <= 3:
						last = time.Now()
						still += cp.Pause
					}
				}}
				mustLaunch(b, s, Options{Observer: rec})
				b.ReportMetric(20/(last.Sub(first).Seconds()-still), "iterations/s")
			}
		})
	}
}
