package source

import "ckpt/zones"

// Settle decides the roles of processes that were found together. What is no
// launcher passes for a rank, as long as nothing better is known: but where some
// tell their rank, those that do not are others; and where several tell the
// same, as when a script starts the program, only that is the rank which has
// mapped the MPI library, or the last one, its child.
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
