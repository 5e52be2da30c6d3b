package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"ckpt/image/pfs"
	"ckpt/image/plan"
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

// The parameters of contention, by their logarithm.
const (
	storageRate = iota
	networkRate
	lockCallback // last: without locks it is left out
)

// seenLocks is by how much locks must lower the loss: as one more parameter does in 1 of 20
// storages without locks, if checkpoints scatter by a tenth.
const seenLocks = 0.02

// Contended returns a description of a storage that hosts share, with the network of a node and
// the locks that checkpoints of several nodes tell of: what one host cannot measure. The rate of
// the storage follows, since other jobs were on it. Without checkpoints of several nodes, and of
// one file that ranks write into at the same time, it fails.
func Contended(ctx context.Context, sys *pfs.System, runs []Measured) (*pfs.System, []Compared, error) {
	var fit []Measured
	shared := false
	for _, r := range runs {
		if !r.HeldOut && r.Latency > 0 && len(r.Case.Mapping) > 1 {
			fit = append(fit, r)
			shared = shared || r.Case.Settings.Layout == plan.Shared
		}
	}
	if len(fit) <= lockCallback || !shared {
		return nil, nil, fmt.Errorf("%d checkpoints of several nodes tell too little of locks and network: want %d or more, with the layout shared among them", len(fit), lockCallback+1)
	}
	loss := func(at []float64) (sum float64, err error) {
		s := contended(sys, at)
		for _, r := range fit {
			f, err := Predict(ctx, s, r.Case)
			if err != nil {
				return 0, err
			}
			sum += Robust(math.Log(r.Latency / f.Latency.Value))
		}
		return sum + doubtOfFactors*at[storageRate]*at[storageRate], nil
	}
	free := []float64{storageRate: 0, networkRate: math.Log(float64(cmp.Or(sys.Host.Network, usualNetwork)))}
	without, err := Descend(free, loss)
	if err != nil {
		return nil, nil, err
	}
	at := append(slices.Clone(free), math.Log(1e-3))
	with, err := Descend(at, loss)
	if err != nil {
		return nil, nil, err
	}
	if without-with < seenLocks {
		at = free
	}
	is := contended(sys, at)
	is.Unknown = slices.DeleteFunc(slices.Clone(sys.Unknown), func(what string) bool {
		return strings.HasPrefix(what, "locks:") || strings.HasPrefix(what, "the network between hosts")
	})
	is.Unknown = append(is.Unknown, "whether each node was a host of its own: ranks of one host wait for no lock")
	is.Origins = maps.Clone(sys.Origins)
	if is.Origins == nil {
		is.Origins = make(map[string]string)
	}
	is.Origins["host.network"], is.Origins["locks"] = "measured by checkpoints of several nodes", "measured by checkpoints of several nodes"
	return compared(ctx, is, runs)
}

// usualNetwork is where the search for the network of a node begins, in bytes per second.
const usualNetwork = 1e9

// contended returns the description with the parameters.
func contended(sys *pfs.System, at []float64) *pfs.System {
	s := *sys
	e := func(k int) float64 { return math.Exp(at[k]) }
	s.Host.OneHost = false
	s.Targets.Rate *= pfs.Rate(e(storageRate))
	s.Host.Stream *= pfs.Rate(e(storageRate))
	s.Host.Network = pfs.Rate(e(networkRate))
	s.Locks = pfs.Locks{}
	if len(at) > lockCallback {
		s.Locks = pfs.Locks{Kind: pfs.ExtentToEnd, Grant: pfs.Duration(e(lockCallback)), Callback: pfs.Duration(e(lockCallback))}
	}
	return &s
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
