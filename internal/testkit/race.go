//go:build race

package testkit

// Enabled says whether the race detector is on, which makes everything slow.
const Enabled = true
