package tune

import (
	"context"
	"errors"
	"maps"
	"math"

	"ckpt/image/pfs"
)

// A Measured checkpoint is one that was taken, in medians of several.
type Measured struct {
	Case                  Case
	Coordination, Latency float64 // seconds
	// HeldOut keeps it from the fit: it is for the misfit.
	HeldOut bool
}

// A Compared checkpoint is a measured one, and what the description gives for it.
type Compared struct {
	Measured
	Forecast Forecast
}

// Off is the logarithm of the measured by the predicted latency.
func (c *Compared) Off() float64 { return math.Log(c.Latency / c.Forecast.Latency.Value) }

// Parameters of a calibration, which are searched by their logarithm. The first three are
// times, the others factors of what probes measured.
const (
	base = iota
	perRank
	perFile
	gatherFactor
	packFactor
	rateFactor
	syncFactor
)

// doubtOfFactors is what a factor adds to the loss: it stays at 1 unless checkpoints say
// otherwise.
const doubtOfFactors = 0.05

// Calibrate returns a description that gives what checkpoints of ckpt took: with the costs
// of the service, and with rates of probes corrected to those that jobs had. The misfit is
// then that of checkpoints that were held out, together with that of held-out probes.
func Calibrate(ctx context.Context, sys *pfs.System, runs []Measured) (*pfs.System, []Compared, error) {
	var fit []Measured
	for _, r := range runs {
		if !r.HeldOut && r.Latency > 0 {
			fit = append(fit, r)
		}
	}
	if len(fit) == 0 {
		return nil, nil, errors.New("no checkpoint was measured")
	}
	sys = withService(sys, pfs.Service{})
	var err error
	if sys.Service.Coordination, err = fitCoordination(fit); err != nil {
		return nil, nil, err
	}
	at := []float64{base: math.Log(1e-3), perRank: math.Log(1e-4), perFile: math.Log(2e-4), gatherFactor: 0, packFactor: 0, rateFactor: 0, syncFactor: 0}
	_, err = Descend(at, func(at []float64) (float64, error) {
		s, sum := calibrated(sys, at), 0.0
		for _, r := range fit {
			f, err := Predict(ctx, s, r.Case)
			if err != nil {
				return 0, err
			}
			sum += Robust(math.Log(r.Latency / f.Latency.Value))
		}
		for _, x := range at[gatherFactor:] {
			sum += doubtOfFactors * x * x
		}
		return sum, nil
	})
	if err != nil {
		return nil, nil, err
	}
	sys = calibrated(sys, at)
	return compared(ctx, sys, runs)
}

// compared predicts all runs, and adds those that were held out to the misfit.
func compared(ctx context.Context, sys *pfs.System, runs []Measured) (*pfs.System, []Compared, error) {
	var list []Compared
	n := float64(sys.Misfit.Count)
	square := n * sys.Misfit.Scatter * sys.Misfit.Scatter
	for _, r := range runs {
		f, err := Predict(ctx, sys, r.Case)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, Compared{r, f})
		if off := list[len(list)-1].Off(); r.HeldOut {
			n, square = n+1, square+off*off
		}
	}
	if n > 0 {
		sys.Misfit.Scatter, sys.Misfit.Count = math.Sqrt(square/n), int(n)
	}
	return sys, list, nil
}

// fitCoordination fits the time until ranks are told to write.
func fitCoordination(runs []Measured) (pfs.Cost, error) {
	cost := func(at []float64) pfs.Cost {
		return pfs.Cost{Base: pfs.Duration(math.Exp(at[0])), PerRank: pfs.Duration(math.Exp(at[1]))}
	}
	at := []float64{math.Log(5e-4), math.Log(1e-4)}
	_, err := Descend(at, func(at []float64) (float64, error) {
		sum := 0.0
		for _, r := range runs {
			sum += Robust(math.Log(max(r.Coordination, 1e-5) / cost(at).Of(r.Case.ranks(), 0)))
		}
		return sum, nil
	})
	return cost(at), err
}

func withService(sys *pfs.System, service pfs.Service) *pfs.System {
	s := *sys
	s.Service = service
	return &s
}

// calibrated returns the description with the parameters.
func calibrated(sys *pfs.System, at []float64) *pfs.System {
	s := *sys
	e := func(k int) float64 { return math.Exp(at[k]) }
	s.Service.Management = pfs.Cost{Base: pfs.Duration(e(base)), PerRank: pfs.Duration(e(perRank)), PerFile: pfs.Duration(e(perFile))}
	s.Host.Gather.Rate *= pfs.Rate(e(gatherFactor))
	s.Host.Gather.Parallel *= pfs.Rate(e(gatherFactor))
	s.Targets.Rate *= pfs.Rate(e(rateFactor))
	s.Host.Stream *= pfs.Rate(e(rateFactor))
	s.Sync *= pfs.Duration(e(syncFactor))
	s.Codecs = maps.Clone(s.Codecs)
	for name, c := range s.Codecs {
		if name != none {
			// No job packs faster than a processor that does nothing else.
			c.Pack *= pfs.Rate(min(1, e(packFactor)))
			s.Codecs[name] = c
		}
	}
	return &s
}

// ranks is how many ranks the case has.
func (c *Case) ranks() int {
	if c.Ranks != nil {
		return len(c.Ranks)
	}
	if c.Memory != nil {
		return len(c.Memory.Sources)
	}
	return c.Instance.NP
}
