package plan

import (
	"fmt"
)

// PageSize is the unit of all lengths and offsets, in bytes.
const PageSize = 4096

// Layout says which files a checkpoint consists of.
type Layout string

// The layouts.
const (
	PerRank    Layout = "per-rank"   // one file per rank
	Aggregated Layout = "aggregated" // one file per aggregator
	Shared     Layout = "shared"     // one file for the job
)

// Strategy says who writes the bytes of whom.
type Strategy string

// The strategies. In the per-rank layout every rank writes its own file under all of them.
const (
	TwoPhase   Strategy = "two-phase"
	Dynamic    Strategy = "dynamic"
	Static     Strategy = "static"
	Individual Strategy = "individual"
)

// Auto, as a number of aggregators, means for two-phase writing into a shared file one per OST,
// which Larrosa found best on Crow (chapter 1); with fewer ranks the largest number that gives
// each the same number of OSTs; with P4 as many per OST as there are nodes for. Otherwise it is
// one per node.
const Auto = -1

// Settings are the choices that make a plan. A zero number means the default; the switches have
// Defaults.
type Settings struct {
	Layout   Layout   `json:"layout"`   // default per-rank
	Strategy Strategy `json:"strategy"` // default two-phase

	// Aggregators is how many ranks write for the others: at most all ranks, and for two-phase
	// writing into a shared file at most StripeCount or, with P4, a multiple of it. 0 means one
	// per node within these limits; with P4 as many as possible (Larrosa, section 2.3).
	Aggregators int `json:"aggregators"`

	// Buffer is the size of a collective buffer in bytes, a multiple of PageSize; at least one
	// stripe for two-phase writing into a shared file. The default, 16 MiB, is ROMIO's
	// cb_buffer_size.
	Buffer int64 `json:"buffer"`

	// StripeSize is a multiple of 64 KiB, as on Lustre; default 1 MiB. StripeCount is the
	// number of OSTs of a file, 1 to 2000; default 16 (Larrosa, section 2.4). FirstOST has the
	// first stripe of the first file; each further file begins one OST later.
	StripeSize  int64 `json:"stripe_size"`
	StripeCount int   `json:"stripe_count"`
	FirstOST    int   `json:"first_ost"`

	// Header is how many bytes the caller fills at the beginning of every file, a multiple of
	// PageSize.
	Header int64 `json:"header"`

	// Unaligned packs the shared file without regard to stripes, as an MPI program would.
	Unaligned bool `json:"unaligned"`

	P1 bool `json:"p1"` // writers at the same time
	P2 bool `json:"p2"` // gathers at the same time
	P3 bool `json:"p3"` // double buffering
	P4 bool `json:"p4"` // several aggregators per OST; only two-phase into a shared file
}

// Printed are settings as --json prints them.
type Printed struct {
	Layout      Layout   `json:"layout"`
	Strategy    Strategy `json:"strategy"`
	Aggregators int      `json:"aggregators"`
	Buffer      int64    `json:"buffer_bytes"`
	StripeSize  int64    `json:"stripe_bytes"`
	StripeCount int      `json:"stripe_count"`
	P1          bool     `json:"p1"`
	P2          bool     `json:"p2"`
	P3          bool     `json:"p3"`
	P4          bool     `json:"p4"`
}

// Printed returns what --json prints of s.
func (s *Settings) Printed() Printed {
	return Printed{s.Layout, s.Strategy, s.Aggregators, s.Buffer, s.StripeSize, s.StripeCount, s.P1, s.P2, s.P3, s.P4}
}

// Enter replaces what p has of s.
func (p *Printed) Enter(s *Settings) {
	s.Layout, s.Strategy, s.Aggregators, s.Buffer = p.Layout, p.Strategy, p.Aggregators, p.Buffer
	s.StripeSize, s.StripeCount, s.P1, s.P2, s.P3, s.P4 = p.StripeSize, p.StripeCount, p.P1, p.P2, p.P3, p.P4
}

// Limits of the settings: a stripe of Lustre is a multiple of 64 KiB below 4 GiB, a file has at
// most 2000 side by side (Larrosa, section 1.2.4).
const (
	stripeUnit     = 64 << 10
	maxStripeSize  = 4<<30 - stripeUnit
	maxStripeCount = 2000
	maxBuffer      = 1 << 40
	maxFile        = 1 << 60 // far from overflow, whatever is added to it
)

// Defaults returns the settings to start from: a file per rank; else 16 stripes of 1 MiB,
// buffers of 16 MiB, P1 and P2, with which Larrosa measured the highest bandwidth (section
// 2.4).
func Defaults() Settings {
	s := Settings{P1: true, P2: true}
	s.setDefaults()
	return s
}

