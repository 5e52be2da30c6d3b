package arbiter

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// DefaultPolicy is used where Options name none.
const DefaultPolicy = "wsjf"

// DefaultWindow is how long a turn lasts before the others are looked at, where Options
// do not say.
const DefaultWindow = 500 * time.Millisecond

// Options say how an Arbiter decides. Zero values are defaults.
type Options struct {
	// Policy is one of Policies.
	Policy string
	// Window is how long a turn lasts before the others are looked at;
	// 500 ms, the longest regulation window of Lebre 2006, chapter 7.
	Window time.Duration
	// Lease is how long a connection may be silent before it loses its turn
	// to others; 5 s. Clients give signs of life several times per lease.
	Lease time.Duration
	// Grace is how long a burst of a connection that lives may take to answer
	// a revocation; two leases.
	Grace time.Duration
	// MaxWait is how long an application waits before it goes next, whatever
	// the policy; 60 s.
	MaxWait time.Duration
	// Linger is how long the unit stays with an application whose bursts have
	// all ended, if connections of it are expected to ask; 2 ms, the
	// aggregation wait of Lebre 2006, chapter 7. Below 0: not at all.
	Linger time.Duration
	// Stall is after how long without progress a turn is revoked if others
	// wait, or four times the longest silence between two operations of the
	// application, if that is more; 5 s. Clients that say when they are idle
	// lose the turn sooner.
	Stall time.Duration
	// Share returns the share of a user, 1 if nil. A user with 2 is served
	// twice as much as one with 1 while both wait.
	Share func(user string) float64
	// MaxConns and MaxBursts limit connections, and the bursts of each;
	// 65,536 and 1,024.
	MaxConns, MaxBursts int
}

// Policies returns the names of all policies.
func Policies() []string { return []string{"none", "fifo", "rr", "srpt", "mlf", "wsjf"} }

func (o Options) withDefaults() (Options, error) {
	if o.Policy == "" {
		o.Policy = DefaultPolicy
	}
	if !slices.Contains(Policies(), o.Policy) {
		return o, fmt.Errorf("unknown policy %q of storage turns (want %s)", o.Policy, strings.Join(Policies(), ", "))
	}
	for _, d := range []struct {
		name string
		v    *time.Duration
		def  time.Duration
	}{
		{"window", &o.Window, DefaultWindow},
		{"lease", &o.Lease, 5 * time.Second},
		{"grace", &o.Grace, 0},
		{"longest wait", &o.MaxWait, time.Minute},
		{"stall", &o.Stall, 5 * time.Second},
	} {
		if *d.v < 0 {
			return o, fmt.Errorf("%s of storage turns is %v, want 0 (the default) or more", d.name, *d.v)
		}
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if o.Grace == 0 {
		o.Grace = 2 * o.Lease
	}
	switch {
	case o.Linger == 0:
		o.Linger = 2 * time.Millisecond
	case o.Linger < 0:
		o.Linger = 0
	}
	if o.MaxConns <= 0 {
		o.MaxConns = 65536
	}
	if o.MaxBursts <= 0 {
		o.MaxBursts = 1024
	}
	if o.Share == nil {
		o.Share = func(string) float64 { return 1 }
	}
	return o, nil
}
