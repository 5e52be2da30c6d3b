package pfs

// Coarser is the system on which each request stands for k that follow each other: rates and
// caches are k times smaller, and what each request costs is k times larger. A job with a k-th
// of the bytes takes as long on it as the whole job on the system itself, but for how its first
// and its last requests overlap, and is simulated in a k-th of the time. Names, fsync and
// the number of requests in flight stay as they are.
func (s *System) Coarser(k float64) *System {
	if k == 1 {
		return s
	}
	out := *s
	for _, r := range []*Rate{&out.Host.Copy, &out.Host.Network, &out.Host.Stream, &out.Host.Gather.Rate, &out.Host.Gather.Parallel,
		&out.Routers.Rate, &out.Servers.Rate, &out.Servers.CacheRate, &out.Targets.Rate, &out.Targets.ReadRate, &out.Locks.Drop} {
		*r = Rate(float64(*r) / k)
	}
	for _, d := range []*Duration{&out.Host.Latency, &out.Host.Gather.Latency, &out.Host.Gather.PerRank, &out.Servers.PerRequest, &out.Servers.PerRead,
		&out.Targets.Seek, &out.Targets.PerRequest, &out.Locks.Grant, &out.Locks.Callback, &out.Locks.PerWaiter} {
		*d = Duration(float64(*d) * k)
	}
	for _, b := range []*Bytes{&out.Host.Dirty, &out.Routers.Cache, &out.Servers.Cache} {
		if *b > 0 {
			*b = max(1, Bytes(float64(*b)/k))
		}
	}
	return &out
}
