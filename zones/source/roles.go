package source

import "ckpt/zones"

// Settle decides the roles of processes that were found together. By default, every
// process other than a launcher is a rank. If some processes know their rank, the
// others are not ranks. If several know the same rank, as when a script starts the
// program, the rank is the one that has mapped the MPI library, or the last one, the
// child.
func Settle(ps []*zones.Process) {
	for _, group := range groupsOf(ps) {
		settle(group)
	}
}

func groupsOf(ps []*zones.Process) map[string][]*zones.Process {
	members := make(map[string][]*zones.Process)
	for _, p := range ps {
		members[p.Group] = append(members[p.Group], p)
	}
	return members
}

func settle(ps []*zones.Process) {
	type place struct {
		host string
		rank int
	}
	best := make(map[place]*zones.Process)
	for _, p := range ps {
		if p.Role != zones.RoleRank || p.Rank < 0 {
			continue
		}
		k := place{p.Host, p.Rank}
		if b := best[k]; b == nil || p.MPI != "" || b.MPI == "" {
			best[k] = p
		}
	}
	if len(best) == 0 {
		return
	}
	for _, p := range ps {
		if p.Role == zones.RoleRank && best[place{p.Host, p.Rank}] != p {
			p.Role = zones.RoleOther
		}
	}
}
