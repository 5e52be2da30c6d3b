package tune

import (
	"context"
	"math"

	"ckpt/image/pfs"
	"ckpt/image/plan"
)

// A Place is where the bytes of a checkpoint are unpacked when it is read.
type Place string

// The places.
const (
	AtRanks       Place = "ranks"       // each rank reads and unpacks its own, as ckpt does
	AtAggregators Place = "aggregators" // they read, unpack, and send memory to the others
)

// A Restart is how long all ranks take to read a whole checkpoint and to unpack it, from
// where they run.
type Restart struct {
	Place      Place
	Seconds    Seconds
	Bottleneck string
}

// readDoubt is the factor by which the ends of the interval are further away than those of a
// write: probes of a storage write.
const readDoubt = 3

// Restarts predicts how long a restart reads the checkpoint of a forecast: at each rank, and at
// the aggregators where it has any. Unpacking takes processors, and memory takes more of the
// network than packed bytes: so the place matters (Larrosa, Málaga 2015, section 4.3).
func Restarts(ctx context.Context, sys *pfs.System, c Case, f *Forecast) ([]Restart, error) {
	c.Codec, c.Following = f.Codec, false
	l, err := c.load(c.Codec, speedOf(sys, c.Codec).ratio)
	if err != nil {
		return nil, err
	}
	places := []Place{AtRanks}
	if f.Settings.Strategy != plan.Individual && f.Settings.Layout != plan.PerRank {
		places = append(places, AtAggregators)
	}
	var list []Restart
	for _, place := range places {
		r, err := c.restart(ctx, sys, l, f.Settings, place)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// restart predicts the reading at a place.
func (c *Case) restart(ctx context.Context, sys *pfs.System, l *load, s plan.Settings, place Place) (r Restart, err error) {
	if place == AtRanks {
		s.Strategy, s.P3, s.P4 = plan.Individual, false, false
		if s.Layout != plan.Aggregated {
			s.Aggregators = 0
		}
	}
	k := c.coarseness(sys, l, &s)
	p, err := l.coarser(k).plan(s)
	if err != nil {
		return r, err
	}
	unpack := &pfs.Unpack{Rate: speedOf(sys, c.Codec).unpack / k, Ratio: l.ratio(), Sender: place == AtAggregators}
	job := pfs.Job{Plan: p, Read: true, Depth: depth, Unpack: unpack, Targets: c.Targets}
	result, err := pfs.Run(ctx, sys.Coarser(k), []pfs.Job{job}, pfs.Options{Seed: c.Seed, Background: c.Background})
	if err != nil {
		return r, err
	}
	doubt := c.Doubt
	if k > 1 {
		doubt = math.Hypot(doubt, coarseDoubt)
	}
	seconds, factor := result.Jobs[0].Seconds, readDoubt*intervalOf(sys, doubt, len(p.Writers))
	return Restart{place, Seconds{seconds, seconds / factor, seconds * factor}, result.Jobs[0].Bottleneck}, nil
}

// ratio is how many bytes a codec stores for a byte of memory that it was offered.
func (l *load) ratio() float64 {
	var offered int64
	for _, n := range l.offered {
		offered += n
	}
	if offered == 0 {
		return 1
	}
	return max(1e-6, float64(l.bytes())/float64(offered))
}
