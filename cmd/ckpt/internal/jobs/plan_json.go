package jobs

import "ckpt/image/plan"

// settingsLine is plan.Settings as --json prints it. A store keeps those under names
// of its own.
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

func settingsJSON(s *plan.Settings) settingsLine {
	return settingsLine{Layout: s.Layout, Strategy: s.Strategy, Aggregators: s.Aggregators, Buffer: s.Buffer, StripeSize: s.StripeSize,
		StripeCount: s.StripeCount, FirstOST: s.FirstOST, Header: s.Header, Unaligned: s.Unaligned, P1: s.P1, P2: s.P2, P3: s.P3, P4: s.P4}
}