func (s *Settings) setDefaults() {
	if s.Layout == "" {
		s.Layout = PerRank
	}
	if s.Strategy == "" {
		s.Strategy = TwoPhase
	}
	if s.Buffer == 0 {
		s.Buffer = 16 << 20
	}
	if s.StripeSize == 0 {
		s.StripeSize = 1 << 20
	}
	if s.StripeCount == 0 {
		s.StripeCount = 16
	}
}

// byStripe says that aggregators own OSTs and work stripe by stripe.
func (s *Settings) byStripe() bool { return s.Layout == Shared && s.Strategy == TwoPhase }

// aligned says that ranks and regions begin at stripe boundaries.
func (s *Settings) aligned() bool { return s.Layout == Shared && !s.Unaligned }

// prepared returns s with defaults, checked as far as that does not depend on the job.
func (s Settings) prepared() (Settings, error) {
	s.setDefaults()
	if err := s.check(); err != nil {
		return s, err
	}
	if s.Layout == PerRank {
		s.Strategy = Individual
	}
	if !s.byStripe() {
		s.P4 = false
	}
	return s, nil
}

func (s *Settings) check() error {
	switch s.Layout {
	case PerRank, Aggregated, Shared:
	default:
		return badSetting("layout", fmt.Sprintf("%q", s.Layout), "no such layout", "give per-rank, aggregated or shared")
	}
	switch s.Strategy {
	case TwoPhase, Dynamic, Static, Individual:
	default:
		return badSetting("strategy", fmt.Sprintf("%q", s.Strategy), "no such strategy", "give two-phase, dynamic, static or individual")
	}
	if s.Aggregators < Auto {
		return badSetting("aggregators", s.Aggregators, "must not be negative", "give a number, or auto")
	}
	if s.StripeCount < 1 || s.StripeCount > maxStripeCount {
		return badSetting("stripe-count", s.StripeCount, fmt.Sprintf("must be 1 to %d", maxStripeCount), "give the number of OSTs of the file system that a file shall use")
	}
	if s.StripeSize < stripeUnit || s.StripeSize > maxStripeSize {
		return badSetting("stripe-size", s.StripeSize, fmt.Sprintf("must be %d to %d", stripeUnit, int64(maxStripeSize)), "1MiB is a good stripe size")
	}
	if r := s.StripeSize % stripeUnit; r != 0 {
		remedy := fmt.Sprintf("give %d", s.StripeSize-r)
		if up := s.StripeSize - r + stripeUnit; up <= maxStripeSize {
			remedy += fmt.Sprintf(" or %d", up)
		}
		return badSetting("stripe-size", s.StripeSize, fmt.Sprintf("must be a multiple of %d (64 KiB)", stripeUnit), remedy)
	}
	if s.FirstOST < 0 || s.FirstOST >= s.StripeCount {
		return badSetting("first-ost", s.FirstOST, fmt.Sprintf("must be 0 to %d, below the stripe count", s.StripeCount-1), "give 0")
	}
	if s.Buffer < PageSize || s.Buffer > maxBuffer || s.Buffer%PageSize != 0 {
		return badSetting("buffer", s.Buffer, fmt.Sprintf("must be a multiple of %d, at most 1 TiB", PageSize), "16MiB is a good buffer size")
	}
	if s.byStripe() && s.Buffer < s.StripeSize {
		return badSetting("buffer", s.Buffer, fmt.Sprintf("must be at least the stripe size, %d: an aggregator fills whole stripes", s.StripeSize),
			fmt.Sprintf("give a buffer of %d or more, or smaller stripes", s.StripeSize))
	}
	if s.Header < 0 || s.Header > maxFile || s.Header%PageSize != 0 {
		return badSetting("header", s.Header, fmt.Sprintf("must be a multiple of %d", PageSize), "give 0 or 4096")
	}
	return nil
}

// SettingError says that a setting has a value with which there is no plan.
type SettingError struct {
	Setting string // as the flag is called, like "stripe-size"
	Value   string // what was given
	Reason  string // which limit it breaks
	Remedy  string // what to give instead
}

func (e *SettingError) Error() string {
	return fmt.Sprintf("%s of %s: %s", e.Setting, e.Value, e.Reason)
}

// Hint returns the remedy.
func (e *SettingError) Hint() string { return e.Remedy }

func badSetting(setting string, value any, reason, remedy string) error {
	return &SettingError{Setting: setting, Value: fmt.Sprint(value), Reason: reason, Remedy: remedy}
}
