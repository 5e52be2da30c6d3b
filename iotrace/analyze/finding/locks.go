package finding

import "ckpt/iotrace"

// lockWaits is about processes that wait for locks on files. Time in which others read
// or write belongs to other findings.
func lockWaits(s *search) *Finding {
	if s.Ours || s.Locks.Count < s.t.LockWaits {
		return nil
	}
	gain := s.LockOnly
	f := &Finding{Code: "CK26", Title: "processes wait for locks", Gain: &gain,
		Model:    "The time in which a process waits for a lock and none reads or writes.",
		Evidence: []Number{{"lock_waits", float64(s.Locks.Count), float64(s.t.LockWaits)}, {"lock_wait_s", s.Locks.Time, 0}},
		Advice:   "Have one process write the part of a file that several share, or give each a part, or a file, of its own.",
		Hints:    s.ifMPI(sieveWrite, cbWrite)}
	best, most := -1, 0.
	var sieved, written int64
	for i := range s.Files {
		x := &s.Files[i]
		if x.Locks.Count == 0 {
			continue
		}
		f.Files++
		sieved, written = iotrace.Sum(sieved, x.ReadModifyWrite), iotrace.Sum(written, x.Data[0].Bytes)
		if weight := x.Locks.Time + 1e-12*float64(x.Locks.Count); weight > most {
			best, most = i, weight
		}
	}
	if best >= 0 {
		f.File = s.Files[best].Name
	}
	if share(sieved, written) >= s.t.TrafficShare {
		f.Evidence = append(f.Evidence, Number{"sieved_share", share(sieved, written), s.t.TrafficShare})
		f.Advice = "Single writes read a block, change a part of it and write it back, under a lock (data sieving): write without it, or collectively."
	}
	f.Hints = append(f.Hints, ownParts)
	return f
}
