package jobs

import "ckpt/image/plan"

// settingsLine is plan.Settings as --json prints it. A store keeps those under names
// of its own. Its fields are those of plan.Settings, so that one converts into the other.
type settingsLine struct {
	Layout      plan.Layout   `json:"layout"`
	Strategy    plan.Strategy `json:"strategy"`
	Aggregators int           `json:"aggregators"`
	Buffer      int64         `json:"buffer_bytes"`
	StripeSize  int64         `json:"stripe_bytes"`
	StripeCount int           `json:"stripe_count"`
	FirstOST    int           `json:"first_ost"`
	Header      int64         `json:"header_bytes"`
	Unaligned   bool          `json:"unaligned"`
	P1          bool          `json:"p1"`
	P2          bool          `json:"p2"`
	P3          bool          `json:"p3"`
	P4          bool          `json:"p4"`
}
