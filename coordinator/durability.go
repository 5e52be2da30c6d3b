package coordinator

import (
	"time"

	"ckpt/coordinator/job"
	"ckpt/image/nodes"
)

// A moment is when a checkpoint was taken: its ranks reached the state that it holds, and then
// computed on: at once, or when it was committed.
type moment struct{ state, on time.Duration }

// Durable notes that a version has become safe on the level that the job asks for. It returns for
// how long the state was not, and how much work a loss of all before would have cost.
func (g *group) Durable(number int) (r job.Risk) {
	at, ok := g.takenAt[number]
	if !ok {
		return r
	}
	now := g.d.now()
	r = job.Risk{Lag: (now - at.state).Seconds(), AtRisk: g.atRisk(now).Seconds()}
	g.safe = max(g.safe, at.state)
	g.d.result.addRisk(r)
	return r
}

// atRisk is how much work would be lost with everything that is not safe.
func (g *group) atRisk(now time.Duration) time.Duration { return max(0, now-g.safe) }

// drains reports whether versions on the nodes become safe in the store only, later.
func (g *group) drains() bool {
	return g.landed != "" && g.spec.Tier.Drain.Mode != nodes.DrainNone
}

// addRisk adds what became safe to the account of a run.
func (r *Result) addRisk(risk job.Risk) {
	if r.Durability == nil {
		r.Durability = &Durability{}
	}
	d := r.Durability
	d.Mean = (d.Mean*float64(d.Checkpoints) + risk.Lag) / float64(d.Checkpoints+1)
	d.Checkpoints++
	d.Max, d.AtRisk = max(d.Max, risk.Lag), max(d.AtRisk, risk.AtRisk)
}

// A Durability is how long the states of a run were at risk, in seconds: each checkpoint from the
// time at which its ranks stopped until it was safe on the level that the job asks for, the store
// or, with --drain none, the nodes.
type Durability struct {
	Checkpoints int     `json:"checkpoints"` // that became safe
	Mean        float64 `json:"lag_mean_s"`
	Max         float64 `json:"lag_max_s"`
	// AtRisk is the most work that a loss of all that was not safe would have cost.
	AtRisk float64 `json:"at_risk_max_s"`
}
