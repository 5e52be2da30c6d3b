package tune

import (
	"maps"

	"ckpt/image/pfs"
)

// Scaled returns a system like another one, on which a checkpoint takes so many times as
// long as it was forecast: what the checkpoint waits for most becomes slower by that
// factor, the processors, the gathering, the metadata, or the storage as a whole.
func Scaled(sys *pfs.System, bottleneck string, factor float64) *pfs.System {
	s := *sys
	slower := func(rates ...*pfs.Rate) {
		for _, r := range rates {
			*r = pfs.Rate(float64(*r) / factor)
		}
	}
	longer := func(times ...*pfs.Duration) {
		for _, t := range times {
			*t = pfs.Duration(float64(*t) * factor)
		}
	}
	switch bottleneck {
	case "processor":
		s.Codecs = maps.Clone(sys.Codecs)
		if s.Codecs == nil {
			s.Codecs = make(map[string]pfs.CodecSpeed)
		}
		for _, name := range codecs {
			known := speedOf(sys, name)
			s.Codecs[name] = pfs.CodecSpeed{Pack: pfs.Rate(known.rate / factor), Ratio: known.ratio}
		}
	case "gather":
		slower(&s.Host.Gather.Rate, &s.Host.Gather.Parallel, &s.Host.Network)
		longer(&s.Host.Gather.Latency, &s.Host.Gather.PerRank)
	case "metadata":
		s.Metadata.Creates /= factor
		s.Metadata.Opens /= factor
		longer(&s.Metadata.Latency, &s.Metadata.Rename, &s.Metadata.SyncDir)
	default:
		slower(&s.Host.Stream, &s.Routers.Rate, &s.Servers.Rate, &s.Servers.CacheRate, &s.Targets.Rate, &s.Targets.ReadRate)
		longer(&s.Targets.Seek, &s.Targets.PerRequest, &s.Sync, &s.Locks.Grant, &s.Locks.Callback)
	}
	return &s
}
